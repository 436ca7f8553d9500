//! Tests of the identity of data that two nodes share: seals, and the note of a restore.

use std::sync::Arc;
use std::time::Duration;

use super::super::DataDirectory;
use super::shared_database::{hold_shared, open_shared};
use crate::testing::{ScratchDirectory, TestDatabase, edit};
use crate::{AutomaticSeal, SealConfig, SealKey, Store, StoreFault};
use bulkhead_place::claim_watch::ClaimTimes;

const TWO_OF_THREE: SealConfig = SealConfig { shares: 3, threshold: 2 };

fn key(byte: u8) -> SealKey {
    SealKey::from_bytes([byte; 32])
}

/// A node: its data directory, and its open store.
struct Node {
    _scratch: ScratchDirectory,
    directory: Arc<DataDirectory>,
    store: Arc<Store>,
}

async fn node(scratch: ScratchDirectory) -> Node {
    let directory = hold_shared(&scratch, ClaimTimes::default()).await.unwrap();
    let store = directory.open(key(1)).await.unwrap();
    Node { _scratch: scratch, directory, store }
}

async fn two_nodes() -> (Node, Node) {
    let scratch = ScratchDirectory::on(TestDatabase::Postgres);
    scratch.open().await.close().await;
    let beside = scratch.beside();
    (node(scratch).await, node(beside).await)
}

impl Node {
    async fn rekey(&self, new: u8) -> Result<(), StoreFault> {
        self.directory.rekey(&self.store, TWO_OF_THREE, &key(new)).await.map(drop)
    }

    async fn is_key(&self, byte: u8) -> bool {
        self.directory.has_unseal_key(&self.store, vec![key(byte)]).await.unwrap()
    }
}

#[tokio::test]
async fn rekey_replaces_only_key_that_was_proven() {
    let (one, other) = two_nodes().await;
    assert!(one.is_key(1).await && other.is_key(1).await);
    one.rekey(2).await.unwrap();
    for _ in 0..2 {
        let refused = other.rekey(3).await.unwrap_err().to_string();
        assert!(refused.contains("another node changed the seals"), "{refused}");
    }
    assert!(other.is_key(2).await && !other.is_key(3).await);
    other.rekey(3).await.unwrap();
    assert!(one.is_key(3).await && !one.is_key(2).await);
}

#[tokio::test]
async fn seals_changed_by_other_node_are_known() {
    let (one, other) = two_nodes().await;
    assert_eq!(other.directory.seal_config().await, Ok(Some(SealConfig::SINGLE)));
    one.rekey(2).await.unwrap();
    let seal = AutomaticSeal { kind: "static".into(), key_id: "a".into(), wrapped_key: Vec::new() };
    one.directory.seal_automatically(&one.store, seal.clone(), &key(3)).await.unwrap();
    let followed_seals = async {
        let mut seals = other.directory.seals().await.unwrap().unwrap();
        while seals.automatic.is_none() {
            tokio::task::yield_now().await;
            seals = other.directory.seals().await.unwrap().unwrap();
        }
        seals
    };
    let seals = tokio::time::timeout(Duration::from_secs(20), followed_seals).await.unwrap();
    assert_eq!((seals.holders, seals.automatic), (Some(TWO_OF_THREE), Some(seal)));
}

#[tokio::test]
async fn automatic_seals_of_two_nodes_do_not_mix() {
    let (one, other) = two_nodes().await;
    let seal = |id: &str, key: &str| AutomaticSeal {
        kind: "static".into(),
        key_id: id.into(),
        wrapped_key: key.into(),
    };
    let (first, second) = (key(2), key(3));
    let (of_one, of_other) = tokio::join!(
        one.directory.seal_automatically(&one.store, seal("one", "1"), &first),
        other.directory.seal_automatically(&other.store, seal("other", "2"), &second),
    );
    assert!(of_one.is_ok() || of_other.is_ok(), "{of_one:?} {of_other:?}");
    one.store.close().await;
    other.store.close().await;
    let mut opened = 0;
    for byte in [2, 3] {
        if let Ok(store) = one.directory.open_automatically(&key(byte)).await {
            opened += 1;
            store.close().await;
        }
    }
    assert_eq!(opened, 1);
}

#[tokio::test]
async fn release_on_one_node_releases_the_other() {
    let scratch = ScratchDirectory::on(TestDatabase::Postgres);
    let store = scratch.open().await;
    edit(&store, "INSERT INTO meta (name, value) VALUES ('restored', x'35')").await;
    store.close().await;
    let beside = scratch.beside();
    let one = open_shared(&scratch, ClaimTimes::default()).await.unwrap();
    let other = open_shared(&beside, ClaimTimes::default()).await.unwrap();
    assert_eq!((one.restored(), other.restored()), (Some(5), Some(5)));
    one.release().await.unwrap();
    other.data().changes.await_next().await.unwrap();
    assert_eq!((one.restored(), other.restored()), (None, None));
    other.release().await.unwrap();
}

#[tokio::test]
async fn restore_is_refused_while_other_node_lives() {
    let (one, other) = two_nodes().await;
    one.store.close().await;
    let beside = other._scratch.beside();
    let refused = DataDirectory::hold_for_restore(beside.options(), true).await.err().unwrap();
    assert!(refused.to_string().contains("in use by another node"), "{refused}");
}

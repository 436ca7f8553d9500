//! Data directories as earlier releases wrote them, opened by this one.
//!
//! Each file in `fixtures` is the database of a directory, as the statements that make it. It is
//! never changed: a format that this release no longer opens is one that operators cannot update.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what tests share fails by panicking, too")]

use bulkhead_store::{
    Address, DataDirectory, IndexColumns, KeyShare, Record, SealConfig, SealKey, ShareCollector,
    ShareProgress, Space, Store, StoreOptions, split,
};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _};
use std::path::PathBuf;
use std::sync::Arc;

/// The database, whose unseal key is 32 times 7, split into five shares of which three open.
const FIRST_RELEASE: &str = include_str!("../fixtures/release-0.1.sql");
/// A text that this release sealed for its holder.
const SEALED_TEXT: &str = include_str!("../fixtures/release-0.1.text");

/// A directory of this test alone, removed when dropped.
struct Directory(PathBuf);

impl Directory {
    async fn of(statements: &'static str) -> Self {
        let name = format!("bulkhead-release-{}", std::process::id());
        let directory = Self(std::env::temp_dir().join(name));
        std::fs::create_dir(&directory.0).unwrap();
        let file = directory.0.join("bulkhead.db");
        let options = SqliteConnectOptions::new().filename(file).create_if_missing(true);
        let mut connection = options.connect().await.unwrap();
        sqlx::raw_sql(statements).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
        directory
    }

    async fn hold(&self) -> Arc<DataDirectory> {
        DataDirectory::hold(StoreOptions::at(&self.0)).await.unwrap()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

/// The unseal key, put together from three of its shares.
fn key() -> SealKey {
    let config = SealConfig::new(5, 3).unwrap();
    let shares = split(&SealKey::from_bytes([7; 32]), config).unwrap();
    let mut collector = ShareCollector::new(config);
    for share in shares.iter().skip(2) {
        let share = KeyShare::parse(&share.hex()).unwrap();
        if let ShareProgress::Enough(key) = collector.add(share).unwrap() {
            return key;
        }
    }
    panic!("three shares are enough")
}

async fn read(store: &Arc<Store>, space: Space, key: &str) -> Record {
    store.begin().get(&Address::new(space, key)).await.unwrap().unwrap()
}

#[tokio::test]
async fn first_release_directory_opens_with_all_records() {
    let directory = Directory::of(FIRST_RELEASE).await;
    let data_directory = directory.hold().await;
    assert_eq!(data_directory.seal_config().await.unwrap(), Some(SealConfig::new(5, 3).unwrap()));
    let store = data_directory.open(key()).await.unwrap();
    assert_eq!(store.key_status().term, 2);

    let root = store.keyed_hash("token", b"root");
    assert_eq!(&*read(&store, Space::Token, &root).await.body, b"the root token");
    let sealed = store.open_text("batch token", SEALED_TEXT.trim()).await.unwrap().unwrap();
    assert_eq!(sealed.as_slice(), b"a sealed text");
    let policy = read(&store, Space::Core, "policy/orders").await;
    assert_eq!(
        (&*policy.body, policy.index),
        (&b"body of policy/orders"[..], IndexColumns::default())
    );
    let due = Some(1_767_225_600_000);
    for (space, key, lane, owner) in [
        (Space::Lease, "m/creds/a", "m/orders", "9f2c"),
        (Space::Reservation, "m/creds/b", "", ""),
        (Space::Timer, "m/rotate", "", ""),
        (Space::Blob, "wasm/00", "", ""),
    ] {
        let record = read(&store, space, key).await;
        assert_eq!(&*record.body, format!("body of {key}").as_bytes());
        let index = IndexColumns { due, lane: lane.to_owned(), owner: owner.to_owned() };
        assert_eq!(record.index, index, "{key}");
    }

    assert_eq!(store.revision("m").await.unwrap(), 2);
    let (a, b) =
        (read(&store, Space::Data, "m/role/a").await, read(&store, Space::Data, "m/role/b").await);
    assert_eq!(
        (&*a.body, a.created, a.modified),
        (&b"first"[..], 1, 1),
        "sealed before a rotation"
    );
    assert_eq!((&*b.body, b.created, b.modified), (&b"second"[..], 1, 2));
    // By the index that was added since, and added once.
    let due = store.due_in_lane((Space::Lease, "m/orders"), u64::MAX, 9).await.unwrap();
    assert_eq!(due.into_iter().map(|due| due.address.key).collect::<Vec<_>>(), ["m/creds/a"]);
    store.close().await;
    drop(store);
    let store = data_directory.open(key()).await.unwrap();
    let lanes = store.due_lanes(Space::Timer, ("", "~"), u64::MAX).await.unwrap();
    assert_eq!((lanes.lanes, lanes.next), (vec![String::new()], None));
    store.close().await;
}

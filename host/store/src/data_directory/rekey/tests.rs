//! Tests of rekeys, and of changes of the automatic seal.

use super::*;
use crate::testing::{ScratchDirectory, body, data, edit, put};
use crate::{DataSeals, FirstKeys};

const TWO_OF_THREE: SealConfig = SealConfig { shares: 3, threshold: 2 };

fn key(byte: u8) -> SealKey {
    SealKey::from_bytes([byte; 32])
}

async fn opened() -> (ScratchDirectory, Arc<DataDirectory>, Arc<Store>) {
    let scratch = ScratchDirectory::new();
    let directory = scratch.hold().await;
    directory
        .initialise(FirstKeys::of_holders(SealConfig::SINGLE, &key(1)), |_| Ok(Vec::new()))
        .await
        .unwrap();
    let store = directory.open(key(1)).await.unwrap();
    put(&store, data("a"), "1").await;
    (scratch, directory, store)
}

#[tokio::test]
async fn rekey_leaves_only_new_key_and_keeps_data() {
    let (_scratch, directory, store) = opened().await;
    assert!(directory.has_unseal_key(&store, vec![key(2), key(1)]).await.unwrap());
    directory.rekey(&store, TWO_OF_THREE, &key(2)).await.unwrap();
    assert_eq!(directory.seal_config().await, Ok(Some(TWO_OF_THREE)));
    assert!(!directory.has_unseal_key(&store, vec![key(1)]).await.unwrap());
    assert!(directory.has_unseal_key(&store, vec![key(2)]).await.unwrap());
    store.rotate().await.unwrap();
    store.close().await;
    assert!(matches!(directory.open(key(1)).await.map(drop), Err(StoreFault::WrongKey)));
    let store = directory.open(key(2)).await.unwrap();
    assert_eq!(body(&store, &data("a")).await.unwrap(), "1");
}

#[tokio::test]
async fn rekey_that_cannot_be_stored_keeps_old_key() {
    let (_scratch, directory, store) = opened().await;
    let trigger = "CREATE TRIGGER no BEFORE UPDATE ON meta WHEN new.name = 'root' \
         BEGIN SELECT RAISE(ABORT, 'no'); END";
    edit(&store, trigger).await;
    let failed = directory.rekey(&store, TWO_OF_THREE, &key(2)).await;
    assert!(matches!(failed, Err(StoreFault::Unavailable(_))), "{failed:?}");
    assert_eq!(directory.seal_config().await, Ok(Some(SealConfig::SINGLE)));
    assert!(directory.has_unseal_key(&store, vec![key(1)]).await.unwrap());
    assert!(!directory.has_unseal_key(&store, vec![key(2)]).await.unwrap());
    edit(&store, "DROP TRIGGER no").await;
    directory.rekey(&store, TWO_OF_THREE, &key(2)).await.unwrap();
}

#[tokio::test]
async fn rekey_continues_after_caller_leaves() {
    let (_scratch, directory, store) = opened().await;
    {
        let key = key(2);
        let mut rekey = Box::pin(directory.rekey(&store, TWO_OF_THREE, &key));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(rekey.as_mut().poll(&mut context).is_pending());
    }
    // The writes of a store are made one after another.
    while directory.seal_config().await != Ok(Some(TWO_OF_THREE)) {
        tokio::task::yield_now().await;
    }
    assert!(directory.has_unseal_key(&store, vec![key(2)]).await.unwrap());
}

#[tokio::test]
async fn invalid_share_split_is_refused_without_change() {
    let (_scratch, directory, store) = opened().await;
    for (shares, threshold) in [(5, 1), (2, 3), (0, 0)] {
        let refused = directory.rekey(&store, SealConfig { shares, threshold }, &key(2)).await;
        assert!(matches!(refused, Err(StoreFault::Refused(_))), "{refused:?}");
    }
    assert!(directory.has_unseal_key(&store, vec![key(1)]).await.unwrap());
}

fn seal(key_id: &str) -> AutomaticSeal {
    AutomaticSeal { kind: "static".into(), key_id: key_id.into(), wrapped_key: Vec::new() }
}

async fn opens_automatically(directory: &Arc<DataDirectory>, byte: u8) -> bool {
    match directory.open_automatically(&key(byte)).await {
        Ok(store) => {
            assert_eq!(body(&store, &data("a")).await.unwrap(), "1");
            store.close().await;
            true
        }
        Err(StoreFault::WrongKey) => false,
        Err(other) => panic!("{other}"),
    }
}

#[tokio::test]
async fn automatic_seal_opens_beside_recovery_key() {
    let scratch = ScratchDirectory::new();
    let directory = scratch.hold().await;
    let (automatic, recovery) = (key(1), key(2));
    let keys = FirstKeys::automatic(seal("one"), &automatic, Some((TWO_OF_THREE, &recovery)));
    directory.initialise(keys, |_| Ok(Vec::new())).await.unwrap();
    let seals = directory.seals().await.unwrap().unwrap();
    assert_eq!(seals, DataSeals { holders: Some(TWO_OF_THREE), automatic: Some(seal("one")) });
    let store = directory.open_automatically(&automatic).await.unwrap();
    put(&store, data("a"), "1").await;
    assert!(directory.has_unseal_key(&store, vec![key(2)]).await.unwrap());
    assert!(!directory.has_unseal_key(&store, vec![key(1)]).await.unwrap());
    store.close().await;
    assert!(!opens_automatically(&directory, 2).await);
    assert!(matches!(directory.open(key(1)).await.map(drop), Err(StoreFault::WrongKey)));
    directory.open(key(2)).await.unwrap().close().await;
    drop(directory);
    let reread = scratch.hold().await;
    assert_eq!(reread.seals().await.unwrap().unwrap(), seals);
}

#[tokio::test]
async fn data_without_holders_open_by_automatic_seal_alone() {
    let scratch = ScratchDirectory::new();
    let directory = scratch.hold().await;
    let automatic = key(1);
    let keys = FirstKeys::automatic(seal("one"), &automatic, None);
    directory.initialise(keys, |_| Ok(Vec::new())).await.unwrap();
    assert_eq!(directory.seal_config().await, Ok(None));
    let store = directory.open_automatically(&key(1)).await.unwrap();
    let refused = directory.remove_automatic_seal(&store).await;
    assert!(
        matches!(&refused, Err(StoreFault::Refused(why)) if why.contains("nobody holds")),
        "{refused:?}"
    );
    store.close().await;
    assert!(directory.open(key(1)).await.is_err());
    directory.open_automatically(&key(1)).await.unwrap().close().await;
}

#[tokio::test]
async fn automatic_seal_is_added_replaced_and_removed() {
    let (scratch, directory, store) = opened().await;
    directory.seal_automatically(&store, seal("one"), &key(2)).await.unwrap();
    assert_eq!(directory.seals().await.unwrap().unwrap().automatic, Some(seal("one")));
    directory.seal_automatically(&store, seal("two"), &key(3)).await.unwrap();
    store.close().await;
    assert!(!opens_automatically(&directory, 2).await);
    assert!(opens_automatically(&directory, 3).await);
    let store = directory.open(key(1)).await.unwrap();
    directory.remove_automatic_seal(&store).await.unwrap();
    let left = DataSeals { holders: Some(SealConfig::SINGLE), automatic: None };
    assert_eq!(directory.seals().await.unwrap(), Some(left.clone()));
    store.close().await;
    assert!(!opens_automatically(&directory, 3).await);
    drop((store, directory));
    assert_eq!(scratch.hold().await.seals().await.unwrap(), Some(left));
}

#[tokio::test]
async fn automatic_seal_that_cannot_be_stored_changes_nothing() {
    let (_scratch, directory, store) = opened().await;
    directory.seal_automatically(&store, seal("one"), &key(2)).await.unwrap();
    let trigger = "CREATE TRIGGER no BEFORE UPDATE ON meta WHEN new.name = 'seal-root' \
         BEGIN SELECT RAISE(ABORT, 'no'); END";
    edit(&store, trigger).await;
    let failed = directory.seal_automatically(&store, seal("two"), &key(3)).await;
    assert!(matches!(failed, Err(StoreFault::Unavailable(_))), "{failed:?}");
    assert_eq!(directory.seals().await.unwrap().unwrap().automatic, Some(seal("one")));
    store.close().await;
    assert!(opens_automatically(&directory, 2).await);
    assert!(!opens_automatically(&directory, 3).await);
}

#[tokio::test]
async fn edited_or_missing_seal_row_is_refused() {
    for row in ["seal-key-id", "seal-wrapped-key", "seal-root"] {
        let (scratch, directory, store) = opened().await;
        directory.seal_automatically(&store, seal("one"), &key(2)).await.unwrap();
        store.database().change_identity(vec![(row, None)]).await.unwrap();
        store.close().await;
        drop((store, directory));
        let refused = DataDirectory::hold(scratch.options()).await.map(drop);
        assert!(
            matches!(&refused, Err(StoreFault::Refused(why)) if why.contains(row)),
            "{row}: {refused:?}"
        );
    }
    let (_scratch, directory, store) = opened().await;
    directory.seal_automatically(&store, seal("one"), &key(2)).await.unwrap();
    edit(&store, "UPDATE meta SET value = x'74776f' WHERE name = 'seal-key-id'").await;
    store.close().await;
    assert!(!opens_automatically(&directory, 2).await);
}

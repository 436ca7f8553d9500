//! Tests of copies of the closed database, and of interrupted changes.

use std::sync::Arc;

use super::*;
use crate::testing::{ScratchDirectory, body, data, put};
use crate::{FirstKeys, SealConfig, SealKey};

fn key() -> SealKey {
    SealKey::from_bytes([1; 32])
}

async fn closed_with(value: &str) -> (ScratchDirectory, Arc<DataDirectory>) {
    let scratch = ScratchDirectory::of_files();
    let directory = scratch.hold().await;
    let key = key();
    let keys = FirstKeys::of_holders(SealConfig::SINGLE, &key);
    directory.initialise(keys, |_| Ok(Vec::new())).await.unwrap();
    change(&directory, value).await;
    (scratch, directory)
}

async fn change(directory: &Arc<DataDirectory>, value: &str) {
    let store = directory.open(key()).await.unwrap();
    put(&store, data("a"), value).await;
    store.close().await;
}

async fn value(directory: &Arc<DataDirectory>) -> String {
    let store = directory.open(key()).await.unwrap();
    let value = body(&store, &data("a")).await.unwrap();
    store.close().await;
    value
}

#[tokio::test]
async fn database_returns_to_its_copy_once() {
    let (scratch, directory) = closed_with("before").await;
    assert!(!directory.has_copies().await.unwrap());
    directory.set_aside(3).await.unwrap();
    assert!(directory.has_copies().await.unwrap());
    change(&directory, "after").await;
    assert!(!directory.put_back(4).await.unwrap());
    assert_eq!(value(&directory).await, "after");
    assert!(directory.put_back(3).await.unwrap());
    assert_eq!(value(&directory).await, "before");
    fs::copy(scratch.path().join("bulkhead.db.undone"), scratch.path().join("bulkhead.db.copy-9"))
        .unwrap();
    directory.set_aside(8).await.unwrap();
    assert!(directory.put_back(9).await.unwrap());
    assert_eq!(value(&directory).await, "after", "the replaced database stays");
    assert!(directory.put_back(8).await.unwrap());
    assert!(!directory.put_back(3).await.unwrap());
    directory.set_aside(3).await.unwrap();
    change(&directory, "later").await;
    directory.forget_copy(3).await.unwrap();
    directory.forget_copy(3).await.unwrap();
    assert!(!directory.put_back(3).await.unwrap());
    assert_eq!(value(&directory).await, "later");
}

#[tokio::test]
async fn chosen_copy_replaces_database_after_death() {
    let (scratch, directory) = closed_with("before").await;
    directory.set_aside(0).await.unwrap();
    let store = directory.open(key()).await.unwrap();
    put(&store, data("a"), "after").await;
    // The log of the database that was killed holds the change.
    let crashed = scratch.crashed();
    fs::rename(
        scratch.path().join("bulkhead.db.copy-0"),
        crashed.path().join("bulkhead.db.put-back"),
    )
    .unwrap();
    assert!(crashed.path().join("bulkhead.db-wal").exists());
    assert_eq!(value(&crashed.hold().await).await, "before");
    assert!(!crashed.path().join("bulkhead.db.put-back").exists());
    assert!(crashed.path().join("bulkhead.db.undone-wal").exists());
}

#[tokio::test]
async fn replaced_database_keeps_log_after_second_start() {
    let (scratch, directory) = closed_with("before").await;
    directory.set_aside(0).await.unwrap();
    let store = directory.open(key()).await.unwrap();
    put(&store, data("a"), "after").await;
    let crashed = scratch.crashed();
    let file = |name: &str| crashed.path().join(name);
    fs::rename(scratch.path().join("bulkhead.db.copy-0"), file("bulkhead.db.put-back")).unwrap();
    let log = fs::read(file("bulkhead.db-wal")).unwrap();
    assert_eq!(value(&crashed.hold().await).await, "before");
    assert_eq!(fs::read(file("bulkhead.db.undone-wal")).unwrap(), log);
    // The state of a process that died between the renames of the replaced files.
    fs::rename(file("bulkhead.db"), file("bulkhead.db.put-back")).unwrap();
    fs::rename(file("bulkhead.db.undone-wal"), file("bulkhead.db-wal")).unwrap();
    assert_eq!(value(&crashed.hold().await).await, "before");
    assert_eq!(fs::read(file("bulkhead.db.undone-wal")).unwrap(), log);
}

#[tokio::test]
async fn chosen_copy_prevents_initialisation() {
    let (scratch, directory) = closed_with("restored").await;
    let cluster = directory.cluster_id().await.unwrap();
    for asks_first in [true, false] {
        let elsewhere = ScratchDirectory::of_files();
        let directory = elsewhere.hold().await;
        assert_eq!(directory.cluster_id().await.unwrap(), None);
        // The database was moved away, and the last rename failed.
        let chosen = elsewhere.path().join("bulkhead.db.put-back");
        fs::copy(scratch.path().join("bulkhead.db"), chosen).unwrap();
        if asks_first {
            assert_eq!(directory.cluster_id().await.unwrap(), cluster);
        }
        let key = SealKey::from_bytes([2; 32]);
        let keys = FirstKeys::of_holders(SealConfig::SINGLE, &key);
        let refused = directory.initialise(keys, |_| Ok(Vec::new())).await;
        assert!(matches!(refused, Err(StoreFault::Refused(why)) if why.contains("already")));
        assert_eq!(value(&directory).await, "restored");
    }
}

#[tokio::test]
async fn open_data_are_neither_copied_nor_replaced() {
    let (_scratch, directory) = closed_with("before").await;
    directory.set_aside(0).await.unwrap();
    let store = directory.open(key()).await.unwrap();
    for refused in [directory.set_aside(1).await, directory.put_back(0).await.map(drop)] {
        assert!(matches!(refused, Err(StoreFault::Unavailable(why)) if why.contains("open")));
    }
    store.close().await;
}

//! Snapshots of one database that are restored to another.

use super::restoring::{copy_of, prepare, varied, without_times};
use super::*;
use crate::testing::TestDatabase;
use crate::{Address, Space};

/// Takes a snapshot on one database and restores the snapshot on another.
async fn restore_between(from: TestDatabase, to: TestDatabase) {
    let scratch = ScratchDirectory::on(from);
    let store = varied(&scratch).await;
    put(&store, Address::new(Space::Token, "odd\u{1}\0"), "odd").await;
    let (bytes, _) = take(&store).await;
    let (before, counts) = (reference(&store).await, store.stored_bytes().await.unwrap());
    let elsewhere = ScratchDirectory::on(to);
    let present = elsewhere.open().await;
    put(&present, data("present"), "1").await;
    present.close().await;
    drop(present);
    let directory = elsewhere.hold().await;
    let file = saved(&scratch, &bytes);
    for _ in 0..2 {
        // The first restore is not completed.
        drop(prepare(&directory, &file).await.unwrap());
        let prepared = prepare(&directory, &file).await.unwrap();
        let owner = Arc::clone(&directory);
        let replaced = tokio::task::spawn_blocking(move || owner.put_restored(prepared)).await;
        replaced.unwrap().unwrap();
        let restored = directory.open(SealKey::from_bytes([1; 32])).await.unwrap();
        assert!(restored.restored().is_some());
        let without = |rows| without_schema(without_times(rows));
        assert!(
            without(reference(&restored).await) == without(before.iter().map(copy_of).collect())
        );
        assert_eq!(restored.stored_bytes().await.unwrap(), counts);
        restored.release().await.unwrap();
        put(&restored, data("mount/after"), "1").await;
        restored.close().await;
    }
}

/// Returns the rows without the version of the schema, which belongs to each database.
fn without_schema(rows: Vec<SnapshotRow>) -> Vec<SnapshotRow> {
    let is_schema =
        |row: &SnapshotRow| matches!(row, SnapshotRow::Identity(name, _) if name == "schema");
    rows.into_iter().filter(|row| !is_schema(row)).collect()
}

#[tokio::test]
async fn snapshot_of_sqlite_is_restored_to_postgres() {
    restore_between(TestDatabase::Sqlite, TestDatabase::Postgres).await;
}

#[tokio::test]
async fn snapshot_of_postgres_is_restored_to_sqlite() {
    restore_between(TestDatabase::Postgres, TestDatabase::Sqlite).await;
}

#[tokio::test]
async fn snapshot_of_postgres_is_restored_to_postgres() {
    restore_between(TestDatabase::Postgres, TestDatabase::Postgres).await;
}

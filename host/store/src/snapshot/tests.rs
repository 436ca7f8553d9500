//! Snapshots against the database that they were taken of, and files that are not snapshots.

use std::future::poll_fn;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bulkhead_wire::byte_stream::ByteSource as _;
use bulkhead_wire::failure::Failure;
use futures_util::TryStreamExt as _;

use super::reading::read_snapshot;
use super::*;
use crate::testing::{ScratchDirectory, TestDatabase, data, edit, put, put_indexed};
use crate::{AutomaticSeal, DataDirectory, FirstKeys, SealKey, Store, StoreFault};
use bulkhead_record::archive::ArchiveWriter;
use bulkhead_record::record::IndexColumns;
use bulkhead_record::row_format::SnapshotRow;
use bulkhead_record::shamir::{KeyShare, SealConfig, split};

mod between_databases;
mod hostile;
mod restoring;
mod under_writes;
mod without_server;

/// Longest wait for a condition on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

fn origin() -> SnapshotOrigin {
    SnapshotOrigin {
        server_version: "0.1.0".to_owned(),
        store_time: 1_800_000_000_000,
        taken_at: "2027-01-15T08:00:00Z".to_owned(),
    }
}

async fn next(stream: &mut SnapshotStream) -> Option<Result<Vec<u8>, Failure>> {
    poll_fn(|context| stream.poll_chunk(context)).await
}

/// Takes a snapshot, and returns its bytes and the size of the largest piece.
async fn take(store: &Arc<Store>) -> (Vec<u8>, usize) {
    let mut stream = store.snapshot(origin()).await.unwrap();
    let (mut bytes, mut largest) = (Vec::new(), 0);
    while let Some(piece) = next(&mut stream).await {
        let piece = piece.unwrap();
        largest = largest.max(piece.len());
        bytes.extend_from_slice(&piece);
    }
    (bytes, largest)
}

fn rows_of(bytes: &[u8]) -> (SnapshotSummary, Vec<SnapshotRow>) {
    let mut rows = Vec::new();
    let keep = |row| {
        rows.push(row);
        Ok(())
    };
    let summary = read_snapshot(bytes, keep).unwrap();
    (summary, rows)
}

/// Returns all rows of the database, of one state.
async fn reference(store: &Arc<Store>) -> Vec<SnapshotRow> {
    let mut reader = store.database().begin_snapshot().await.unwrap();
    let identity = reader.identity_rows().await.unwrap().into_iter();
    let mut rows: Vec<SnapshotRow> =
        identity.map(|(name, value)| SnapshotRow::Identity(name, value)).collect();
    let records: Vec<_> = reader.records().try_collect().await.unwrap();
    rows.extend(records.into_iter().map(|record| SnapshotRow::Record(record.unwrap())));
    reader.close().await;
    rows
}

async fn filled(scratch: &ScratchDirectory) -> Arc<Store> {
    let store = scratch.open().await;
    let index = IndexColumns { due: Some(5), lane: "l".to_owned(), owner: "o".to_owned() };
    put_indexed(&store, data("mount/a"), "first", index).await;
    put(&store, data("mount/b"), "second").await;
    store
}

/// Takes a snapshot of a filled store, closes the store, and returns the bytes of the snapshot.
async fn take_and_close(scratch: &ScratchDirectory) -> Vec<u8> {
    let store = filled(scratch).await;
    let (bytes, _) = take(&store).await;
    store.close().await;
    bytes
}

fn saved(scratch: &ScratchDirectory, bytes: &[u8]) -> PathBuf {
    let path = scratch.path().join("a.snap");
    std::fs::write(&path, bytes).unwrap();
    path
}

#[tokio::test]
async fn snapshot_holds_every_row_and_manifest() {
    let scratch = ScratchDirectory::new();
    let store = filled(&scratch).await;
    let (bytes, _) = take(&store).await;
    let (summary, rows) = rows_of(&bytes);
    assert_eq!(rows, reference(&store).await);
    let manifest = summary.manifest;
    assert_eq!((manifest.format, manifest.records, manifest.key_term), (2, 2, 1));
    assert_eq!((manifest.schema, manifest.taken_at.as_str()), (5, "2027-01-15T08:00:00Z"));
    store.close().await;
    let directory = scratch.hold().await;
    assert_eq!(Some(manifest.cluster_id), directory.cluster_id().await.unwrap());
}

#[tokio::test]
async fn pieces_of_large_snapshot_stay_small() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    for number in 0..48 {
        put(&store, data(&format!("mount/{number}")), &"x".repeat(200_000)).await;
    }
    let (bytes, largest) = take(&store).await;
    assert!(
        bytes.len() > 9_000_000 && largest < 2 * bulkhead_record::archive::PART_BYTES,
        "{largest}"
    );
    assert_eq!(rows_of(&bytes).1, reference(&store).await);
}

#[tokio::test]
async fn cut_snapshot_is_refused_at_every_byte() {
    let scratch = ScratchDirectory::new();
    let store = filled(&scratch).await;
    let (bytes, _) = take(&store).await;
    for length in 0..bytes.len() {
        let read = read_snapshot(&bytes[..length], |_| Ok(()));
        assert!(matches!(read, Err(StoreFault::Refused(_))), "{length} bytes: {read:?}");
    }
    let longer = [bytes.as_slice(), b"x"].concat();
    assert!(matches!(read_snapshot(longer.as_slice(), |_| Ok(())), Err(StoreFault::Refused(_))));
}

/// Some bits of the gzip format carry nothing, such as the time in its header.
#[tokio::test]
async fn edited_snapshot_is_refused_or_reads_same() {
    let scratch = ScratchDirectory::new();
    let store = filled(&scratch).await;
    let (bytes, _) = take(&store).await;
    let original = rows_of(&bytes);
    let mut harmless = 0;
    for place in 0..bytes.len() {
        let mut edited = bytes.clone();
        edited[place] ^= 0x40;
        let mut rows = Vec::new();
        let keep = |row| {
            rows.push(row);
            Ok(())
        };
        match read_snapshot(edited.as_slice(), keep) {
            Ok(summary) => {
                assert!((summary, rows) == original, "byte {place}");
                harmless += 1;
            }
            Err(StoreFault::Refused(_)) => {}
            Err(other) => panic!("byte {place}: {other}"),
        }
    }
    assert!(harmless < 32, "{harmless}");
}

#[tokio::test]
async fn third_snapshot_is_refused_until_another_ends() {
    let scratch = ScratchDirectory::new();
    let store = filled(&scratch).await;
    for number in 0..48 {
        put(&store, data(&format!("mount/{number}")), &"x".repeat(200_000)).await;
    }
    let first = store.snapshot(origin()).await.unwrap();
    let _second = store.snapshot(origin()).await.unwrap();
    let third = store.snapshot(origin()).await;
    assert!(matches!(third, Err(StoreFault::Unavailable(_))));
    drop(first);
    let freed = async {
        loop {
            match store.snapshot(origin()).await {
                Ok(_) => return,
                Err(StoreFault::Unavailable(_)) => tokio::task::yield_now().await,
                Err(other) => panic!("{other}"),
            }
        }
    };
    tokio::time::timeout(PATIENCE, freed).await.expect("the first snapshot frees its place");
}

#[tokio::test]
async fn closing_store_ends_snapshot_with_fault() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    for number in 0..48 {
        put(&store, data(&format!("mount/{number}")), &"x".repeat(200_000)).await;
    }
    let mut stream = store.snapshot(origin()).await.unwrap();
    next(&mut stream).await.unwrap().unwrap();
    store.close().await;
    let mut last = None;
    while let Some(piece) = next(&mut stream).await {
        last = Some(piece);
    }
    assert!(last.unwrap().is_err(), "the snapshot is not taken for complete");
    assert!(store.snapshot(origin()).await.is_err());
}

#[tokio::test]
async fn check_names_damaged_records_of_directory_and_snapshot() {
    let scratch = ScratchDirectory::of_files();
    let store = filled(&scratch).await;
    edit(&store, "UPDATE record SET owner = 'x' WHERE key = 'mount/b'").await;
    edit(&store, "INSERT INTO record VALUES (99, 'k', x'00', 0, '', '', 0, 0, x'00')").await;
    let (bytes, _) = take(&store).await;
    let path = saved(&scratch, &bytes);
    let busy = check_directory(scratch.path(), Vec::new(), &mut |_| {}).await;
    assert!(matches!(busy, Err(StoreFault::Refused(text)) if text.contains("in use")));
    store.close().await;
    drop(store);
    let key = || vec![SealKey::from_bytes([1; 32]).share()];
    let before = std::fs::read(scratch.path().join("bulkhead.db")).unwrap();
    let mut opened = Vec::new();
    let mut keep = |record: OpenedRecord<'_>| opened.push(record.address.to_string());
    let of_directory = check_directory(scratch.path(), key(), &mut keep).await.unwrap();
    let of_snapshot = check_snapshot(&path, key(), &mut keep).await.unwrap();
    assert_eq!(opened, ["data:mount/a", "data:mount/a"]);
    for report in [of_directory, of_snapshot] {
        let places: Vec<&str> = report.damages.iter().map(|damage| damage.place.as_str()).collect();
        assert_eq!(places, ["data:mount/b", "99:k"]);
        assert_eq!((report.records, report.opened), (3, Some(1)));
    }
    let without_key = check_directory(scratch.path(), Vec::new(), &mut |_| {}).await.unwrap();
    assert_eq!((without_key.damages.len(), without_key.opened), (1, None));
    let wrong = vec![SealKey::from_bytes([2; 32]).share()];
    let refused = check_snapshot(&path, wrong, &mut |_| {}).await;
    assert!(matches!(refused, Err(StoreFault::WrongKey)));
    assert_eq!(std::fs::read(scratch.path().join("bulkhead.db")).unwrap(), before);
}

#[tokio::test]
async fn tables_in_use_are_checked_in_one_state() {
    let scratch = ScratchDirectory::on(TestDatabase::Postgres);
    let key = || vec![SealKey::from_bytes([1; 32]).share()];
    let options = scratch.options();
    let empty = check_store(&options, key(), &mut |_| {}).await;
    assert!(matches!(empty, Err(StoreFault::Refused(text)) if text.contains("holds no data")));
    let store = scratch.open().await;
    put(&store, data("mount/a"), "1").await;
    put(&store, data("mount/b"), "1").await;
    edit(&store, "UPDATE record SET sealed = x'00' WHERE key = 'mount/b'").await;
    let mut opened = Vec::new();
    let mut keep = |record: OpenedRecord<'_>| opened.push(record.address.to_string());
    let report = check_store(&options, key(), &mut keep).await.unwrap();
    assert_eq!((report.records, report.opened), (2, Some(1)));
    assert_eq!(report.damages[0].place, "data:mount/b");
    assert_eq!(opened, ["data:mount/a"]);
    let wrong = vec![SealKey::from_bytes([2; 32]).share()];
    let refused = check_store(&options, wrong, &mut |_| {}).await;
    assert!(matches!(refused, Err(StoreFault::WrongKey)));
    store.close().await;
    let of_files = ScratchDirectory::of_files();
    of_files.open().await.close().await;
    let report = check_store(&of_files.options(), key(), &mut |_| {}).await.unwrap();
    assert_eq!(report.records, 0);
}

#[tokio::test]
async fn check_combines_shares_and_asks_for_more() {
    let scratch = ScratchDirectory::new();
    let directory: Arc<DataDirectory> = scratch.hold().await;
    let config = SealConfig::new(3, 2).unwrap();
    let key = SealKey::generate().unwrap();
    let shares: Vec<KeyShare> = split(&key, config).unwrap();
    let keys = FirstKeys::of_holders(config, &key);
    directory.initialise(keys, |_| Ok(Vec::new())).await.unwrap();
    let store = directory.open(key).await.unwrap();
    put(&store, data("mount/a"), "first").await;
    let (bytes, _) = take(&store).await;
    let path = saved(&scratch, &bytes);
    let few = check_snapshot(&path, shares[..1].to_vec(), &mut |_| {}).await;
    assert!(matches!(few, Err(StoreFault::Refused(text)) if text.contains("need 2")));
    let report = check_snapshot(&path, shares[1..].to_vec(), &mut |_| {}).await.unwrap();
    assert_eq!((report.opened, report.damages.len()), (Some(1), 0));
}

#[tokio::test]
async fn check_takes_key_of_automatic_seal() {
    let scratch = ScratchDirectory::new();
    let directory: Arc<DataDirectory> = scratch.hold().await;
    let (automatic, recovery) = (SealKey::from_bytes([7; 32]), SealKey::from_bytes([8; 32]));
    let seal = AutomaticSeal { kind: "static".into(), key_id: "1".into(), wrapped_key: Vec::new() };
    let holders = Some((SealConfig::SINGLE, &recovery));
    let keys = FirstKeys::automatic(seal, &automatic, holders);
    directory.initialise(keys, |_| Ok(Vec::new())).await.unwrap();
    let store = directory.open_automatically(&automatic).await.unwrap();
    put(&store, data("mount/a"), "first").await;
    let (bytes, _) = take(&store).await;
    let path = saved(&scratch, &bytes);
    for key in [automatic, recovery] {
        let report = check_snapshot(&path, vec![key.share()], &mut |_| {}).await.unwrap();
        assert_eq!((report.opened, report.damages.len()), (Some(1), 0));
    }
    let wrong = vec![SealKey::from_bytes([9; 32]).share()];
    assert!(matches!(check_snapshot(&path, wrong, &mut |_| {}).await, Err(StoreFault::WrongKey)));
}

#[tokio::test]
async fn removed_record_is_noticed_with_key() {
    let scratch = ScratchDirectory::new();
    let store = filled(&scratch).await;
    let (bytes, _) = take(&store).await;
    let (summary, rows) = rows_of(&bytes);
    let manifest = SnapshotManifest { records: 1, ..summary.manifest };
    let mut part = Vec::new();
    for row in &rows[..rows.len() - 1] {
        match row {
            SnapshotRow::Identity(name, value) => {
                bulkhead_record::row_format::push_identity(&mut part, name, value).unwrap();
            }
            SnapshotRow::Record(record) => {
                bulkhead_record::row_format::push_record(&mut part, record).unwrap()
            }
        }
    }
    let mut archive = ArchiveWriter::default();
    archive.add("meta.json", manifest.to_json().to_string().as_bytes()).unwrap();
    archive.add("state.00000000.bin", &part).unwrap();
    let path = saved(&scratch, &archive.finish(|_| summary.sealed_sums.clone()).unwrap());
    assert_eq!(inspect_snapshot(&path).unwrap().manifest.records, 1, "the digests are right");
    let key = vec![SealKey::from_bytes([1; 32]).share()];
    let report = check_snapshot(&path, key, &mut |_| {}).await.unwrap();
    assert_eq!(report.damages[0].place, "SHA256SUMS.sealed");
}

#[test]
fn newer_and_foreign_snapshots_are_refused_with_version() {
    let of_manifest = |text: &str| {
        let mut archive = ArchiveWriter::default();
        archive.add("meta.json", text.as_bytes()).unwrap();
        archive.finish(|_| String::new()).unwrap()
    };
    let newer = of_manifest(
        r#"{"kind": "bulkhead snapshot", "version": 2, "format": 2, "server_version": "9.0.0"}"#,
    );
    for (bytes, part) in [
        (newer, "Bulkhead 9.0.0"),
        (of_manifest(r#"{"Version": 1, "ID": "bolt"}"#), "of another program"),
        (b"SQLite format 3\0".to_vec(), "gzip"),
        (Vec::new(), "too early"),
    ] {
        let Err(StoreFault::Refused(text)) = read_snapshot(bytes.as_slice(), |_| Ok(())) else {
            panic!("{part}")
        };
        assert!(text.contains(part), "{text}");
    }
}

//! Restores: the new database against the snapshot, files that are refused, and the replacement.

use super::*;
use crate::clock::tests::TestClock;
use crate::testing::body;
use crate::{Address, Space};
use sqlx::ConnectOptions as _;
use sqlx::sqlite::SqliteConnection;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

fn key(byte: u8) -> SealKey {
    SealKey::from_bytes([byte; 32])
}

/// Fills a store with records of several kinds, some of them with index columns.
pub(super) async fn varied(scratch: &ScratchDirectory) -> Arc<Store> {
    let store = filled(scratch).await;
    for number in 0..300 {
        let index = IndexColumns {
            due: (number % 3 == 0).then_some(number),
            lane: if number % 2 == 0 { format!("mount/{}", number % 7) } else { String::new() },
            owner: if number % 5 == 0 { "owner".to_owned() } else { String::new() },
        };
        let lease = Address::new(Space::Lease, format!("mount/{number:03}"));
        put_indexed(&store, lease, &"x".repeat(number as usize * 9), index).await;
    }
    for key in ["cubbyhole/caller/a", "wrapped-content/caller/b", "mounts"] {
        put(&store, Address::new(Space::Core, key), key).await;
    }
    put(&store, data("large/a"), &"y".repeat(900_000)).await;
    put(&store, data("large/b"), &"z".repeat(900_000)).await;
    store
}

async fn stored_counts(store: &Arc<Store>) -> Vec<(String, i64)> {
    let read = async |connection: &mut SqliteConnection| {
        sqlx::query_as("SELECT mount, bytes FROM stored ORDER BY mount").fetch_all(connection).await
    };
    store.database().sqlite().inspect(read).await.unwrap()
}

/// Returns the rows without the two rows of `meta` that a restore writes.
pub(super) fn without_times(rows: Vec<SnapshotRow>) -> Vec<SnapshotRow> {
    let is_time = |row: &SnapshotRow| match row {
        SnapshotRow::Identity(name, _) => name == "time" || name == "restored",
        SnapshotRow::Record(_) => false,
    };
    rows.into_iter().filter(|row| !is_time(row)).collect()
}

/// Writes a complete archive with these rows and this manifest.
pub(super) fn archived(
    scratch: &ScratchDirectory,
    manifest: &SnapshotManifest,
    rows: &[SnapshotRow],
) -> PathBuf {
    let mut part = Vec::new();
    for row in rows {
        match row {
            SnapshotRow::Identity(name, value) => {
                bulkhead_record::row_format::push_identity(&mut part, name, value).unwrap();
            }
            SnapshotRow::Record(record) => {
                bulkhead_record::row_format::push_record(&mut part, record).unwrap()
            }
        }
    }
    let records = rows.iter().filter(|row| matches!(row, SnapshotRow::Record(_))).count();
    let manifest = SnapshotManifest {
        records: records as u64,
        identity_rows: (rows.len() - records) as u64,
        ..manifest.clone()
    };
    let mut archive = ArchiveWriter::default();
    archive.add("meta.json", manifest.to_json().to_string().as_bytes()).unwrap();
    archive.add("state.00000000.bin", &part).unwrap();
    saved(scratch, &archive.finish(|_| String::new()).unwrap())
}

pub(super) fn copy_of(row: &SnapshotRow) -> SnapshotRow {
    match row {
        SnapshotRow::Identity(name, value) => SnapshotRow::Identity(name.clone(), value.clone()),
        SnapshotRow::Record(record) => SnapshotRow::Record(record.clone()),
    }
}

/// Returns the rows with other values of the identity. `None` removes a row.
pub(super) fn with_identity(
    rows: &[SnapshotRow],
    change: impl Fn(&str, &[u8]) -> Option<Vec<u8>>,
) -> Vec<SnapshotRow> {
    let changed = rows.iter().filter_map(|row| match row {
        SnapshotRow::Identity(name, value) => {
            Some(SnapshotRow::Identity(name.clone(), change(name, value)?))
        }
        SnapshotRow::Record(_) => Some(copy_of(row)),
    });
    changed.collect()
}

#[track_caller]
pub(super) fn refusal(outcome: Result<PreparedRestore, StoreFault>) -> String {
    match outcome {
        Err(StoreFault::Refused(text)) => text,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("the restore was prepared"),
    }
}

pub(super) async fn prepare(
    directory: &DataDirectory,
    path: &Path,
) -> Result<PreparedRestore, StoreFault> {
    directory.prepare_restore(path, RestoreConditions::any()).await
}

/// Returns whether a restore that accepts the cluster of `store` alone is prepared.
async fn is_of(directory: &DataDirectory, path: &Path, store: &Store) -> bool {
    let conditions = RestoreConditions::any().accepting(|checked| {
        assert!(!directory.path().join("bulkhead.db.restored").exists(), "nothing is built yet");
        let other = || StoreFault::Refused("of another cluster".to_owned());
        checked.is_of(store).then_some(()).ok_or_else(other)
    });
    match directory.prepare_restore(path, conditions).await {
        Ok(_) => true,
        Err(StoreFault::Refused(text)) if text == "of another cluster" => false,
        Err(other) => panic!("{other}"),
    }
}

#[tokio::test]
async fn restored_database_equals_snapshot_row_by_row() {
    let scratch = ScratchDirectory::of_files();
    let directory = scratch.hold().await;
    let first = key(1);
    let keys = FirstKeys::of_holders(SealConfig::SINGLE, &first);
    directory.initialise(keys, |_| Ok(Vec::new())).await.unwrap();
    directory.open(key(1)).await.unwrap().close().await;
    drop(directory);
    let store = varied(&scratch).await;
    let (bytes, _) = take(&store).await;
    let (_, rows) = rows_of(&bytes);
    let counts = stored_counts(&store).await;
    assert!(counts.len() >= 4, "{counts:?}");
    put(&store, data("mount/later"), "lost").await;
    store.close().await;
    drop(store);
    let directory = scratch.hold().await;
    let store = directory.open(key(1)).await.unwrap();
    assert!(is_of(&directory, &saved(&scratch, &bytes), &store).await);
    let prepared = prepare(&directory, &scratch.path().join("a.snap")).await.unwrap();
    assert!(matches!(directory.put_restored(prepared), Err(StoreFault::Unavailable(_))), "open");
    let prepared = prepare(&directory, &scratch.path().join("a.snap")).await.unwrap();
    let mode = |name: &str| {
        std::fs::metadata(scratch.path().join(name)).unwrap().permissions().mode() & 0o777
    };
    assert_eq!(mode("bulkhead.db.restored"), 0o600);
    store.close().await;
    directory.put_restored(prepared).unwrap();
    let restored = directory.open_like(&store).await.unwrap();
    assert_eq!(without_times(reference(&restored).await), without_times(rows));
    assert_eq!(stored_counts(&restored).await, counts);
    assert_eq!(body(&restored, &data("mount/a")).await.as_deref(), Some("first"));
    assert_eq!(body(&restored, &data("mount/later")).await, None);
    put(&restored, data("mount/new"), "after").await;
    restored.close().await;
    let names: Vec<String> = scratch.files().into_keys().collect();
    assert_eq!(names, ["a.snap", "bulkhead.db", "bulkhead.db.undone", "lock"]);
    assert_eq!(mode("bulkhead.db"), 0o600);
}

#[tokio::test]
async fn restored_file_has_format_of_new_database() {
    let (original, scratch) = (ScratchDirectory::of_files(), ScratchDirectory::of_files());
    let store = filled(&original).await;
    let (bytes, _) = take(&store).await;
    store.close().await;
    let snapshot = saved(&original, &bytes);
    let options = crate::StoreOptions::at(scratch.path().join("data"));
    restore_store(options, &snapshot, false).await.unwrap();
    let mut settings = Vec::new();
    for directory in [original.path().to_owned(), scratch.path().join("data")] {
        let options = sqlx::sqlite::SqliteConnectOptions::new()
            .filename(directory.join("bulkhead.db"))
            .read_only(true);
        let mut connection = options.connect().await.unwrap();
        let mut of_file = Vec::new();
        for pragma in ["PRAGMA page_size", "PRAGMA auto_vacuum", "PRAGMA encoding"] {
            let row = sqlx::query(pragma).fetch_one(&mut connection).await.unwrap();
            of_file.push(sqlx::Row::try_get_unchecked::<String, _>(&row, 0).unwrap());
        }
        let mode: String =
            sqlx::query_scalar("PRAGMA journal_mode").fetch_one(&mut connection).await.unwrap();
        of_file.push(mode);
        let schema: Vec<String> =
            sqlx::query_scalar("SELECT coalesce(sql, name) FROM sqlite_schema ORDER BY name")
                .fetch_all(&mut connection)
                .await
                .unwrap();
        of_file.extend(schema);
        settings.push(of_file);
    }
    assert_eq!(settings[0], settings[1]);
    assert!(settings[0].contains(&"wal".to_owned()));
}

#[tokio::test]
async fn damaged_snapshot_changes_no_file() {
    let scratch = ScratchDirectory::of_files();
    let bytes = take_and_close(&scratch).await;
    let directory = scratch.hold().await;
    let before = scratch.files();
    let elsewhere = ScratchDirectory::of_files();
    let mut damaged: Vec<Vec<u8>> =
        (0..bytes.len()).step_by(97).map(|length| bytes[..length].to_vec()).collect();
    for place in (30..bytes.len()).step_by(331) {
        let mut edited = bytes.clone();
        edited[place] ^= 0x40;
        damaged.push(edited);
    }
    damaged.push([bytes.as_slice(), b"x"].concat());
    for file in damaged {
        let path = saved(&elsewhere, &file);
        let refused = prepare(&directory, &path).await;
        if read_snapshot(file.as_slice(), |_| Ok(())).is_err() {
            assert!(refusal(refused).contains("not a complete snapshot"));
        } else {
            drop(refused.unwrap());
        }
        assert!(scratch.files() == before, "{} bytes", file.len());
    }
}

#[tokio::test]
async fn other_cluster_opens_with_own_key_alone() {
    let (original, scratch) = (ScratchDirectory::of_files(), ScratchDirectory::of_files());
    let store = original.open_with(2).await.unwrap();
    put(&store, data("mount/other"), "there").await;
    let (bytes, _) = take(&store).await;
    let snapshot = saved(&original, &bytes);
    filled(&scratch).await.close().await;
    let directory = scratch.hold().await;
    let before = directory.cluster_id().await.unwrap();
    let here = directory.open(key(1)).await.unwrap();
    assert!(!is_of(&directory, &snapshot, &here).await);
    assert!(is_of(&directory, &snapshot, &store).await);
    let prepared = prepare(&directory, &snapshot).await.unwrap();
    let of_snapshot = prepared.manifest().cluster_id.clone();
    here.close().await;
    directory.put_restored(prepared).unwrap();
    assert_eq!(directory.open_like(&here).await.err(), Some(StoreFault::WrongKey));
    assert_eq!(directory.open(key(1)).await.err(), Some(StoreFault::WrongKey));
    assert_eq!(directory.cluster_id().await.unwrap(), Some(of_snapshot));
    assert_ne!(directory.cluster_id().await.unwrap(), before);
    let restored = directory.open(key(2)).await.unwrap();
    assert_eq!(body(&restored, &data("mount/other")).await.as_deref(), Some("there"));
    assert_eq!(body(&restored, &data("mount/a")).await, None);
}

#[tokio::test]
async fn changed_digests_are_not_of_the_cluster() {
    let (scratch, elsewhere) = (ScratchDirectory::of_files(), ScratchDirectory::of_files());
    let bytes = take_and_close(&scratch).await;
    let directory = scratch.hold().await;
    let store = directory.open(key(1)).await.unwrap();
    let (summary, rows) = rows_of(&bytes);
    let path = archived(&elsewhere, &summary.manifest, &rows[..rows.len() - 1]);
    assert!(!is_of(&directory, &path, &store).await);
}

#[tokio::test]
async fn restored_data_wait_for_release_over_restarts() {
    let scratch = ScratchDirectory::of_files();
    let store = filled(&scratch).await;
    assert_eq!(store.restored(), None);
    let (bytes, _) = take(&store).await;
    store.close().await;
    drop(store);
    let directory = scratch.hold().await;
    let prepared = prepare(&directory, &saved(&scratch, &bytes)).await.unwrap();
    let restored_at = prepared.restored_at();
    directory.put_restored(prepared).unwrap();
    for _ in 0..2 {
        let store = directory.open(key(1)).await.unwrap();
        assert_eq!(store.restored(), Some(restored_at));
        store.close().await;
    }
    let store = directory.open(key(1)).await.unwrap();
    edit(&store, "CREATE TRIGGER no BEFORE DELETE ON meta BEGIN SELECT RAISE(ABORT, 'no'); END")
        .await;
    assert!(store.release().await.is_err());
    assert_eq!(store.restored(), Some(restored_at), "the note is still there");
    edit(&store, "DROP TRIGGER no").await;
    for _ in 0..2 {
        store.release().await.unwrap();
        assert_eq!(store.restored(), None);
    }
    store.close().await;
    assert_eq!(directory.open(key(1)).await.unwrap().restored(), None);
}

#[tokio::test]
async fn store_time_never_goes_back_by_restore() {
    let (scratch, hands) = (ScratchDirectory::of_files(), TestClock::new());
    let store = filled(&scratch).await;
    let (bytes, _) = take(&store).await;
    let taken = store.now();
    store.close().await;
    drop(store);
    let snapshot = saved(&scratch, &bytes);
    // A machine whose clock is behind the snapshot, and later one whose clock is ahead.
    let directory = DataDirectory::hold_by(scratch.options(), hands.clock()).await.unwrap();
    hands.pass(86_400_000);
    let later = directory.now();
    let prepared = prepare(&directory, &snapshot).await.unwrap();
    directory.put_restored(prepared).unwrap();
    drop(directory);
    hands.set(-2 * 86_400_000);
    let directory = DataDirectory::hold_by(scratch.options(), hands.clock()).await.unwrap();
    assert!(directory.now() >= later && directory.now() + 1_000 >= taken);
}

#[tokio::test]
async fn one_restore_at_a_time_removes_own_file() {
    let scratch = ScratchDirectory::of_files();
    let bytes = take_and_close(&scratch).await;
    let snapshot = saved(&scratch, &bytes);
    let directory = scratch.hold().await;
    let before = scratch.files();
    let first = prepare(&directory, &snapshot).await.unwrap();
    assert!(scratch.files().contains_key("bulkhead.db.restored"));
    let second = prepare(&directory, &snapshot).await;
    assert!(matches!(second, Err(StoreFault::Unavailable(text)) if text.contains("in progress")));
    drop(first);
    assert!(scratch.files() == before);
    drop(prepare(&directory, &snapshot).await.unwrap());
    drop(directory);
    for name in ["bulkhead.db.restored", "bulkhead.db.restored-wal"] {
        std::fs::write(scratch.path().join(name), "left by a killed process").unwrap();
    }
    drop(scratch.hold().await);
    assert!(scratch.files() == before);
}

#[tokio::test]
async fn chosen_restore_is_completed_by_next_opening() {
    let scratch = ScratchDirectory::of_files();
    let store = filled(&scratch).await;
    let (bytes, _) = take(&store).await;
    put(&store, data("mount/later"), "lost").await;
    store.close().await;
    drop(store);
    let directory = scratch.hold().await;
    let prepared = prepare(&directory, &saved(&scratch, &bytes)).await.unwrap();
    let built = scratch.path().join("bulkhead.db.restored");
    std::fs::rename(built, scratch.path().join("bulkhead.db.put-back")).unwrap();
    let gone = directory.put_restored(prepared);
    assert!(
        matches!(gone, Err(StoreFault::Unavailable(text)) if text.contains("restore the snap"))
    );
    let store = directory.open(key(1)).await.unwrap();
    assert!(store.restored().is_some());
    assert_eq!(body(&store, &data("mount/later")).await, None);
}

//! Tests of opening a store, of finding records, and of protection against other users and
//! processes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::task::{Context, Waker};

use super::*;
use crate::database::DatabasePlace;
use crate::testing::{ScratchDirectory, body, data, edit, put, put_indexed};
use crate::{FlushPolicy, IndexColumns, SealKey, StoreOptions};
use bulkhead_place::directory;

fn refusal<T>(outcome: Result<T, StoreFault>) -> String {
    match outcome {
        Err(StoreFault::Refused(text)) => text,
        Err(other) => panic!("expected a refusal, got {other}"),
        Ok(_) => panic!("expected a refusal, got success"),
    }
}

fn unavailable<T>(outcome: Result<T, StoreFault>) -> String {
    match outcome {
        Err(StoreFault::Unavailable(text)) => text,
        Err(other) => panic!("expected an unavailable store, got {other}"),
        Ok(_) => panic!("expected an unavailable store, got success"),
    }
}

fn files(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries.map(|path| (path.clone(), fs::read(path).unwrap())).collect();
    files.sort();
    files
}

#[tokio::test]
async fn committed_records_are_present_after_reopening() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    put(&store, data("role"), "readonly").await;
    let hash = store.keyed_hash("token", b"t");
    store.close().await;
    let store = scratch.open().await;
    assert_eq!(body(&store, &data("role")).await.unwrap(), "readonly");
    assert_eq!(store.keyed_hash("token", b"t"), hash);
}

#[tokio::test]
async fn committed_records_survive_crash_by_files_alone() {
    let (scratch, after) = (ScratchDirectory::of_files(), ScratchDirectory::of_files());
    let store = scratch.open().await;
    put(&store, data("role"), "readonly").await;
    for (path, content) in files(scratch.path()) {
        fs::write(after.path().join(path.file_name().unwrap()), content).unwrap();
    }
    assert_eq!(body(&after.open().await, &data("role")).await.unwrap(), "readonly");
}

#[tokio::test]
async fn crash_before_first_commit_leaves_openable_directory() {
    let (empty, without_tables) = (ScratchDirectory::new(), ScratchDirectory::new());
    for scratch in [&empty, &without_tables] {
        fs::write(directory::database(scratch.path()), b"").unwrap();
    }
    let place = DatabasePlace::SqliteIn(without_tables.path());
    place.open(FlushPolicy::EveryCommit).await.unwrap().close().await;
    assert!(fs::metadata(directory::database(without_tables.path())).unwrap().len() > 0);
    for scratch in [&empty, &without_tables] {
        let store = scratch.open().await;
        put(&store, data("a"), "1").await;
        assert_eq!(body(&store, &data("a")).await.unwrap(), "1");
    }
}

#[tokio::test]
async fn second_opening_is_refused_until_first_closes() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    assert!(refusal(scratch.open_with(1).await).contains("in use by another"));
    store.close().await;
    scratch.open_with(1).await.unwrap();
}

#[tokio::test]
async fn another_key_is_refused_and_nothing_is_written() {
    let scratch = ScratchDirectory::of_files();
    let store = scratch.open().await;
    put(&store, data("a"), "1").await;
    store.close().await;
    let before = fs::read(directory::database(scratch.path())).unwrap();
    assert_eq!(scratch.open_with(2).await.err(), Some(StoreFault::WrongKey));
    assert_eq!(fs::read(directory::database(scratch.path())).unwrap(), before);
    assert_eq!(body(&scratch.open().await, &data("a")).await.unwrap(), "1");
}

#[tokio::test]
async fn foreign_file_is_refused_and_left_unchanged() {
    let garbage = ScratchDirectory::of_files();
    let path = directory::database(garbage.path());
    fs::write(&path, [b'x'; 8192]).unwrap();
    assert!(refusal(garbage.open_with(1).await).contains("not a database"));
    assert_eq!(fs::read(&path).unwrap(), [b'x'; 8192]);

    let other = ScratchDirectory::of_files();
    let store = other.open().await;
    edit(&store, "DROP TABLE record").await;
    store.close().await;
    assert!(refusal(other.open_with(1).await).contains("some other program"));
}

#[tokio::test]
async fn files_hide_bodies_and_are_private_to_owner() {
    let scratch = ScratchDirectory::new();
    let below = StoreOptions::at(scratch.path().join("data"));
    let store = Store::open(below.clone(), SealKey::from_bytes([1; 32])).await.unwrap();
    put(&store, data("role"), "canary-5up3r-s3cr3t").await;
    let while_open = files(&below.directory);
    assert!(while_open.iter().any(|(path, _)| path.ends_with("bulkhead.db-wal")));
    store.close().await;
    for (path, content) in while_open.into_iter().chain(files(&below.directory)) {
        assert!(!content.windows(6).any(|window| window == b"5up3r-"), "{}", path.display());
        assert!(
            !content.windows(8).any(|window| window == [1; 8]),
            "the key is in {}",
            path.display()
        );
    }
    for (path, _) in files(&below.directory) {
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600,
            "{}",
            path.display()
        );
    }
    assert_eq!(fs::metadata(&below.directory).unwrap().permissions().mode() & 0o777, 0o700);
}

#[tokio::test]
async fn side_files_are_as_private_as_the_database() {
    let scratch = ScratchDirectory::of_files();
    let store = scratch.open().await;
    put(&store, data("a"), "1").await;
    let modes: Vec<u32> = files(scratch.path())
        .iter()
        .map(|(path, _)| fs::metadata(path).unwrap().permissions().mode() & 0o777)
        .collect();
    assert_eq!(modes, [0o600; 4], "database, log, its index and lock");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_tasks_that_retry_on_conflict_count_exactly() {
    const TASKS: usize = 32;
    const EACH: usize = 5;
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    put(&store, data("counter"), "0").await;
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                for _ in 0..EACH {
                    while increment(&store).await == Err(StoreFault::Conflict) {
                        tokio::task::yield_now().await;
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(body(&store, &data("counter")).await.unwrap(), (TASKS * EACH).to_string());
}

async fn increment(store: &Arc<Store>) -> Result<(), StoreFault> {
    let mut unit = store.begin();
    let record = unit.get(&data("counter")).await?.unwrap();
    let count: usize = std::str::from_utf8(&record.body).unwrap().parse().unwrap();
    unit.put(data("counter"), (count + 1).to_string().into_bytes(), IndexColumns::default());
    unit.commit().await.map(drop)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commit_with_dropped_caller_is_atomic() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    let mut abandoned = 0;
    for round in 0..50 {
        let mut unit = store.begin();
        for half in ["left", "right"] {
            unit.put(data(half), round.to_string().into_bytes(), IndexColumns::default());
        }
        let mut commit = Box::pin(unit.commit());
        let mut context = Context::from_waker(Waker::noop());
        // On a busy machine, a commit may be complete at the first poll.
        abandoned += usize::from(commit.as_mut().poll(&mut context).is_pending());
        drop(commit);
    }
    assert!(abandoned > 0, "every commit was complete at once");
    put(&store, data("after"), "x").await;
    assert_eq!(body(&store, &data("left")).await, body(&store, &data("right")).await);
    assert_eq!(body(&store, &data("after")).await.unwrap(), "x");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn interrupted_write_is_rolled_back_and_store_continues() {
    let scratch = ScratchDirectory::of_files();
    let store = scratch.open().await;
    put(&store, data("a"), "1").await;
    let (started, has_started) = tokio::sync::oneshot::channel();
    let cut_off = {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            let work = async move |connection: &mut sqlx::sqlite::SqliteConnection| {
                sqlx::query("DELETE FROM record").execute(connection).await?;
                started.send(()).unwrap();
                std::future::pending().await
            };
            store.database().sqlite().write(work).await
        })
    };
    has_started.await.unwrap();
    cut_off.abort();
    assert!(cut_off.await.unwrap_err().is_cancelled());
    put(&store, data("b"), "2").await;
    assert_eq!(body(&store, &data("a")).await.unwrap(), "1");
}

#[tokio::test]
async fn full_disk_fails_whole_commit_not_later_commits() {
    let scratch = ScratchDirectory::of_files();
    let store = scratch.open().await;
    put(&store, data("a"), "1").await;
    edit(&store, "PRAGMA max_page_count = 1").await;
    let flushes = store.flushes();
    let mut unit = store.begin();
    unit.put(data("a"), b"2".to_vec(), IndexColumns::default());
    unit.put(data("big"), vec![0; 1 << 20], IndexColumns::default());
    assert!(unavailable(unit.commit().await).contains("full"));
    assert_eq!(store.flushes(), flushes);
    assert_eq!(body(&store, &data("a")).await.unwrap(), "1");
    put(&store, data("a"), "3").await;
    assert_eq!(body(&store, &data("a")).await.unwrap(), "3");
}

#[tokio::test]
async fn a_failing_statement_in_a_commit_acknowledges_nothing() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    edit(&store, "CREATE TRIGGER no BEFORE INSERT ON record BEGIN SELECT RAISE(ABORT, 'no'); END")
        .await;
    let mut unit = store.begin();
    unit.put(data("a"), b"1".to_vec(), IndexColumns::default());
    assert!(unavailable(unit.commit().await).contains("nothing was acknowledged"));
    edit(&store, "DROP TRIGGER no").await;
    assert_eq!(body(&store, &data("a")).await, None);
}

#[tokio::test]
async fn a_closed_store_refuses_reads_and_writes() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    let mut unit = store.begin();
    store.close().await;
    assert!(unavailable(unit.get(&data("a")).await).contains("closed"));
    unit.put(data("a"), b"1".to_vec(), IndexColumns::default());
    assert!(unavailable(unit.commit().await).contains("closed"));
    assert!(unavailable(store.next_due().await).contains("closed"));
    store.close().await;
}

#[tokio::test]
async fn only_commit_due_before_set_time_rings_alarm() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    let has_rung = |store: &Store| {
        let mut rung = std::pin::pin!(store.alarm().wait_for_ring());
        rung.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
    };
    let timer = |key: &str, due| {
        (
            Address::new(Space::Timer, key),
            IndexColumns { due: Some(due), ..IndexColumns::default() },
        )
    };
    put(&store, data("a"), "1").await;
    assert!(!has_rung(&store), "nothing is due");
    let (address, index) = timer("first", 50);
    put_indexed(&store, address, "x", index).await;
    assert!(has_rung(&store), "the worker listens until it sets a time");
    store.alarm().ring_before(40);
    let (address, index) = timer("later", 40);
    put_indexed(&store, address, "x", index).await;
    assert!(!has_rung(&store));
    let (address, index) = timer("earlier", 39);
    put_indexed(&store, address, "x", index).await;
    assert!(has_rung(&store));
    assert!(!has_rung(&store), "the alarm rings once");
}

#[tokio::test]
async fn count_covers_prefix_and_stops_at_limit() {
    let scratch = ScratchDirectory::new();
    let store = scratch.open().await;
    for key in ["m/1", "m/2", "m/3", "m/4", "n/1"] {
        put(&store, Address::new(Space::Reservation, key), "x").await;
    }
    let count = async |at_most| store.count(Space::Reservation, "m/", at_most).await.unwrap();
    assert_eq!(count(99).await, 4);
    assert_eq!(count(3).await, 3);
    assert_eq!(count(0).await, 0);
}

#[tokio::test]
async fn each_opening_has_an_epoch_of_its_own() {
    let scratch = ScratchDirectory::new();
    let mut epochs = std::collections::BTreeSet::new();
    for _ in 0..2 {
        let store = scratch.open().await;
        let epoch = store.epoch().to_owned();
        assert_eq!(store.living_epochs().await.unwrap(), [epoch.clone()].into());
        assert!(epoch.len() == 32 && epochs.insert(epoch));
        store.close().await;
    }
}

//! Migrations between both databases: complete, killed and continued, compared, and refused.

use std::cell::RefCell;
use std::fs;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;

use futures_util::{FutureExt as _, TryStreamExt as _};

use super::*;
use crate::data_directory::place_of;
use crate::identity;
use crate::testing::{
    ScratchDirectory, TestDatabase, body, data, edit, edit_database, end_sessions, numbers,
    on_both_databases, put, put_indexed,
};
use crate::{Address, DataDirectory, Space, Store};
use bulkhead_record::raw_record::RawRecord;
use bulkhead_record::record::IndexColumns;

/// Number of records in a batch of a test.
const BATCH: usize = 7;

on_both_databases! {
    records_and_order_are_identical_after_way_back,
    migration_killed_at_each_batch_continues,
    changed_copy_is_found_and_copied_again,
    changed_source_is_copied_from_beginning,
    destination_with_data_is_refused_unchanged,
    marked_source_starts_again_after_reset,
    unusable_source_is_refused_with_reason,
    lost_connections_are_retried_to_the_end,
    refusing_destination_ends_attempts_and_continues_later,
}

fn other(tested: TestDatabase) -> TestDatabase {
    match tested {
        TestDatabase::Sqlite => TestDatabase::Postgres,
        TestDatabase::Postgres => TestDatabase::Sqlite,
    }
}

/// Fills a store with records of several kinds, and closes the store.
async fn filled(tested: TestDatabase) -> ScratchDirectory {
    let scratch = ScratchDirectory::on(tested);
    let store = scratch.open().await;
    for number in 0..20_u64 {
        let index = IndexColumns {
            due: (number % 3 == 0).then_some(number),
            lane: if number % 2 == 0 { format!("mount/{number}") } else { String::new() },
            owner: if number % 5 == 0 { "owner".to_owned() } else { String::new() },
        };
        // The order of the keys is not the order of the first writes.
        let lease = Address::new(Space::Lease, format!("mount/{:03}", 7 * number % 20));
        put_indexed(&store, lease, &"x".repeat(number as usize * 9), index).await;
    }
    for key in ["cubbyhole/caller/a", "wrapped-content/caller/b", "odd\u{1}\0"] {
        put(&store, Address::new(Space::Core, key), key).await;
    }
    put(&store, data("mount/large"), &"y".repeat(900_000)).await;
    // An earlier record keeps its place in the order.
    put(&store, Address::new(Space::Lease, "mount/000"), "again").await;
    store.close().await;
    scratch
}

async fn rows(scratch: &ScratchDirectory) -> Vec<RawRecord> {
    let options = scratch.options();
    let mut reader = place_of(&options).open_for_check().await.unwrap();
    let rows = reader.records().map_ok(Result::unwrap).try_collect().await.unwrap();
    reader.close().await;
    rows
}

async fn identity_rows(scratch: &ScratchDirectory) -> MetaRows {
    let options = scratch.options();
    let mut rows = place_of(&options).read_identity().await.unwrap().unwrap();
    rows.retain(|name, _| !["schema", "migrated", "time"].contains(&name.as_str()));
    rows
}

async fn stored_counts(scratch: &ScratchDirectory) -> Vec<(String, u64)> {
    let store = scratch.open().await;
    let counts = store.stored_bytes().await.unwrap();
    store.close().await;
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort();
    counts
}

fn pace() -> MigrationPace {
    MigrationPace { batch_records: BATCH, first_pause: Duration::ZERO }
}

/// Migrates, and returns the events.
async fn run(
    source: &ScratchDirectory,
    destination: &ScratchDirectory,
) -> Result<(MigrationReport, Vec<MigrationEvent>), StoreFault> {
    let (source, destination) = (source.options(), destination.options());
    let mut events = Vec::new();
    let migration = Migration::prepare(&source, &destination, pace()).await?;
    let report = migration.run(&mut |event| events.push(event)).await?;
    Ok((report, events))
}

/// The end of a migration at an event of a test.
struct Killed;

/// Migrates until the first event that `ends` chooses, and unwinds the migration there: a dropped
/// future would first run to its next pause, past further events. Returns whether the migration was
/// complete before.
async fn run_until(
    source: &ScratchDirectory,
    destination: &ScratchDirectory,
    ends: impl Fn(&MigrationEvent) -> bool,
) -> bool {
    let (source, destination) = (source.options(), destination.options());
    let migration = Migration::prepare(&source, &destination, pace()).await.unwrap();
    let observe = &mut |event| {
        if ends(&event) {
            resume_unwind(Box::new(Killed));
        }
    };
    let has_ended = match AssertUnwindSafe(migration.run(observe)).catch_unwind().await {
        Ok(report) => {
            report.unwrap();
            true
        }
        Err(panic) if panic.is::<Killed>() => false,
        Err(panic) => resume_unwind(panic),
    };
    // A killed process leaves no transaction behind. An ended future may leave one for a moment.
    match &destination.database {
        DatabaseChoice::Postgres(place) => end_sessions(place),
        DatabaseChoice::SqliteFile => {
            let database = place_of(&destination).open(destination.flushing).await.unwrap();
            edit_database(&database, "DELETE FROM meta WHERE name = ''").await;
            database.close().await;
        }
    }
    has_ended
}

async fn refusal(source: &ScratchDirectory, destination: &ScratchDirectory) -> String {
    match run(source, destination).await {
        Err(StoreFault::Refused(why)) => why,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("the migration is complete"),
    }
}

async fn start_refusal(scratch: &ScratchDirectory) -> String {
    match DataDirectory::hold(scratch.options()).await {
        Err(StoreFault::Refused(why)) => why,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("a server starts"),
    }
}

async fn records_and_order_are_identical_after_way_back(tested: TestDatabase) {
    let source = filled(tested).await;
    let (before, counts) = (rows(&source).await, stored_counts(&source).await);
    let files = source.files();
    let (there, back) = (ScratchDirectory::on(other(tested)), ScratchDirectory::on(tested));
    let same_kind = ScratchDirectory::on(tested);
    let mut present = &source;
    for destination in [&there, &back, &same_kind] {
        let identity = identity_rows(present).await;
        let (report, events) = run(present, destination).await.unwrap();
        assert_eq!(report.records, before.len() as u64);
        assert_eq!(report.unmarked, None);
        let total = report.records;
        assert!(events.contains(&MigrationEvent::Copied { records: total, total }));
        assert_eq!(events.last(), Some(&MigrationEvent::Compared { records: total, total }));
        assert!(rows(destination).await == before);
        assert_eq!(identity_rows(destination).await, identity);
        assert_eq!(stored_counts(destination).await, counts);
        present = destination;
    }
    if let TestDatabase::Sqlite = tested {
        let after = source.files();
        assert!(files["bulkhead.db"] == after["bulkhead.db"], "the source was written");
    }
    let store = back_to_use(&same_kind).await;
    assert_eq!(body(&store, &data("mount/large")).await.unwrap().len(), 900_000);
    put(&store, data("mount/after"), "1").await;
    store.close().await;
}

async fn back_to_use(scratch: &ScratchDirectory) -> Arc<Store> {
    scratch.open_with(1).await.unwrap()
}

async fn migration_killed_at_each_batch_continues(tested: TestDatabase) {
    let source = filled(tested).await;
    let destination = ScratchDirectory::on(other(tested));
    let before = rows(&source).await;
    // Each event ends one run.
    let seen = RefCell::new(Vec::new());
    let is_new = |event: &MigrationEvent| {
        let is_step = !matches!(event, MigrationEvent::Resumed { .. });
        let is_new = is_step && !seen.borrow().contains(event);
        seen.borrow_mut().push(event.clone());
        is_new
    };
    let mut runs = 0;
    while !run_until(&source, &destination, is_new).await {
        runs += 1;
        assert!(runs <= 2 * before.len(), "the migration does not continue");
        let options = destination.options();
        let state = place_of(&options).read_identity().await.unwrap().unwrap();
        if identity::migration_position(&state).is_none() {
            break;
        }
        let why = start_refusal(&destination).await;
        assert!(why.contains("unfinished migration"), "{why}");
    }
    // One run for each batch, and one for the comparison.
    assert_eq!(runs, before.len().div_ceil(BATCH) + 1, "{:?}", seen.borrow());
    let outcome = run(&source, &destination).await;
    let why = outcome.err().unwrap().to_string();
    assert!(why.contains("is complete already"), "{why}");
    assert!(rows(&destination).await == before);
    back_to_use(&destination).await.close().await;
}

async fn changed_copy_is_found_and_copied_again(tested: TestDatabase) {
    let source = filled(tested).await;
    let destination = ScratchDirectory::on(other(tested));
    let total = rows(&source).await.len() as u64;
    let is_last =
        |event: &MigrationEvent| *event == MigrationEvent::Copied { records: total, total };
    assert!(!run_until(&source, &destination, is_last).await);
    let options = destination.options();
    let database = place_of(&options).open(options.flushing).await.unwrap();
    let script = "UPDATE record SET sealed = x'00' WHERE key = 'mount/003'";
    edit_database(&database, script).await;
    database.close().await;
    let why = refusal(&source, &destination).await;
    assert!(why.contains("differ from the records"), "{why}");
    assert!(start_refusal(&destination).await.contains("unfinished migration"));
    back_to_use(&source).await.close().await;
    let (_, events) = run(&source, &destination).await.unwrap();
    assert!(events.contains(&MigrationEvent::StartedOver));
    assert!(rows(&destination).await == rows(&source).await);
}

async fn changed_source_is_copied_from_beginning(tested: TestDatabase) {
    let source = filled(tested).await;
    let destination = ScratchDirectory::on(other(tested));
    let is_copy = |event: &MigrationEvent| matches!(event, MigrationEvent::Copied { .. });
    assert!(!run_until(&source, &destination, is_copy).await);
    let store = back_to_use(&source).await;
    put(&store, Address::new(Space::Lease, "mount/000"), "changed").await;
    store.close().await;
    let (report, events) = run(&source, &destination).await.unwrap();
    assert_eq!(events.first(), Some(&MigrationEvent::StartedOver));
    assert_eq!(report.records, rows(&source).await.len() as u64);
    assert!(rows(&destination).await == rows(&source).await);
}

async fn destination_with_data_is_refused_unchanged(tested: TestDatabase) {
    let (source, destination) = (filled(tested).await, filled(other(tested)).await);
    let before = rows(&destination).await;
    let why = refusal(&source, &destination).await;
    assert!(why.contains("holds data already"), "{why}");
    assert!(rows(&destination).await == before);
    // An unfinished migration of another cluster.
    let (third, empty) = (filled(tested).await, ScratchDirectory::on(other(tested)));
    let is_copy = |event: &MigrationEvent| matches!(event, MigrationEvent::Copied { .. });
    assert!(!run_until(&third, &empty, is_copy).await);
    let why = refusal(&source, &empty).await;
    assert!(why.contains("unfinished migration of the cluster"), "{why}");
    let why = refusal(&empty, &ScratchDirectory::on(tested)).await;
    assert!(why.contains("no complete data"), "{why}");
    let why = refusal(&source, &source).await;
    assert!(why.contains("the same place"), "{why}");
    back_to_use(&source).await.close().await;
}

async fn marked_source_starts_again_after_reset(tested: TestDatabase) {
    let source = filled(tested).await;
    let (first, second) =
        (ScratchDirectory::on(other(tested)), ScratchDirectory::on(other(tested)));
    let options = source.options();
    assert_eq!(remove_migration_mark(&options).await.unwrap(), None);
    let (report, _) = run(&source, &first).await.unwrap();
    let why = start_refusal(&source).await;
    assert!(why.contains(&report.destination) && why.contains("-reset"), "{why}");
    let examined = DataDirectory::examine(&options).await;
    assert!(examined.is_err_and(|fault| fault.to_string() == why));
    let why = refusal(&source, &second).await;
    assert!(why.contains("were migrated to"), "{why}");
    assert_eq!(remove_migration_mark(&options).await.unwrap(), Some(report.destination));
    let store = back_to_use(&source).await;
    put(&store, data("mount/after"), "1").await;
    store.close().await;
    run(&source, &second).await.unwrap();
}

async fn unusable_source_is_refused_with_reason(tested: TestDatabase) {
    let (empty, destination) = (ScratchDirectory::on(tested), ScratchDirectory::on(other(tested)));
    let why = refusal(&empty, &destination).await;
    assert!(why.contains("holds no data"), "{why}");
    let source = filled(tested).await;
    let store = source.open().await;
    let why = refusal(&source, &destination).await;
    assert!(why.contains("in use"), "{why}");
    assert_eq!(numbers(&store, "SELECT count(*) FROM meta WHERE name = 'migrated'").await, [0]);
    edit(&store, "INSERT INTO meta (name, value) VALUES ('later', x'00')").await;
    store.close().await;
    let why = refusal(&source, &destination).await;
    assert!(why.contains("the row \"later\""), "{why}");
    let store = source.open().await;
    edit(&store, "UPDATE meta SET value = x'393939' WHERE name = 'schema'").await;
    store.close().await;
    let why = refusal(&source, &destination).await;
    assert!(why.contains("schema that this version does not read"), "{why}");
}

async fn lost_connections_are_retried_to_the_end(tested: TestDatabase) {
    let (source, destination) = (filled(tested).await, ScratchDirectory::on(other(tested)));
    let (from, to) = (source.options(), destination.options());
    let migration = Migration::prepare(&from, &to, pace()).await.unwrap();
    let mut ended = Vec::new();
    let observe = &mut |event| {
        let is_step =
            matches!(event, MigrationEvent::Copied { .. } | MigrationEvent::Compared { .. });
        if is_step && !ended.contains(&event) {
            ended.push(event);
            for options in [&from, &to] {
                if let DatabaseChoice::Postgres(place) = &options.database {
                    end_sessions(place);
                }
            }
        }
    };
    let report = migration.run(observe).await.unwrap();
    assert!(ended.len() > rows(&source).await.len() / BATCH, "{ended:?}");
    assert_eq!(report.records, rows(&source).await.len() as u64);
    assert!(rows(&destination).await == rows(&source).await);
    back_to_use(&destination).await.close().await;
}

async fn refusing_destination_ends_attempts_and_continues_later(tested: TestDatabase) {
    let (source, destination) = (filled(tested).await, ScratchDirectory::on(other(tested)));
    let is_copy = |event: &MigrationEvent| matches!(event, MigrationEvent::Copied { .. });
    assert!(!run_until(&source, &destination, is_copy).await);
    let options = destination.options();
    let edit = async |script| {
        let database = place_of(&options).open(options.flushing).await.unwrap();
        edit_database(&database, script).await;
        database.close().await;
    };
    edit("CREATE TRIGGER no BEFORE INSERT ON record BEGIN SELECT RAISE(ABORT, 'no'); END").await;
    let why = match run(&source, &destination).await {
        Err(StoreFault::Unavailable(why)) => why,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("the destination took a record"),
    };
    assert!(why.contains("gave up after") && why.contains("same command again"), "{why}");
    assert!(start_refusal(&destination).await.contains("unfinished migration"));
    back_to_use(&source).await.close().await;
    edit("DROP TRIGGER no").await;
    let (report, events) = run(&source, &destination).await.unwrap();
    assert!(matches!(events[0], MigrationEvent::Resumed { records } if records > 0));
    assert_eq!(report.records, rows(&source).await.len() as u64);
}

#[tokio::test]
async fn interrupted_restore_at_source_is_refused() {
    let (source, destination) = (filled(TestDatabase::Sqlite).await, ScratchDirectory::of_files());
    fs::write(source.path().join("bulkhead.db.put-back"), "x").unwrap();
    let why = refusal(&source, &destination).await;
    assert!(why.contains("interrupted initialisation or restore"), "{why}");
    fs::rename(
        source.path().join("bulkhead.db.put-back"),
        destination.path().join("bulkhead.db.put-back"),
    )
    .unwrap();
    let why = refusal(&source, &destination).await;
    assert!(why.contains("interrupted"), "{why}");
}

//! Tests of the connections: flushes, reads, and the effects of errors.

use super::*;
use crate::testing::{ScratchDirectory, body, data, put};

async fn pragma(connection: &mut SqliteConnection, statement: &'static str) -> i64 {
    sqlx::query_scalar(statement).fetch_one(connection).await.unwrap()
}

#[tokio::test]
async fn commits_flush_and_hostile_schema_is_untrusted() {
    let scratch = ScratchDirectory::of_files();
    let store = scratch.open().await;
    let checks = async |connection: &mut SqliteConnection| {
        assert_eq!(pragma(connection, "PRAGMA synchronous").await, 2);
        assert_eq!(pragma(connection, "PRAGMA trusted_schema").await, 0);
        assert_eq!(pragma(connection, "PRAGMA cell_size_check").await, 1);
        assert_eq!(pragma(connection, "PRAGMA temp_store").await, 2);
        assert_eq!(pragma(connection, "PRAGMA wal_autocheckpoint").await, 4_000);
        Ok(TransactionOutcome::Conflict)
    };
    assert_eq!(store.database().sqlite().write(checks).await, Err(StoreFault::Conflict));
    let mode = async |connection: &mut SqliteConnection| {
        sqlx::query_scalar::<_, String>("PRAGMA journal_mode").fetch_one(connection).await
    };
    assert_eq!(store.database().sqlite().readers().read(mode).await.unwrap(), "wal");
}

/// See decision T35 and `.cargo/config.toml`.
#[tokio::test]
async fn prepared_statement_is_planned_once_for_all_values() {
    let scratch = ScratchDirectory::of_files();
    let store = scratch.open().await;
    let query = async |connection: &mut SqliteConnection| {
        let option = "SELECT sqlite_compileoption_used('ENABLE_QPSG')";
        sqlx::query_scalar::<_, bool>(option).fetch_one(connection).await
    };
    assert!(store.database().sqlite().readers().read(query).await.unwrap());
}

#[tokio::test]
async fn write_without_room_shows_beyond_next_write() {
    let scratch = ScratchDirectory::of_files();
    let store = scratch.open().await;
    put(&store, data("a"), "1").await;
    let mut changes = store.write_changes();
    let fill = async |connection: &mut SqliteConnection| {
        // SQLite takes the present size if the file is larger.
        pragma(connection, "PRAGMA max_page_count = 1").await;
        let table = "CREATE TABLE filler AS SELECT zeroblob(1000000) AS content";
        sqlx::raw_sql(table).execute(connection).await?;
        Ok(TransactionOutcome::Committed)
    };
    let refused = store.database().sqlite().write(fill).await.unwrap_err();
    assert!(refused.to_string().contains("full"), "{refused}");
    assert_eq!(*changes.borrow_and_update(), WriteCondition::DiskFull);
    store.begin().get(&data("a")).await.unwrap();
    assert_eq!(store.write_condition(), WriteCondition::DiskFull, "a read shows nothing");
    put(&store, data("a"), "2").await;
    assert_eq!(store.write_condition(), WriteCondition::DiskFull, "a small write finds room");
    store.close().await;
}

#[tokio::test]
async fn readers_cannot_write() {
    let scratch = ScratchDirectory::of_files();
    let store = scratch.open().await;
    let delete = async |connection: &mut SqliteConnection| {
        sqlx::query("DELETE FROM record").execute(connection).await
    };
    let outcome = store.database().sqlite().readers().read(delete).await;
    assert!(outcome.unwrap_err().to_string().contains("readonly"));
}

#[tokio::test]
async fn io_error_stops_writes_and_reads_continue() {
    let scratch = ScratchDirectory::of_files();
    let store = scratch.open().await;
    put(&store, data("a"), "1").await;
    *store.database().sqlite().writer.lock().await =
        WriterState::Stopped("SQLite: (code: 1034) disk I/O error".into());
    for _ in 0..2 {
        let mut unit = store.begin();
        unit.put(data("a"), b"2".to_vec(), crate::IndexColumns::default());
        let Err(StoreFault::Unavailable(text)) = unit.commit().await else { panic!("written") };
        assert!(text.contains("1034") && text.contains("restart"), "{text}");
    }
    assert_eq!(body(&store, &data("a")).await.unwrap(), "1");
}

#[tokio::test]
async fn write_panic_costs_only_connection() {
    let scratch = ScratchDirectory::of_files();
    let store = scratch.open().await;
    let count = async |connection: &mut SqliteConnection| {
        let count = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM meta");
        count.fetch_one(connection).await
    };
    let rows = async || store.database().sqlite().readers().read(count).await.unwrap();
    let before = rows().await;
    let work = async |connection: &mut SqliteConnection| {
        sqlx::query("DELETE FROM meta").execute(connection).await?;
        panic!("a fault of our own")
    };
    assert!(matches!(store.database().sqlite().write(work).await, Err(StoreFault::Unavailable(_))));
    put(&store, data("a"), "1").await;
    assert!(before > 0 && rows().await == before);
}

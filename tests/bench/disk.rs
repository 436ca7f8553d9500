//! The bare disk: commits of 4 KiB in SQLite with the settings of the store, beside the store's
//! data.

use bulkhead_tests::paths::Folder;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{ConnectOptions, SqliteConnection};
use std::time::{Duration, Instant};

pub struct Disk(SqliteConnection);

impl Disk {
    pub async fn open(folder: &Folder) -> Self {
        let mut disk = SqliteConnectOptions::new()
            .filename(folder.path().join("bare.sqlite"))
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .connect()
            .await
            .expect("a file can be opened");
        sqlx::query("CREATE TABLE page (bytes BLOB)")
            .execute(&mut disk)
            .await
            .expect("a table is made");
        Self(disk)
    }

    /// Returns the time of `count` commits, each with a flush.
    pub async fn flushes(&mut self, count: u32) -> Duration {
        let page = vec![7_u8; 4096];
        let start = Instant::now();
        for _ in 0..count {
            let insert = sqlx::query("INSERT INTO page (bytes) VALUES (?)").bind(&page);
            insert.execute(&mut self.0).await.expect("a row is written");
        }
        start.elapsed()
    }
}

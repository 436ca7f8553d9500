//! Rows of the store on PostgreSQL and SQLite: the rows that a request writes, fresh rows of the
//! same sizes, and a million of them.

use aws_lc_rs::rand;
use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, PgConnection, Row as _, SqliteConnection};
use std::collections::HashSet;

pub const COLUMNS: &str = "space, key, stamp, due, lane, owner, created, modified, sealed";

/// Length of the random part of a fresh key, in hexadecimal digits.
const DIGITS: usize = 64;

/// A row of the table of records.
#[derive(Clone)]
pub struct StoredRow {
    pub space: i16,
    pub key: String,
    pub stamp: Vec<u8>,
    pub due: Option<i64>,
    pub lane: String,
    pub owner: String,
    pub created: Option<i64>,
    pub modified: Option<i64>,
    pub sealed: Vec<u8>,
}

impl StoredRow {
    fn of(row: &PgRow) -> Self {
        Self {
            space: row.get("space"),
            key: row.get("key"),
            stamp: row.get("stamp"),
            due: row.get("due"),
            lane: row.get("lane"),
            owner: row.get("owner"),
            created: row.get("created"),
            modified: row.get("modified"),
            sealed: row.get("sealed"),
        }
    }

    /// Returns the key without the random digits at its end.
    fn key_beginning(&self) -> &str {
        let digits = self.key.bytes().rev().take_while(u8::is_ascii_hexdigit).count();
        &self.key[..self.key.len() - digits.min(DIGITS)]
    }

    /// Returns a row with another random key and stamp, and the same other columns.
    pub fn fresh(&self) -> Self {
        let (mut digits, mut stamp) = ([0; DIGITS / 2], vec![0; 16]);
        rand::fill(&mut digits).expect("the system has randomness");
        rand::fill(&mut stamp).expect("the system has randomness");
        let digits: String = digits.iter().map(|byte| format!("{byte:02x}")).collect();
        Self { key: format!("{}{digits}", self.key_beginning()), stamp, ..self.clone() }
    }

    /// Returns the length of the columns with a variable length, in bytes.
    pub fn bytes(&self) -> usize {
        self.key.len() + self.lane.len() + self.owner.len() + self.sealed.len()
    }
}

/// Returns the rows that `act` writes on PostgreSQL. No other request may write meanwhile.
pub async fn written_by(session: &mut PgConnection, act: impl AsyncFnOnce()) -> Vec<StoredRow> {
    let stamps: HashSet<_> = all(session).await.into_iter().map(|row| row.stamp).collect();
    act().await;
    let mut rows = all(session).await;
    rows.retain(|row| !stamps.contains(&row.stamp));
    assert!(!rows.is_empty(), "the request wrote no row");
    rows
}

async fn all(session: &mut PgConnection) -> Vec<StoredRow> {
    let text = format!("SELECT {COLUMNS} FROM bulkhead_record");
    let rows = sqlx::query(AssertSqlSafe(text)).fetch_all(session).await;
    rows.expect("the table can be read").iter().map(StoredRow::of).collect()
}

/// Adds `count` copies of each row on PostgreSQL, with random keys and stamps, and corrects the
/// counters of stored bytes.
pub async fn fill_postgres(session: &mut PgConnection, rows: &[StoredRow], count: u32) {
    let text = format!(
        "INSERT INTO bulkhead_record ({COLUMNS}) SELECT $1, \
         $2 || md5(random()::text) || md5(random()::text), decode(md5(random()::text), 'hex'), \
         $3::bigint + number, $4, $5, $6, $7, $8 FROM generate_series(1, $9::bigint) AS number"
    );
    for row in rows {
        let insert = sqlx::query(AssertSqlSafe(text.clone()))
            .bind(row.space)
            .bind(row.key_beginning())
            .bind(row.due)
            .bind(&row.lane)
            .bind(&row.owner)
            .bind(row.created)
            .bind(row.modified)
            .bind(&row.sealed)
            .bind(i64::from(count));
        insert.execute(&mut *session).await.expect("the rows are written");
    }
    let counted = "INSERT INTO bulkhead_stored SELECT split_part(key, '/', 1), \
         sum(2 * octet_length(key) + 2 * octet_length(lane) + 2 * octet_length(owner) \
             + octet_length(sealed) + 64) \
         FROM bulkhead_record WHERE space IN (2, 4, 5, 6) AND strpos(key, '/') > 1 GROUP BY 1 \
         ON CONFLICT (mount) DO UPDATE SET bytes = excluded.bytes";
    for text in [counted, "ANALYZE", "CHECKPOINT"] {
        sqlx::raw_sql(text).execute(&mut *session).await.expect("the statement succeeds");
    }
}

/// As [`fill_postgres`], on SQLite. Triggers of the store correct the counters.
pub async fn fill_sqlite(file: &mut SqliteConnection, rows: &[StoredRow], count: u32) {
    let text = format!(
        "INSERT INTO record ({COLUMNS}) WITH RECURSIVE given (number) AS \
         (SELECT 1 UNION ALL SELECT number + 1 FROM given WHERE number < ?9) SELECT ?1, \
         ?2 || lower(hex(randomblob(32))), randomblob(16), ?3 + number, ?4, ?5, ?6, ?7, ?8 \
         FROM given"
    );
    for row in rows {
        let insert = sqlx::query(AssertSqlSafe(text.clone()))
            .bind(row.space)
            .bind(row.key_beginning())
            .bind(row.due)
            .bind(&row.lane)
            .bind(&row.owner)
            .bind(row.created)
            .bind(row.modified)
            .bind(&row.sealed)
            .bind(i64::from(count));
        insert.execute(&mut *file).await.expect("the rows are written");
    }
}

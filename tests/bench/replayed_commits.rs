//! A commit of the store on PostgreSQL, taken from the log of PostgreSQL and repeated by hand.
//!
//! This file prevents a bare transaction with other statements than the store's: the statements and
//! their values are those that the server sent, on copies of the tables in a schema of its own.

use bulkhead_tests::Postgres;
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgArgumentBuffer, PgArguments, PgConnection, PgTypeInfo, Postgres as Driver};
use sqlx::{
    Arguments as _, AssertSqlSafe, Either, Encode, Executor as _, Row as _, SqlSafeStr as _,
    Statement as _, Type, TypeInfo as _,
};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Schema of the copies.
pub const COPIES: &str = "bare";
/// The tables of the store.
const TABLES: [&str; 4] =
    ["bulkhead_meta", "bulkhead_record", "bulkhead_stored", "bulkhead_writer"];
/// Beginning and end of a transaction of the store, in the log.
const BEGIN: &str = "BEGIN ";
const COMMIT: &str = "COMMIT";
/// Mark of a statement that writes records, and of one that also writes the mark of time, as only
/// some commits do.
const PUT: &str = "put AS (INSERT";
const NAMED: &str = "named AS (INSERT";

/// Ending of the statement that checks and renews the claim.
const CLAIM: &str = "RETURNING commits";

const LOG_TIME: Duration = Duration::from_secs(10);

/// The statements of a commit, in their order.
pub struct ReplayedCommit(Vec<ReplayedStatement>);

struct ReplayedStatement {
    text: String,
    /// The values; `None` for a script, which goes as one message without values.
    values: Option<PgArguments>,
}

/// A statement in the log of PostgreSQL.
#[derive(Default)]
struct LoggedStatement {
    text: String,
    is_script: bool,
    /// The values as text.
    values: Vec<String>,
}

/// A value in the encoding of the protocol.
struct EncodedValue {
    bytes: Vec<u8>,
    type_info: PgTypeInfo,
}

impl Type<Driver> for EncodedValue {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_name("bytea")
    }
}

impl Encode<'_, Driver> for EncodedValue {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        buffer.extend(&self.bytes);
        Ok(IsNull::No)
    }

    fn produces(&self) -> Option<PgTypeInfo> {
        Some(self.type_info.clone())
    }
}

impl ReplayedCommit {
    /// Lets `write` commit until the log has a commit that writes records, and copies the tables.
    pub async fn of(
        postgres: &Postgres,
        session: &mut PgConnection,
        mut write: impl AsyncFnMut(),
    ) -> Self {
        let before = postgres.log().len();
        set_logging(session, "SET log_statement = 'all'").await;
        let began = Instant::now();
        let logged = loop {
            write().await;
            if let Some(logged) = last_commit(&postgres.log()[before..]) {
                break logged;
            }
            assert!(began.elapsed() < LOG_TIME, "the log of PostgreSQL shows no commit");
        };
        set_logging(session, "RESET log_statement").await;
        copy_tables(session).await;
        let mut statements = Vec::new();
        for statement in logged {
            statements.push(ReplayedStatement::of(session, statement).await);
        }
        Self(statements)
    }

    /// Repeats the commit, and returns its time.
    pub async fn repeat(&self, session: &mut PgConnection) -> Duration {
        let began = Instant::now();
        for ReplayedStatement { text, values } in &self.0 {
            let sql = AssertSqlSafe(text.clone());
            let rows = match values {
                None => sqlx::raw_sql(sql).fetch_all(&mut *session).await,
                Some(values) => {
                    sqlx::query_with(sql, values.clone()).fetch_all(&mut *session).await
                }
            };
            let rows = rows.expect("the statement succeeds").len();
            // The statement that checks the claim changes no row without the claim.
            assert!(rows == 1 || !text.contains(CLAIM), "the copies lack the claim");
        }
        began.elapsed()
    }
}

impl ReplayedStatement {
    /// Returns the statement on the copies.
    async fn of(session: &mut PgConnection, logged: LoggedStatement) -> Self {
        let text = TABLES.iter().fold(logged.text, |text, table| {
            text.replace(&format!("\"public\".\"{table}\""), &format!("{COPIES}.{table}"))
        });
        assert!(!text.contains("\"public\"."), "{text} has a table without a copy");
        if logged.is_script {
            return Self { text, values: None };
        }
        let sql = AssertSqlSafe(text.clone()).into_sql_str();
        let prepared = session.prepare(sql).await.expect("the statement can be prepared");
        let types = match prepared.parameters() {
            Some(Either::Left(types)) => types.to_vec(),
            _ => panic!("PostgreSQL says the types of parameters"),
        };
        assert_eq!(types.len(), logged.values.len(), "{text}");
        let mut values = PgArguments::default();
        for (type_info, value) in types.into_iter().zip(logged.values) {
            let value = encoded(session, type_info, value).await;
            values.add(value).expect("the value is encoded");
        }
        Self { text, values: Some(values) }
    }
}

/// Lets PostgreSQL encode a value from its text.
async fn encoded(session: &mut PgConnection, type_info: PgTypeInfo, text: String) -> EncodedValue {
    let sql = format!("SELECT $1::text::{}", type_info.name());
    let row = sqlx::query(AssertSqlSafe(sql)).bind(text).fetch_one(session).await;
    let row = row.expect("the text is a value of the type");
    let value = row.try_get_raw(0).expect("the answer has a column");
    let bytes = value.as_bytes().expect("the value is not null").to_vec();
    EncodedValue { bytes, type_info }
}

/// Changes the logging of all sessions.
async fn set_logging(session: &mut PgConnection, change: &str) {
    let text = format!("ALTER SYSTEM {change}");
    sqlx::raw_sql(AssertSqlSafe(text)).execute(&mut *session).await.expect("a superuser changes");
    sqlx::raw_sql("SELECT pg_reload_conf()").execute(session).await.expect("the server reloads");
}

async fn copy_tables(session: &mut PgConnection) {
    let mut script = format!("CREATE SCHEMA {COPIES};");
    for table in TABLES {
        script.push_str(&format!(
            "CREATE TABLE {COPIES}.{table} (LIKE public.{table} INCLUDING ALL);
             INSERT INTO {COPIES}.{table} SELECT * FROM public.{table};"
        ));
    }
    sqlx::raw_sql(AssertSqlSafe(script)).execute(session).await.expect("the tables are copied");
}

/// Returns the statements of the last complete commit in the log that writes records.
fn last_commit(log: &str) -> Option<Vec<LoggedStatement>> {
    let mut open: HashMap<&str, Vec<LoggedStatement>> = HashMap::new();
    let mut last = None;
    for line in log.lines() {
        let Some((process, entry)) = entry_of(line) else { continue };
        let transaction = open.entry(process).or_default();
        if let Some((_, text)) = entry.split_once("LOG:  statement: ") {
            if text.starts_with(BEGIN) {
                transaction.clear();
            }
            let text = text.to_owned();
            let is_end = text.ends_with(COMMIT);
            transaction.push(LoggedStatement { text, is_script: true, values: Vec::new() });
            let complete = if is_end { std::mem::take(transaction) } else { Vec::new() };
            let has = |word: &str| complete.iter().any(|statement| statement.text.contains(word));
            if has(PUT) && !has(NAMED) {
                last = Some(complete);
            }
        } else if let Some((_, rest)) = entry.split_once("LOG:  execute ") {
            let (_, text) = rest.split_once(": ").unwrap_or_default();
            transaction.push(LoggedStatement { text: text.to_owned(), ..Default::default() });
        } else if let (Some((_, values)), Some(statement)) =
            (entry.split_once("arameters: "), transaction.last_mut())
        {
            statement.values = values_of(values);
        }
    }
    last
}

/// Returns the number of the process and the entry of a line such as `2026-11-29 08:15:00.123 UTC
/// [17] LOG:  statement: COMMIT`.
fn entry_of(line: &str) -> Option<(&str, &str)> {
    let (_, rest) = line.split_once(" [")?;
    rest.split_once("] ")
}

/// Returns the values of a text such as `$1 = '{1,2}', $2 = 'it''s'`.
fn values_of(text: &str) -> Vec<String> {
    let mut values = Vec::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once(" = '") {
        let mut value = String::new();
        rest = after;
        while let Some((part, after)) = rest.split_once('\'') {
            value.push_str(part);
            rest = after;
            match rest.strip_prefix('\'') {
                Some(after) => {
                    value.push('\'');
                    rest = after;
                }
                None => break,
            }
        }
        values.push(value);
    }
    values
}

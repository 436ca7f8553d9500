//! Drafts of statements: text and bound values, collected part by part.

use std::io;
use std::time::Duration;

use sqlx::postgres::{PgArguments, PgConnection, PgRow, Postgres};
use sqlx::{Arguments as _, AssertSqlSafe, Encode, Type};
use tokio::time::timeout;

use super::postgres_error::PostgresError;

/// Maximum time of a statement, as the client counts. The limit of the server
/// ([`super::connections`]) is shorter, so the client's limit is met only if the connection is
/// dead.
pub(super) const STATEMENT_TIME: Duration = Duration::from_secs(45);

/// A statement with its values, or a script of statements without values.
#[derive(Clone, Default)]
pub(super) struct StatementDraft {
    text: String,
    bound: PgArguments,
    is_script: bool,
    /// `true` if a statement without a row as its answer must not be committed.
    counts: bool,
}

impl StatementDraft {
    /// Returns a statement without values so far.
    pub(super) fn of(text: impl Into<String>) -> StatementDraft {
        StatementDraft { text: text.into(), ..StatementDraft::default() }
    }

    /// Returns statements without values, separated by semicolons.
    pub(super) fn script(text: impl Into<String>) -> StatementDraft {
        StatementDraft { is_script: true, ..StatementDraft::of(text) }
    }

    /// Marks the statement that counts the commit and checks the claim.
    pub(super) fn mark_as_count(&mut self) {
        self.counts = true;
    }

    /// Returns whether the statement counts the commit and checks the claim.
    pub(super) fn counts_commit(&self) -> bool {
        self.counts
    }

    /// Adds to the text.
    pub(super) fn add(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// Adds to the text, after `separator` unless the part is the first.
    pub(super) fn add_part(&mut self, separator: &str, part: &str) {
        if !self.text.is_empty() {
            self.text.push_str(separator);
        }
        self.text.push_str(part);
    }

    /// Puts texts without placeholders around the text.
    pub(super) fn nested_in(mut self, before: &str, after: &str) -> StatementDraft {
        self.text = format!("{before}{}{after}", self.text);
        self
    }

    /// Binds a value. Returns the placeholder for the text.
    ///
    /// # Errors
    /// The error of the driver for a value that cannot be encoded.
    pub(super) fn bind<'t, T>(&mut self, value: T) -> Result<String, PostgresError>
    where
        T: Encode<'t, Postgres> + Type<Postgres>,
    {
        self.bound.add(value).map_err(sqlx::Error::Encode)?;
        Ok(format!("${}", self.bound.len()))
    }

    /// Binds a value for a placeholder that stands in the text already.
    ///
    /// # Errors
    /// As [`StatementDraft::bind`].
    pub(super) fn with<'t, T>(mut self, value: T) -> Result<StatementDraft, PostgresError>
    where
        T: Encode<'t, Postgres> + Type<Postgres>,
    {
        self.bind(value)?;
        Ok(self)
    }

    /// Returns whether nothing was added to the text.
    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Runs the statement, and returns the rows.
    ///
    /// # Errors
    /// The error of the database, or the end of the time. The connection must not be used again
    /// after the end of the time.
    pub(super) async fn fetch(
        self,
        connection: &mut PgConnection,
    ) -> Result<Vec<PgRow>, PostgresError> {
        let text = AssertSqlSafe(self.text);
        if self.is_script {
            return in_time(sqlx::raw_sql(text).fetch_all(connection)).await;
        }
        in_time(sqlx::query_with(text, self.bound).fetch_all(connection)).await
    }

    /// As [`StatementDraft::fetch`], for `limit` at most.
    ///
    /// # Errors
    /// As [`StatementDraft::fetch`].
    pub(super) async fn fetch_within(
        self,
        limit: Duration,
        connection: &mut PgConnection,
    ) -> Result<Vec<PgRow>, PostgresError> {
        let text = AssertSqlSafe(self.text);
        within(limit, sqlx::query_with(text, self.bound).fetch_all(connection)).await
    }

    /// Returns the text and the values, for a stream of rows.
    pub(super) fn into_query(self) -> (AssertSqlSafe<String>, PgArguments) {
        (AssertSqlSafe(self.text), self.bound)
    }
}

/// Runs a script, which must be answered within `limit`.
///
/// # Errors
/// As [`StatementDraft::fetch`].
pub(super) async fn run_script_within(
    limit: Duration,
    connection: &mut PgConnection,
    text: &str,
) -> Result<(), PostgresError> {
    let text = AssertSqlSafe(text.to_owned());
    within(limit, sqlx::raw_sql(text).fetch_all(connection)).await.map(drop)
}

/// Runs a script.
///
/// # Errors
/// As [`StatementDraft::fetch`].
pub(super) async fn run_script(
    connection: &mut PgConnection,
    text: &str,
) -> Result<(), PostgresError> {
    StatementDraft::script(text).fetch(connection).await.map(drop)
}

/// Waits for the answer of a statement.
///
/// # Errors
/// The error of the statement, or the end of the time.
pub(super) async fn in_time<T>(
    answer: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, PostgresError> {
    within(STATEMENT_TIME, answer).await
}

/// Waits for the answer of a statement, for `limit` at most.
///
/// # Errors
/// The error of the statement, or the end of the time.
pub(super) async fn within<T>(
    limit: Duration,
    answer: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, PostgresError> {
    match timeout(limit, answer).await {
        Ok(answer) => Ok(answer?),
        Err(_) => {
            let text = format!("no answer within {} s", limit.as_secs());
            Err(sqlx::Error::Io(io::Error::new(io::ErrorKind::TimedOut, text)).into())
        }
    }
}

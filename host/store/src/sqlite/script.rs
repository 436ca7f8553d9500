//! Batches of statements, run in a single turn of the connection's thread.
//!
//! sqlx runs each connection to SQLite on a separate thread. Passing a statement to the thread and
//! the answer back wakes two threads, which costs more than most statements. A commit has half a
//! dozen statements and takes two turns.

use std::mem;

use futures_util::TryStreamExt as _;
use sqlx::sqlite::{Sqlite, SqliteArguments, SqliteConnection, SqliteRow};
use sqlx::{Arguments as _, AssertSqlSafe, Either, Encode, Type};

/// Length in bytes above which a statement has a separate turn. All scripts then share the
/// prepared form, which saves more than a turn costs.
const LONG_STATEMENT_BYTES: usize = 1 << 10;

/// The rows found by each statement of a script, in order.
pub(super) type BatchRows = Vec<Vec<SqliteRow>>;

/// Statements to run, with their bound values.
#[derive(Default)]
pub(super) struct StatementBatch {
    turns: Vec<JoinedStatements>,
    statements: usize,
}

/// The statements of a turn.
struct JoinedStatements {
    text: String,
    bound: SqliteArguments,
    statements: usize,
    is_long: bool,
}

/// The error of a script, and the number of statements that succeeded before the error.
pub(super) struct BatchFailure {
    pub(super) error: sqlx::Error,
    pub(super) done: usize,
}

impl StatementBatch {
    /// Returns the number of statements: the index of the next statement's answer.
    pub(super) fn len(&self) -> usize {
        self.statements
    }

    /// Adds a statement. Later values are bound in this statement. The caller must bind every
    /// placeholder: an unbound placeholder would take a value of the next statement.
    pub(super) fn add(&mut self, text: &str) {
        let is_long = text.len() > LONG_STATEMENT_BYTES;
        match self.turns.last_mut() {
            Some(turn) if !is_long && !turn.is_long => {
                turn.text.push_str("; ");
                turn.text.push_str(text);
                turn.statements += 1;
            }
            _ => self.turns.push(JoinedStatements::of(text, is_long)),
        }
        self.statements += 1;
    }

    /// Adds a statement without bound values before all others.
    pub(super) fn add_first(&mut self, text: &str) {
        match self.turns.first_mut() {
            Some(turn) if !turn.is_long => {
                turn.text.insert_str(0, &format!("{text}; "));
                turn.statements += 1;
            }
            _ => self.turns.insert(0, JoinedStatements::of(text, false)),
        }
        self.statements += 1;
    }

    /// Binds the next placeholder of the statement that was added last.
    ///
    /// # Errors
    /// The error of sqlx for a value that cannot be encoded.
    pub(super) fn bind<'t, T>(&mut self, value: T) -> Result<(), sqlx::Error>
    where
        T: Encode<'t, Sqlite> + Type<Sqlite>,
    {
        let Some(turn) = self.turns.last_mut() else { return Ok(()) };
        turn.bound.add(value).map_err(sqlx::Error::Encode)
    }

    /// Runs the statements up to the first failure.
    ///
    /// # Errors
    /// The error of SQLite.
    pub(super) async fn run(
        self,
        connection: &mut SqliteConnection,
    ) -> Result<BatchRows, BatchFailure> {
        let mut answers = BatchRows::with_capacity(self.statements);
        for turn in self.turns {
            if let Err(error) = turn.run(connection, &mut answers).await {
                return Err(BatchFailure { error, done: answers.len() });
            }
        }
        Ok(answers)
    }
}

impl JoinedStatements {
    fn of(text: &str, is_long: bool) -> Self {
        let bound = SqliteArguments::default();
        JoinedStatements { text: text.to_owned(), bound, statements: 1, is_long }
    }

    async fn run(
        self,
        connection: &mut SqliteConnection,
        answers: &mut BatchRows,
    ) -> Result<(), sqlx::Error> {
        let all = answers.len() + self.statements;
        let query = sqlx::query_with(AssertSqlSafe(self.text), self.bound);
        let mut steps = sqlx::Executor::fetch_many(connection, query);
        let mut rows = Vec::new();
        while let Some(step) = steps.try_next().await? {
            match step {
                Either::Right(row) => rows.push(row),
                Either::Left(_) => answers.push(mem::take(&mut rows)),
            }
        }
        // If the connection's thread dies, the stream of answers ends without an error.
        if answers.len() == all { Ok(()) } else { Err(sqlx::Error::WorkerCrashed) }
    }
}

impl From<BatchFailure> for sqlx::Error {
    fn from(failed: BatchFailure) -> sqlx::Error {
        failed.error
    }
}

#[cfg(test)]
mod tests;

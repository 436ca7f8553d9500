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
mod tests {
    use sqlx::{Connection as _, Row as _};

    use super::*;

    async fn connection() -> SqliteConnection {
        SqliteConnection::connect(":memory:").await.unwrap()
    }

    #[tokio::test]
    async fn each_statement_has_own_values_and_rows() {
        let mut connection = connection().await;
        for _ in 0..2 {
            let mut script = StatementBatch::default();
            script.add("SELECT ? UNION ALL SELECT ?");
            script.bind(1).unwrap();
            script.bind(2).unwrap();
            script.add("SELECT ? WHERE FALSE");
            script.bind(3).unwrap();
            script.add(&format!("SELECT ? + ? -- {}", "long ".repeat(LONG_STATEMENT_BYTES)));
            script.bind(4).unwrap();
            script.bind(None::<i64>).unwrap();
            script.add("SELECT ?");
            script.bind(5).unwrap();
            script.add_first("SELECT 0");
            assert_eq!((script.len(), script.turns.len()), (5, 3));
            let answers = script.run(&mut connection).await.ok().unwrap();
            let numbers = |rows: &Vec<SqliteRow>| {
                rows.iter().map(|row| row.get::<Option<i64>, _>(0)).collect::<Vec<_>>()
            };
            assert_eq!(
                answers.iter().map(numbers).collect::<Vec<_>>(),
                [vec![Some(0)], vec![Some(1), Some(2)], vec![], vec![None], vec![Some(5)]]
            );
        }
    }

    #[tokio::test]
    async fn a_statement_without_an_answer_is_a_failure() {
        let mut script = StatementBatch::default();
        // The comment ends late, so there is no second statement.
        script.add("SELECT 1 --");
        script.add("SELECT 2");
        let failed = script.run(&mut connection().await).await.err().unwrap();
        assert!(matches!(failed.error, sqlx::Error::WorkerCrashed), "{}", failed.error);
        assert_eq!(failed.done, 1);
    }

    #[tokio::test]
    async fn first_failure_ends_batch_and_counts_done_statements() {
        let mut connection = connection().await;
        let mut script = StatementBatch::default();
        script.add("CREATE TABLE t (one INTEGER PRIMARY KEY)");
        script.add("INSERT INTO t VALUES (?)");
        script.bind(1).unwrap();
        script.add("INSERT INTO t VALUES (?)");
        script.bind(1).unwrap();
        script.add("DELETE FROM t");
        let failed = script.run(&mut connection).await.err().unwrap();
        assert_eq!(failed.done, 2);
        assert!(failed.error.to_string().contains("UNIQUE"), "{}", failed.error);
        let count = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM t");
        assert_eq!(count.fetch_one(&mut connection).await.unwrap(), 1);
    }
}

//! A session that is lent, and the state in which it goes back to its pool.
//!
//! Two faults end here. A session that goes back inside a transaction that was begun and never
//! ended, because its call was cut while the server still answered: what is asked on it next would
//! be a part of that transaction, never kept, or kept together with what was given up. The library
//! knows of a transaction once its BEGIN was answered; here a session is closed unless its use was
//! seen to end.
//!
//! And a session on which the statements of one role decide what those of another one mean: as
//! whom, in which schema, and how a password is kept. A session on which anything was run but
//! statements that are known to leave it alone is returned to the state after its login, in the
//! same message that ends the transaction, or is closed.

use super::failure::{SqlFailure, of_commit};
use super::session_state::Dialect;
use crate::bindings::database_plugin::bulkhead::plugin::sql::Statement;
use futures_util::StreamExt as _;
use sqlx::pool::PoolConnection;
use sqlx::{AssertSqlSafe, Database, Either, Executor};
use std::ops::{Deref, DerefMut};

/// A session in use. Unless its use ends well, it is closed, and nothing that is open is kept.
pub(super) struct LentSession<D: Database> {
    session: PoolConnection<D>,
    /// The server was seen to wait for the next statement, with no transaction open.
    is_idle: bool,
    /// Statements were run that may have changed it, and not only the database.
    is_changed: bool,
}

impl<D: Database> LentSession<D> {
    pub(super) fn new(session: PoolConnection<D>) -> Self {
        Self { session, is_idle: true, is_changed: false }
    }

    /// Whether the same use can begin on it again.
    pub(super) fn is_idle(&self) -> bool {
        self.is_idle
    }
}

impl<D: Dialect> LentSession<D>
where
    for<'c> &'c mut D::Connection: Executor<'c, Database = D>,
{
    /// Begins a transaction by `text`, which may say more than that it begins.
    ///
    /// # Errors
    /// The server's; nothing of `text` is kept then.
    pub(super) async fn begin(&mut self, text: String) -> Result<(), sqlx::Error> {
        self.is_idle = false;
        let begun = self.run(text).await;
        if begun.is_err() {
            self.give_up().await;
        }
        begun
    }

    /// Begins a transaction by `begin`, with `first` in the same message.
    ///
    /// # Errors
    /// As [`begin`](Self::begin).
    pub(super) async fn begin_with(
        &mut self,
        begin: &str,
        first: &Statement,
    ) -> Result<(), sqlx::Error> {
        self.note(first);
        self.begin(format!("{begin}; {}", first.text)).await
    }

    /// Runs what is in `text`, without a look at its rows. For words of our own.
    pub(super) async fn run(&mut self, text: String) -> Result<(), sqlx::Error> {
        self.session.execute(sqlx::raw_sql(AssertSqlSafe(text))).await.map(drop)
    }

    /// Notes what `statement`, which is run next, may do to the session.
    pub(super) fn note(&mut self, statement: &Statement) {
        self.is_changed |= !D::leaves_session(&statement.text);
    }

    /// Runs a statement outside of a transaction.
    pub(super) async fn run_alone(&mut self, statement: &Statement) -> Result<(), sqlx::Error> {
        self.is_idle = false;
        self.note(statement);
        let done = self.run(statement.text.clone()).await;
        let is_answered = matches!(done, Ok(()) | Err(sqlx::Error::Database(_)));
        self.is_idle = is_answered && self.reset().await.is_ok();
        done
    }

    /// Keeps what went well, and nothing of what did not.
    pub(super) async fn end(&mut self, done: Result<(), SqlFailure>) -> Result<(), SqlFailure> {
        if done.is_err() {
            self.give_up().await;
            return done;
        }
        self.is_idle = self.end_by("COMMIT").await.map_err(|error| of_commit(&error))?;
        Ok(())
    }

    /// Ends the transaction with nothing kept. A session that cannot do that is closed, which does
    /// the same.
    pub(super) async fn give_up(&mut self) {
        self.is_idle = self.end_by("ROLLBACK").await.unwrap_or(false);
    }

    /// Ends the transaction by `word`, and resets the session in the same message where it may be
    /// changed. Returns whether all of that went well.
    ///
    /// # Errors
    /// Those of `word`. One that comes after its answer is none: it is about the session alone.
    async fn end_by(&mut self, word: &str) -> Result<bool, sqlx::Error> {
        let text = match D::RESET {
            Some(reset) if self.is_changed => format!("{word}; {reset}"),
            _ => word.to_owned(),
        };
        let mut answers = self.session.fetch_many(sqlx::raw_sql(AssertSqlSafe(text)));
        let mut is_ended = false;
        while let Some(answer) = answers.next().await {
            match answer {
                Ok(Either::Left(_)) => is_ended = true,
                Ok(Either::Right(_)) => {}
                Err(_) if is_ended => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        drop(answers);
        self.is_changed &= D::RESET.is_none();
        Ok(true)
    }

    /// Returns a session on which no transaction is open to the state after its login.
    async fn reset(&mut self) -> Result<(), sqlx::Error> {
        if let Some(reset) = D::RESET.filter(|_| self.is_changed) {
            self.run(reset.to_owned()).await?;
            self.is_changed = false;
        }
        Ok(())
    }
}

impl<D: Database> Deref for LentSession<D> {
    type Target = D::Connection;

    fn deref(&self) -> &D::Connection {
        &self.session
    }
}

impl<D: Database> DerefMut for LentSession<D> {
    fn deref_mut(&mut self) -> &mut D::Connection {
        &mut self.session
    }
}

impl<D: Database> Drop for LentSession<D> {
    fn drop(&mut self) {
        if !self.is_idle || self.is_changed {
            self.session.close_on_drop();
        }
    }
}

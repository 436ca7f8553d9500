//! A lent session, and the state in which the session returns to its pool.
//!
//! This file prevents two faults. First, a call is cut while the server still answers, and the
//! session returns to the pool inside an open transaction. The next statements would become part of
//! that transaction: lost on rollback, or committed together with abandoned work. The library knows
//! of a transaction only after the server answered BEGIN; this file closes a session unless its use
//! was seen to end.
//!
//! Second, the statements of a role change the session for the next role: its user, its schema, or
//! the hashing of passwords. After any statement that is not known to leave the session unchanged,
//! this file resets the session to the state after its login, in the same message that ends the
//! transaction, or closes the session.

use super::failure::{SqlFailure, of_commit};
use super::session_state::SqlDialect;
use super::statement::SqlStatement;
use futures_util::StreamExt as _;
use sqlx::pool::PoolConnection;
use sqlx::{AssertSqlSafe, Database, Either, Executor};
use std::ops::{Deref, DerefMut};

/// A session in use. Dropping an unfinished session closes the session, and the server rolls back.
pub(super) struct LentSession<D: Database> {
    session: PoolConnection<D>,
    /// The server waits for the next statement, with no transaction open.
    is_idle: bool,
    /// A statement may have changed the session itself, not only the database.
    is_changed: bool,
}

impl<D: Database> LentSession<D> {
    pub(super) fn new(session: PoolConnection<D>) -> Self {
        Self { session, is_idle: true, is_changed: false }
    }

    /// Returns whether the same use can begin again on this session.
    pub(super) fn is_idle(&self) -> bool {
        self.is_idle
    }
}

impl<D: SqlDialect> LentSession<D>
where
    for<'c> &'c mut D::Connection: Executor<'c, Database = D>,
{
    /// Begins a transaction by `text`, which may contain more statements.
    ///
    /// # Errors
    /// The server's error; the server keeps nothing of `text` then.
    pub(super) async fn begin(&mut self, text: String) -> Result<(), sqlx::Error> {
        self.is_idle = false;
        let begun = self.run(text).await;
        if begun.is_err() {
            self.abandon().await;
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
        first: &SqlStatement,
    ) -> Result<(), sqlx::Error> {
        self.note(first);
        self.begin(format!("{begin}; {}", first.text)).await
    }

    /// Runs the statements in `text` without parameters, and ignores their rows.
    pub(super) async fn run(&mut self, text: String) -> Result<(), sqlx::Error> {
        self.session.execute(sqlx::raw_sql(AssertSqlSafe(text))).await.map(drop)
    }

    /// Records whether `statement`, which runs next, may change the session.
    pub(super) fn note(&mut self, statement: &SqlStatement) {
        self.is_changed |= !D::leaves_session(&statement.text);
    }

    /// Runs a statement outside a transaction.
    pub(super) async fn run_alone(&mut self, statement: &SqlStatement) -> Result<(), sqlx::Error> {
        self.is_idle = false;
        self.note(statement);
        let done = self.run(statement.text.clone()).await;
        let is_answered = matches!(done, Ok(()) | Err(sqlx::Error::Database(_)));
        self.is_idle = is_answered && self.reset().await.is_ok();
        done
    }

    /// Commits if `done` is a success, and rolls back otherwise.
    pub(super) async fn end(&mut self, done: Result<(), SqlFailure>) -> Result<(), SqlFailure> {
        if done.is_err() {
            self.abandon().await;
            return done;
        }
        self.is_idle = self.end_by("COMMIT").await.map_err(|error| of_commit(&error))?;
        Ok(())
    }

    /// Rolls the transaction back. If the rollback fails, the session is closed, which has the same
    /// effect.
    pub(super) async fn abandon(&mut self) {
        self.is_idle = self.end_by("ROLLBACK").await.unwrap_or(false);
    }

    /// Ends the transaction by `word`, and resets a changed session in the same message. Returns
    /// whether both succeeded.
    ///
    /// # Errors
    /// The errors of `word`. An error after the answer to `word` concerns only the session, and
    /// gives `false`.
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

    /// Resets a session without an open transaction to the state after its login.
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

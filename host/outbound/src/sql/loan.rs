//! A session that is lent for a single use, or for all attempts of a use.
//!
//! This file prevents running work from failing because its pool was closed: the work keeps the
//! same session from beginning to end, and asks the pool again only if that session broke.

use super::failure::{SqlFailure, ends_session, failed, of_login, of_statement};
use super::lent_session::LentSession;
use super::session_pool::SessionPool;
use super::session_state::SqlDialect;
use super::statement::SqlStatement;
use crate::limits;
use sqlx::{Connection, Database, Executor};
use std::time::Duration;

/// A lent session and its pool.
pub(super) struct ProtocolLoan<D: Database> {
    lender: SessionPool<D>,
    pub(super) session: LentSession<D>,
    /// The session was used before, and may have broken since.
    may_be_broken: bool,
}

impl<D: Database> ProtocolLoan<D> {
    /// Borrows a session of the pool. `None`: the pool was closed.
    ///
    /// # Errors
    /// The errors of a login.
    pub(super) async fn of(lender: &SessionPool<D>) -> Result<Option<Self>, SqlFailure> {
        let may_be_broken = lender.may_be_broken();
        let lent = lender.lend().await?;
        let (session, lender) = (lent.map(LentSession::new), lender.clone());
        Ok(session.map(|session| Self { lender, session, may_be_broken }))
    }

    /// Borrows an idle, live session of the pool, if there is such a session.
    pub(super) async fn borrow_idle(lender: &SessionPool<D>) -> Option<Self> {
        let mut session = LentSession::new(lender.lend_idle()?);
        session.ping().await.ok()?;
        Some(Self { lender: lender.clone(), session, may_be_broken: false })
    }
}

impl<D: SqlDialect> ProtocolLoan<D>
where
    for<'c> &'c mut D::Connection: Executor<'c, Database = D>,
{
    /// Begins a transaction by `text`. If the session broke since its last use, this statement
    /// fails before any work was done, and the loan takes the next session.
    pub(super) async fn begin_transaction(mut self, text: &str) -> Result<Self, SqlFailure> {
        loop {
            match self.lender.wait_while_listening(self.session.begin(text.to_owned())).await {
                Ok(()) => return Ok(self),
                Err(failure) if self.may_be_broken && failure.code == "unreachable" => {
                    self = self.replace_session().await?;
                }
                Err(failure) => return Err(failure),
            }
        }
    }

    /// Begins a transaction and runs `first` in the same round trip, for a server without implicit
    /// commits. `false`: the session broke since its last use, and the server kept nothing; the
    /// caller must have the session [`replace_session`](Self::replace_session).
    pub(super) async fn begin_with(
        &mut self,
        text: &str,
        first: &SqlStatement,
    ) -> Result<bool, SqlFailure> {
        match self.session.begin_with(text, first).await {
            Ok(()) => Ok(true),
            Err(error) if self.may_be_broken && ends_session(&error) => Ok(false),
            Err(error) => Err(of_statement(&error, first.secret).at(0)),
        }
    }

    /// Runs a trivial query.
    pub(super) async fn ping(self) -> Result<(), SqlFailure> {
        let answer = self.ensure_alive().await?.session.run("SELECT 1".to_owned()).await;
        answer.map_err(|error| of_statement(&error, false))
    }

    /// Runs a single statement outside a transaction, after `settings` if there are any.
    pub(super) async fn execute_after(
        self,
        settings: Option<String>,
        statement: &SqlStatement,
    ) -> Result<(), SqlFailure> {
        let mut session = self.ensure_alive().await?.session;
        if let Some(settings) = settings {
            session.run(settings).await.map_err(|error| of_statement(&error, false))?;
        }
        let done = session.run_alone(statement).await;
        done.map_err(|error| of_statement(&error, statement.secret).at(0))
    }

    /// Returns a loan of a live session.
    async fn ensure_alive(mut self) -> Result<Self, SqlFailure> {
        loop {
            match self.session.ping().await {
                Ok(()) => return Ok(self),
                Err(_) if self.may_be_broken => self = self.replace_session().await?,
                Err(error) => return Err(of_login(&error)),
            }
        }
    }

    /// Replaces a broken session by another session. Each broken session leaves the pool, so
    /// repeated replacing ends.
    pub(super) async fn replace_session(self) -> Result<Self, SqlFailure> {
        let Self { lender, session, .. } = self;
        // A pool with a limit of 1 has no other session to lend before this drop.
        drop(session);
        Self::of(&lender).await?.ok_or_else(|| {
            failed("unreachable", "the session broke, and the connection was closed meanwhile")
        })
    }
}

/// A counter of attempts at a use of a session that conflicts with other sessions.
pub(super) struct ConflictRetries(u32);

impl ConflictRetries {
    pub(super) fn new() -> Self {
        Self(1)
    }

    /// Returns whether the use that ended with `done` is to be tried again on the same session, and
    /// waits before the retry.
    pub(super) async fn retry_after_conflict(
        &mut self,
        done: &Result<(), SqlFailure>,
        session: &LentSession<impl Database>,
    ) -> bool {
        let is_conflict = done.as_ref().is_err_and(|failure| failure.code == "conflict");
        if !is_conflict || !session.is_idle() || self.0 >= limits::CONFLICT_TRIES {
            return false;
        }
        tokio::time::sleep(jitter(self.0)).await;
        self.0 += 1;
        true
    }
}

/// Returns the back-off before the next attempt: 5 to 10 ms at first, doubling up to 40 to 80 ms.
/// Half of the time is random, so that rivals do not collide again.
fn jitter(tries: u32) -> Duration {
    let most = 5_u64 << tries.min(4);
    let mut byte = [0_u8; 1];
    // If there is no randomness, the waits of rivals are not spread.
    let _ = aws_lc_rs::rand::fill(&mut byte);
    let spread = byte.first().map_or(0, |byte| u64::from(*byte) * most / 512);
    Duration::from_millis(most / 2 + spread)
}

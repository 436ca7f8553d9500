//! A transaction on a session that is lent.
//!
//! The fault this file stops: a session that goes back to its pool inside a transaction that was
//! begun and never ended, because its call was cut while the server still answered. What is asked
//! on it next would be a part of that transaction: never kept, or kept together with what was given
//! up. The library knows of a transaction once its BEGIN was answered; here a session is closed
//! unless its transaction was seen to end.

use super::failure::{SqlFailure, of_commit};
use sqlx::pool::PoolConnection;
use sqlx::{AssertSqlSafe, Database, Executor};
use std::ops::{Deref, DerefMut};

/// A transaction. Unless it ends well, nothing of it is kept.
pub(super) struct Transaction<D: Database> {
    session: PoolConnection<D>,
    has_ended: bool,
}

impl<D: Database> Transaction<D>
where
    for<'c> &'c mut D::Connection: Executor<'c, Database = D>,
{
    /// Begins one by `text`, which may say more than that it begins.
    ///
    /// # Errors
    /// The server's; nothing of `text` is kept then.
    pub(super) async fn begin(
        session: PoolConnection<D>,
        text: String,
    ) -> Result<Self, sqlx::Error> {
        let mut begun = Self { session, has_ended: false };
        match begun.run(text).await {
            Ok(()) => Ok(begun),
            Err(error) => {
                begun.give_up().await;
                Err(error)
            }
        }
    }

    /// Runs what is in `text`, without a look at its rows.
    pub(super) async fn run(&mut self, text: String) -> Result<(), sqlx::Error> {
        self.session.execute(sqlx::raw_sql(AssertSqlSafe(text))).await.map(drop)
    }

    /// Keeps what went well, and nothing of what did not.
    pub(super) async fn end(mut self, done: Result<(), SqlFailure>) -> Result<(), SqlFailure> {
        if done.is_err() {
            self.give_up().await;
            return done;
        }
        self.run("COMMIT".to_owned()).await.map_err(|error| of_commit(&error))?;
        self.has_ended = true;
        Ok(())
    }

    /// Ends it with nothing kept. A session that cannot do that is closed, which does the same.
    pub(super) async fn give_up(mut self) {
        self.has_ended = self.run("ROLLBACK".to_owned()).await.is_ok();
    }
}

impl<D: Database> Deref for Transaction<D> {
    type Target = D::Connection;

    fn deref(&self) -> &D::Connection {
        &self.session
    }
}

impl<D: Database> DerefMut for Transaction<D> {
    fn deref_mut(&mut self) -> &mut D::Connection {
        &mut self.session
    }
}

impl<D: Database> Drop for Transaction<D> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.session.close_on_drop();
        }
    }
}

//! The pool of reading connections, each used by a single reader at a time.
//!
//! The pool of sqlx checks after each use whether a connection is alive, which costs as much as a
//! read. A connection to a local file lives until dropped. A connection is not reused after an
//! error, or if the reader went away half-way.

use std::mem;
use std::sync::Mutex;

use bulkhead_wire::sync;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions as _, Connection as _};
use tokio::sync::Semaphore;

use crate::activity::ActivityCounter;

/// Maximum number of reading connections. More would only compete for the same 2 to 4 processors;
/// each costs a thread and a page cache.
const READERS: u32 = 4;

/// Idle connections, and permits for the connections in use.
pub(crate) struct ReaderPool {
    options: SqliteConnectOptions,
    idle: Mutex<Vec<SqliteConnection>>,
    places: Semaphore,
    reads: ActivityCounter,
}

impl ReaderPool {
    /// Creates the pool without opening a connection.
    pub(super) fn new(options: SqliteConnectOptions) -> ReaderPool {
        ReaderPool {
            options,
            idle: Mutex::default(),
            places: Semaphore::new(READERS as usize),
            reads: ActivityCounter::default(),
        }
    }

    /// Runs `work` as soon as a connection is free. Each statement sees the newest committed state.
    ///
    /// # Errors
    /// The error of SQLite; [`sqlx::Error::PoolClosed`] if the store was closed; the errors of
    /// `work`.
    pub(crate) async fn read<T, E, W>(&self, work: W) -> Result<T, E>
    where
        W: AsyncFnOnce(&mut SqliteConnection) -> Result<T, E>,
        E: From<sqlx::Error>,
    {
        self.reads.increment();
        let _place = self.places.acquire().await.map_err(|_| sqlx::Error::PoolClosed)?;
        let idle = sync::lock(&self.idle).pop();
        let mut connection = match idle {
            Some(connection) => connection,
            None => self.options.connect().await?,
        };
        let read = work(&mut connection).await?;
        sync::lock(&self.idle).push(connection);
        Ok(read)
    }

    /// Returns the number of reads so far.
    pub(super) fn reads(&self) -> u64 {
        self.reads.read()
    }

    /// Waits for the current readers and closes their connections; later readers are refused.
    pub(crate) async fn close(&self) {
        let Ok(all) = self.places.acquire_many(READERS).await else { return };
        self.places.close();
        let idle = mem::take(&mut *sync::lock(&self.idle));
        for connection in idle {
            discard(connection).await;
        }
        drop(all);
    }
}

/// Closes a connection that is no longer needed. An error during the close changes nothing: the
/// file's lock and any open transaction end with the connection's thread in any case.
pub(super) async fn discard(connection: SqliteConnection) {
    drop(connection.close().await);
}

#[cfg(test)]
mod tests;

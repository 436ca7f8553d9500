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
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::testing::ScratchDirectory;

    async fn opened() -> (ScratchDirectory, Arc<crate::Store>) {
        let scratch = ScratchDirectory::of_files();
        let store = scratch.open().await;
        (scratch, store)
    }

    async fn count(readers: &ReaderPool) -> Result<i64, sqlx::Error> {
        let count = async |connection: &mut SqliteConnection| {
            sqlx::query_scalar("SELECT count(*) FROM meta").fetch_one(connection).await
        };
        readers.read(count).await
    }

    #[tokio::test]
    async fn connection_is_reused_unless_failed_or_abandoned() {
        let (_scratch, store) = opened().await;
        let readers = store.database().sqlite().readers();
        let idle = || sync::lock(&readers.idle).len();
        let before = count(readers).await.unwrap();
        assert_eq!(idle(), 1);
        let failing = async |connection: &mut SqliteConnection| {
            sqlx::query("SELECT nonsense").execute(connection).await.map(drop)
        };
        assert!(readers.read(failing).await.is_err());
        assert_eq!(idle(), 0);
        assert_eq!(count(readers).await.unwrap(), before);
        let left = readers.read(async |_| {
            std::future::pending::<()>().await;
            Ok::<(), sqlx::Error>(())
        });
        tokio::select! {
            biased;
            _ = left => unreachable!("it waits for ever"),
            () = tokio::task::yield_now() => {}
        }
        assert_eq!(idle(), 0);
        assert_eq!(count(readers).await.unwrap(), before);
    }

    #[tokio::test]
    async fn readers_are_bounded_and_next_waits() {
        let (_scratch, store) = opened().await;
        let database = store.database().sqlite();
        let (holding, release) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let hold = || async {
            let hold = async |_: &mut SqliteConnection| {
                holding.add_permits(1);
                drop(release.acquire().await);
                Ok::<(), sqlx::Error>(())
            };
            database.readers().read(hold).await.unwrap();
        };
        let all = futures_util::future::join_all((0..=READERS).map(|_| hold()));
        let check = async {
            drop(holding.acquire_many(READERS).await);
            assert_eq!(holding.available_permits(), READERS as usize, "the last one waits");
            release.add_permits(READERS as usize + 1);
        };
        tokio::join!(all, check);
        database.readers().close().await;
        let refused = count(database.readers()).await;
        assert!(matches!(refused, Err(sqlx::Error::PoolClosed)), "{refused:?}");
    }
}

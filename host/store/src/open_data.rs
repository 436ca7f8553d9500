//! The data of an open store: what units of work read, and what the committer writes. Both know
//! this and not each other.

use std::sync::Arc;

use tokio::sync::Mutex;

use sqlx::sqlite::SqliteConnection;

use crate::alarm::Alarm;
use crate::cache::{Cache, Found};
use crate::clock::Clock;
use crate::directory::HeldDirectory;
use crate::fault::StoreFault;
use crate::folders::Folders;
use crate::record::Address;
use crate::rows;
use crate::seal::Seal;
use crate::sqlite::Database;
use crate::stored::StoredBytes;
use crate::time_mark::TimeMark;
use crate::turns::Contended;
use crate::watched::Watched;
use crate::work::Reads;

/// The database, the keys that open it, and what is kept of it in memory. A unit that waits for its
/// commit has a handle, so that the directory is held until its fate is known.
pub(crate) struct OpenData {
    pub(crate) database: Database,
    pub(crate) seal: Seal,
    pub(crate) cache: Cache,
    pub(crate) folders: Folders,
    pub(crate) watched: Arc<Watched>,
    pub(crate) alarm: Alarm,
    pub(crate) time: TimeMark,
    pub(crate) stored: StoredBytes,
    /// `None` once the store is closed.
    directory: Mutex<Option<HeldDirectory>>,
}

impl OpenData {
    /// The data of `database`, whose directory this process holds, by the time of `clock`.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] when there is no randomness.
    pub(crate) fn new(
        database: Database,
        seal: Seal,
        directory: HeldDirectory,
        clock: &Arc<Clock>,
    ) -> Result<OpenData, StoreFault> {
        Ok(OpenData {
            database,
            seal,
            cache: Cache::default(),
            folders: Folders::new()?,
            watched: Arc::default(),
            alarm: Alarm::default(),
            time: TimeMark::new(clock),
            stored: StoredBytes::default(),
            directory: Mutex::new(Some(directory)),
        })
    }

    /// The newest committed record at `address`, from memory where it is known.
    ///
    /// # Errors
    /// [`StoreFault::Damaged`] when it does not open, [`StoreFault::Unavailable`] when it cannot be
    /// read.
    pub(crate) async fn read(&self, address: &Address) -> Result<Found, StoreFault> {
        let commits = match self.cache.find(address) {
            Ok(known) => return Ok(known),
            Err(commits) => commits,
        };
        // On the heap, as every future here that a request seldom needs: it would make each one
        // that waits for it as large, and those are moved several times a request.
        let found = Box::pin(self.fetch(address)).await?;
        self.cache.keep(commits, address, &found);
        Ok(found)
    }

    async fn fetch(&self, address: &Address) -> Result<Found, StoreFault> {
        let find = async |connection: &mut SqliteConnection| rows::find(connection, address).await;
        let row = self.database.readers().read(find).await?;
        row.map(|row| Ok((row.stamp, row.open(&self.seal)?))).transpose()
    }

    /// What of `reads` was not true at one moment with the others.
    ///
    /// # Errors
    /// As [`Database::find_changed`].
    pub(crate) async fn find_changed(
        &self,
        reads: &Reads,
    ) -> Result<Option<Contended>, StoreFault> {
        let changed = match reads.only_keys() {
            Some(keys) if self.cache.holds(keys) => None,
            _ => Box::pin(self.database.find_changed(reads)).await?,
        };
        // Last: what holds now held at the moment at which the rest did.
        Ok(changed
            .or_else(|| reads.changed_folder(|name, number| self.folders.holds(name, number))))
    }

    /// The number of the folder `name`, which changes with each commit that writes in it.
    pub(crate) fn folder(&self, name: &str) -> u64 {
        self.folders.number(name, || self.cache.writes_below(name))
    }

    /// Waits for the commit under way, closes the database and gives the directory back.
    pub(crate) async fn close(&self) {
        self.database.close().await;
        self.cache.clear();
        self.directory.lock().await.take();
    }
}

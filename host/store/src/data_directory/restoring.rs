//! The directory during a restore: the right to restore, a directory that is held for a restore,
//! and the opening of restored data without people.

use std::sync::Arc;

use tokio::sync::OwnedMutexGuard;

use super::{DataDirectory, copies};
use crate::clock::StoreClock;
use crate::database::{check_unclaimed, exchange_tables};
use crate::identity;
use crate::store::Store;
use bulkhead_place::options::{DatabaseChoice, StoreOptions};
use bulkhead_place::postgres_place::PostgresPlace;
use bulkhead_record::fault::StoreFault;

impl DataDirectory {
    /// Holds a directory whose database a restore replaces. If `overwrite` is set, the data
    /// need not be readable. The mark of an earlier database in the directory is not compared.
    ///
    /// # Errors
    /// [`StoreFault::Refused`] if another process holds the directory, if another node works on the
    /// database, or if there are data and `overwrite` is not set; [`StoreFault::Unavailable`] if
    /// the directory or the database cannot be used.
    pub(crate) async fn hold_for_restore(
        options: StoreOptions,
        overwrite: bool,
    ) -> Result<DataDirectory, StoreFault> {
        let data_directory = DataDirectory::hold_uninspected(options, StoreClock::system())?;
        // Store time continues from readable data.
        let inspected = data_directory.inspect().await.map(|properties| properties.is_some());
        match inspected {
            Ok(false) => {}
            _ if overwrite => {}
            Ok(true) => {
                return Err(StoreFault::Refused(format!(
                    "{} holds data; nothing was changed; choose an empty place, or let the \
                     restore replace the data (-force)",
                    data_directory.name().display()
                )));
            }
            Err(fault) => return Err(fault),
        }
        if let DatabaseChoice::Postgres(place) = data_directory.choice() {
            // A node that restores at the same time would lose its unfinished tables.
            check_unclaimed(place, &data_directory.unmarked_node()?).await?;
        }
        Ok(data_directory)
    }

    /// Opens the store with the root key of `previous`, which may be closed, like
    /// [`DataDirectory::open`]: for data that were restored from a snapshot of the same cluster.
    ///
    /// # Errors
    /// As [`DataDirectory::open`]; [`StoreFault::WrongKey`] if the data have another root key.
    pub async fn open_like(self: &Arc<Self>, previous: &Store) -> Result<Arc<Store>, StoreFault> {
        self.open_by(|identity| identity.open_like(previous.seal())).await
    }

    /// Returns the system's clock, in milliseconds since 1970. Store time may be ahead.
    pub(crate) fn system_time(&self) -> u64 {
        self.clock.system_time()
    }

    /// Returns the store time at which the present data were restored, in milliseconds; `None` if
    /// nothing is initialised, or the data do not wait for a release. Needs no key.
    ///
    /// # Errors
    /// As [`DataDirectory::hold`].
    pub async fn restored(&self) -> Result<Option<u64>, StoreFault> {
        Ok(identity::read(self.place()).await?.and_then(|identity| identity.restored()))
    }

    /// Completes a replacement of the database that was chosen, if there is one: the present
    /// database is not the data of this directory, or there is no database.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the data are open, or a file cannot be replaced.
    pub(super) fn complete_replacement(&self) -> Result<(), StoreFault> {
        if !copies::is_replacement_chosen(self.path()) {
            return Ok(());
        }
        let _closed = self.take_lock()?;
        self.complete_replacement_locked()
    }

    /// Completes a replacement like [`DataDirectory::complete_replacement`]. The caller holds the
    /// lock of the directory.
    pub(super) fn complete_replacement_locked(&self) -> Result<(), StoreFault> {
        if copies::finish_put_back(self.path())? {
            self.forget_properties();
        }
        Ok(())
    }

    /// Returns the database of the records.
    pub(crate) fn choice(&self) -> &DatabaseChoice {
        &self.options.database
    }

    /// Replaces the tables of the closed database by the tables that a restore filled. Returns
    /// `false` if there are no such tables.
    ///
    /// # Errors
    /// [`StoreFault::Refused`] if another node works on the tables in use;
    /// [`StoreFault::Unavailable`] if the data are open, or the database failed. The next opening
    /// then finds the old data or the new data.
    pub(crate) async fn replace_by_tables(
        &self,
        place: &PostgresPlace,
    ) -> Result<bool, StoreFault> {
        let _closed = self.take_lock()?;
        let replaced = exchange_tables(place, &self.replacing_node()?).await;
        // The data may have other seals, or be of another cluster.
        self.forget_properties();
        replaced
    }

    /// Takes the right to restore. A single restore at a time has this right.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] during another restore.
    pub(crate) fn take_restore_turn(&self) -> Result<OwnedMutexGuard<()>, StoreFault> {
        Arc::clone(&self.restoring).try_lock_owned().map_err(|_| {
            StoreFault::Unavailable(
                "another restore is in progress; nothing was changed; wait for its end".to_owned(),
            )
        })
    }
}

//! The directory during a restore: the right to restore, a directory that is held for a restore,
//! and the opening of restored data without people.

use std::sync::Arc;

use tokio::sync::OwnedMutexGuard;

use super::DataDirectory;
use crate::clock::StoreClock;
use crate::fault::StoreFault;
use crate::options::StoreOptions;
use crate::store::Store;

impl DataDirectory {
    /// Holds a directory whose database a restore replaces. If `overwrite` is set, the data
    /// need not be readable.
    ///
    /// # Errors
    /// [`StoreFault::Refused`] if another process holds the directory, or if the directory holds
    /// data and `overwrite` is not set; [`StoreFault::Unavailable`] if the directory cannot be
    /// used.
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
                    "{} holds data; nothing was changed; choose an empty directory, or let the \
                     restore replace the data (-force)",
                    data_directory.path().display()
                )));
            }
            Err(fault) => return Err(fault),
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

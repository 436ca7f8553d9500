//! Data that were restored from a snapshot, and their release.
//!
//! This file prevents two servers that work on the same accounts: the data of a snapshot are also
//! the data of the server that took the snapshot, and only a person knows that the other server is
//! off. The note of the restore is in the database, so that a restart does not lose the note.

use bulkhead_wire::sync;

use super::Store;
use crate::identity;
use bulkhead_record::fault::StoreFault;

impl Store {
    /// Returns the store time at which the data were restored from a snapshot, in milliseconds;
    /// `None` if the data were not restored, or were released since.
    pub fn restored(&self) -> Option<u64> {
        *sync::read(&self.restored)
    }

    /// Removes the note of the restore. Does nothing for data without such a note.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the note cannot be removed: the data still wait for a
    /// release.
    pub async fn release(&self) -> Result<(), StoreFault> {
        self.database().change_identity(vec![identity::restore_removal()]).await?;
        *sync::write(&self.restored) = None;
        Ok(())
    }
}

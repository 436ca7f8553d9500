//! Data that were restored from a snapshot, and their release.
//!
//! This file prevents two servers that work on the same accounts: the data of a snapshot are also
//! the data of the server that took the snapshot, and only a person knows that the other server is
//! off. The note of the restore is in the database, so that a restart does not lose the note.

use bulkhead_wire::sync;

use super::Store;
use crate::identity;
use bulkhead_place::write_failure::TransactionOutcome;
use bulkhead_record::fault::StoreFault;
use bulkhead_record::meta_rows::has_changes;

impl Store {
    /// Returns the store time at which the data were restored from a snapshot, in milliseconds;
    /// `None` if the data were not restored, or were released since, on any node.
    pub fn restored(&self) -> Option<u64> {
        (*sync::read(&self.restored)).filter(|_| !self.data.is_released())
    }

    /// Removes the note of the restore. Does nothing for data without such a note.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the note cannot be removed: the data still wait for a
    /// release. [`StoreFault::Conflict`] if another process wrote another note.
    pub async fn release(&self) -> Result<(), StoreFault> {
        let Some(at) = self.restored() else { return Ok(()) };
        let replaced = [identity::restored_row(Some(at))];
        let removal = identity::restored_row(None);
        match self.database().replace_identity(&replaced, vec![removal.clone()]).await? {
            TransactionOutcome::Committed => {}
            // Another node released the data.
            TransactionOutcome::Conflict
                if has_changes(&self.database().identity_rows().await?, &[removal]) => {}
            TransactionOutcome::Conflict => return Err(StoreFault::Conflict),
        }
        *sync::write(&self.restored) = None;
        Ok(())
    }
}

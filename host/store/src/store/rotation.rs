//! Rotation: a new key for all future records, while the store serves requests.
//!
//! Rows sealed by older terms stay and open as before; each moves to the newest term at the next
//! write. No task rewrites the other rows, so an old term is never dropped.
//!
//! This file prevents the loss of a term on a database that several nodes share: the new keyring
//! replaces exactly the keyring that the rotation read. Records of a lost term would never open
//! again.

use std::sync::Arc;

use super::Store;
use crate::identity;
use crate::open_data::keyring_damaged;
use bulkhead_place::write_failure::TransactionOutcome;
use bulkhead_record::fault::StoreFault;
use bulkhead_record::keyring::KeyStatus;

/// Maximum attempts of a rotation while other nodes rotate the key.
const MOST_ATTEMPTS: u32 = 8;

impl Store {
    /// Creates a new key that seals all records from now on: stores the key, waits until every node
    /// of a shared database opens records by the key, then uses the key.
    /// Requests are served meanwhile, and rotations wait for each other. The rotation continues if
    /// the caller goes away.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the new key could not be stored; the previous key stays in
    /// use.
    pub async fn rotate(self: &Arc<Self>) -> Result<KeyStatus, StoreFault> {
        let store = Arc::clone(self);
        let task = tokio::spawn(async move { store.rotate_alone().await });
        task.await.unwrap_or_else(|_| {
            Err(StoreFault::Unavailable(
                "the rotation was stopped half-way; look at the key's status".into(),
            ))
        })
    }

    /// Returns the status of the key that seals new records.
    pub fn key_status(&self) -> KeyStatus {
        self.seal().status()
    }

    /// Rotates the key under the lock of this process. If another node rotates the key at the same
    /// time, tries again with the keyring of the other node.
    async fn rotate_alone(&self) -> Result<KeyStatus, StoreFault> {
        let _one_at_a_time = self.rotating.lock().await;
        for _ in 0..MOST_ATTEMPTS {
            if let Some(status) = self.try_rotation().await? {
                return Ok(status);
            }
        }
        Err(StoreFault::Unavailable(format!(
            "other nodes rotated the key {MOST_ATTEMPTS} times meanwhile; look at the key's status"
        )))
    }

    /// Replaces the stored keyring by its successor; `None` if another node replaced the keyring
    /// first. A write reported as failed although stored is harmless: nothing was sealed under that
    /// term, and the next rotation adds another.
    async fn try_rotation(&self) -> Result<Option<KeyStatus>, StoreFault> {
        let rows = self.database().identity_rows().await?;
        let stored = identity::keyring_of(&rows)?;
        let prepared = self.seal().prepare_rotation(stored, self.now())?;
        let (keyring, sealed) = prepared.ok_or_else(keyring_damaged)?;
        let changes = vec![identity::keyring_row(&sealed)];
        let replaced = [identity::keyring_row(stored)];
        match self.database().replace_identity(&replaced, changes).await? {
            TransactionOutcome::Committed => Ok(Some(self.data.begin_term(&keyring).await)),
            TransactionOutcome::Conflict => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests;

//! The seals of the root key, which another node of a shared database may have changed.
//!
//! This file prevents questions about the seals, which load balancers send each second, from
//! waiting for a database that does not answer, and from opening a session each.

use std::time::Duration;

use tokio::time::timeout;

use super::DataDirectory;
use crate::identity;
use bulkhead_place::claim_watch::NodeSharing;
use bulkhead_record::fault::StoreFault;
use bulkhead_record::root_seals::DataSeals;
use bulkhead_record::shamir::SealConfig;

/// Maximum time for which a question waits for the database, if the seals were read before.
const SEALS_TIME: Duration = Duration::from_millis(500);

impl DataDirectory {
    /// Returns the ways in which the data can be opened; `None` if nothing is initialised yet. On a
    /// database that other nodes share, the answer is at most a second old.
    ///
    /// # Errors
    /// As [`DataDirectory::hold`], if the database has to be read.
    pub async fn seals(&self) -> Result<Option<DataSeals>, StoreFault> {
        let Some(properties) = self.known().await? else { return Ok(None) };
        let is_shared = self.sharing == NodeSharing::Shared;
        if let Some(seals) = properties.seals(is_shared) {
            return Ok(Some(seals));
        }
        let outdated = properties.outdated_seals();
        let read = match (&outdated, properties.reading.try_lock()) {
            // Another caller reads the seals.
            (Some(_), Err(_)) => return Ok(outdated),
            (None, _) => Ok(identity::read(self.place()).await),
            (Some(_), Ok(_turn)) => timeout(SEALS_TIME, identity::read(self.place())).await,
        };
        // The last known seals during an outage of the database.
        let Ok(read) = read else {
            properties.note_seals(outdated.clone());
            return Ok(outdated);
        };
        match read {
            Ok(found) => {
                let seals = found.map(|found| found.seals());
                if is_shared {
                    properties.note_seals(seals.clone());
                }
                Ok(seals)
            }
            Err(fault) => outdated.map(Some).ok_or(fault),
        }
    }

    /// Returns the split of the holders' key; `None` if nothing is initialised yet, or nobody holds
    /// shares.
    ///
    /// # Errors
    /// As [`DataDirectory::seals`].
    pub async fn seal_config(&self) -> Result<Option<SealConfig>, StoreFault> {
        Ok(self.seals().await?.and_then(|seals| seals.holders))
    }
}

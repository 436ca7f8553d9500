//! The task that renews the claim of an open store on a database that several machines reach.

use std::sync::Arc;

use super::Store;
use crate::open_data::OpenData;

/// Renews the claim until the claim is lost, the store is closed or the last handle is dropped.
pub(super) fn begin(data: &Arc<OpenData>) {
    let Some(pause) = data.database.claim_pause() else { return };
    let data = Arc::downgrade(data);
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(pause).await;
            let Some(data) = data.upgrade() else { return };
            if !data.database.keep_claim().await {
                return;
            }
        }
    });
}

impl Store {
    /// Returns the reason why another node has the database, or why the database has lost commits;
    /// `None` while this process works on the database. The store then refuses reads and writes,
    /// and [`Store::write_changes`] reports the change.
    pub fn claim_loss(&self) -> Option<&str> {
        self.database().claim_loss()
    }

    /// Returns whether the database has not confirmed the claim of this process for too long. The
    /// store then refuses reads and writes until the next confirmation.
    pub fn is_claim_in_doubt(&self) -> bool {
        self.database().is_claim_in_doubt()
    }
}

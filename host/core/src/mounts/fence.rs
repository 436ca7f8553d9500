//! The fence of a mount on a database that several nodes share.
//!
//! This file prevents a call of this node from writing into a mount, or answering from it, after
//! another node began to remove, move or migrate the mount. The gates of a mount hold back the
//! requests of one process alone. A fenced unit of work depends on the stored record of the mount:
//! its commit, or its end without writes, conflicts with a change of the record, and the repeated
//! call finds the new record here.

use super::mount::Mount;
use super::record::{MountPhase, MountRecord};
use bulkhead_store::{Store, Unit};
use bulkhead_wire::failure::{Failure, FailureKind};

/// Milliseconds after which a client may ask again during a migration.
const RETRY_AFTER: u64 = 1_000;

impl Mount {
    /// Lets `unit` depend on the stored record of this mount. Does nothing on a node that works
    /// alone.
    ///
    /// # Errors
    /// 404 if another node disabled or moved the mount, or is about to; 503 if another node
    /// migrated the data since this mount was built, or is about to.
    pub async fn fence(&self, store: &Store, unit: &mut Unit) -> Result<(), Failure> {
        if !store.is_shared() {
            return Ok(());
        }
        let stored = MountRecord::read(unit, &self.record.path).await?;
        let serves = |stored: &MountRecord| {
            stored.uuid == self.record.uuid && stored.phase == MountPhase::Serving
        };
        let stored = stored.filter(serves).ok_or_else(|| self.gone_failure())?;
        if stored.migration.is_none() && stored.schema == self.record.schema {
            return Ok(());
        }
        let path = &self.record.path;
        let message = format!("another node migrates the data of {path}; try again");
        let failure = Failure::new(FailureKind::Unavailable, message);
        Err(Failure { retry_after: Some(RETRY_AFTER), ..failure })
    }
}

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
        self.check_shape(&stored)
    }

    /// Fences a unit of work that ends a lease: a mount that is being removed or moved ends its
    /// leases, but the data must have the shape that the plugin of this node reads.
    ///
    /// # Errors
    /// 503 as [`Mount::fence`].
    pub(crate) async fn fence_data(&self, store: &Store, unit: &mut Unit) -> Result<(), Failure> {
        if !store.is_shared() {
            return Ok(());
        }
        let stored = MountRecord::read(unit, &self.record.path).await?;
        match stored.filter(|stored| stored.uuid == self.record.uuid) {
            Some(stored) => self.check_shape(&stored),
            None => Ok(()),
        }
    }

    /// Checks that the plugin reads the stored data as they are, without a migration.
    ///
    /// # Errors
    /// 503 if another node migrates the data, or if the data have another schema than the plugin
    /// writes.
    pub(super) fn check_data(&self) -> Result<(), Failure> {
        let MountRecord { path, schema, .. } = &self.record;
        let (written, newest) = (self.plugin.description().schema, self.plugin.newest_schema());
        let message = if self.record.migration.is_some() {
            format!("the data of {path} are being migrated by another node; try again")
        } else if newest < *schema {
            format!(
                "another node migrated the data of {path} to schema {schema}, and the plugin of \
                 this node reads schemas up to {newest}; upgrade this node"
            )
        } else if written > *schema {
            format!(
                "another node wrote the data of {path} with schema {schema}, and the plugin of \
                 this node writes schema {written}; restart this node, which migrates the data"
            )
        } else {
            return Ok(());
        };
        Err(Failure::new(FailureKind::Unavailable, message))
    }

    fn check_shape(&self, stored: &MountRecord) -> Result<(), Failure> {
        if stored.migration.is_none() && stored.schema == self.record.schema {
            return Ok(());
        }
        let path = &self.record.path;
        let message = format!("another node migrates the data of {path}; try again");
        let failure = Failure::new(FailureKind::Unavailable, message);
        Err(Failure { retry_after: Some(RETRY_AFTER), ..failure })
    }
}

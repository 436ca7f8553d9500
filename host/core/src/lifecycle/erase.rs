//! Erasing a disabled mount: deletes the rows of the mount and the mount's aliases of entities and
//! groups, and last the record of the mount.
//!
//! Erasing cannot be undone, and is therefore retried until complete, by this process or the next.

use super::ending::{end_due_work, in_background, log_and_pause};
use super::leave_groups::let_members_leave;
use crate::catalog;
use crate::core::Core;
use crate::mounts::{ClosedGate, MountRecord};
use bulkhead_access::background::Claim;
use bulkhead_access::identity;
use bulkhead_access::log::cause;
use bulkhead_access::tokens;
use bulkhead_store::{Address, Space};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::log_level::LogLevel;
use std::sync::Arc;

/// The spaces with rows of a mount. Timers come first, because due timers wait for the erasure.
const SPACES: [Space; 4] = [Space::Timer, Space::Data, Space::Reservation, Space::Lease];
/// Number of rows deleted per commit.
const ROWS_PER_COMMIT: u32 = 500;

/// A mount whose rows are being deleted.
struct MountErasure {
    core: Arc<Core>,
    record: MountRecord,
    /// No due work runs on the mount; due rows wait for the end of the erasure. `None` for an
    /// unavailable mount, whose due work waits for its plugin.
    _work: Option<ClosedGate>,
    _claim: Claim,
}

/// Deletes all rows of the mount, after the due work on it has ended.
///
/// # Errors
/// 503 if not all rows could be deleted; the deletion then goes on in the background.
pub(super) async fn erase(
    core: Arc<Core>,
    record: MountRecord,
    claim: Claim,
) -> Result<(), Failure> {
    let work = match core.mounts.by_uuid(&record.uuid) {
        Some(mount) => Some(end_due_work(&core, &mount).await),
        None => None,
    };
    core.sandbox.close_mount(&record.uuid);
    let erasing = MountErasure { core, record, _work: work, _claim: claim };
    let Err(failure) = erasing.erase_once().await else {
        erasing.give_back_space();
        return Ok(());
    };
    let (path, why) = (&erasing.record.path, &failure.message);
    let message = format!(
        "{path} is gone, and the mount's data is still being deleted: {why}; the deletion goes on \
         in the background"
    );
    let core = Arc::clone(&erasing.core);
    // If the service is being sealed, the erasure goes on at the next unsealing.
    drop(in_background(&core, erasing.until_done(failure.clone())));
    Err(Failure { message, ..failure })
}

impl MountErasure {
    async fn until_done(self, mut failure: Failure) {
        while log_and_pause(&self.core, &self.record, "mount-erase-delayed", failure).await {
            match self.erase_once().await {
                Ok(()) => return self.give_back_space(),
                Err(again) => failure = again,
            }
        }
    }

    async fn erase_once(&self) -> Result<(), Failure> {
        let record = &self.record;
        for space in SPACES {
            self.erase_space(space).await?;
        }
        identity::forget_mount(&self.core.store, &record.accessor).await?;
        let_members_leave(&self.core);
        self.core.quotas.forget_mount(&self.core.store, &record.uuid).await?;
        catalog::forget_connections(&self.core.store, &record.uuid).await?;
        let mut unit = self.core.store.begin();
        unit.delete_revision(&record.uuid);
        tokens::end_serving(&mut unit, &record.uuid);
        unit.delete(record.address());
        unit.commit().await?;
        self.core.claims.forget_lanes(&record.uuid);
        self.core.mounts.forget(record);
        Ok(())
    }

    /// Returns the mount's space to the file system, in the background.
    fn give_back_space(&self) {
        let core = Arc::clone(&self.core);
        let give_back = async move {
            match core.store.give_back_space().await {
                Err(fault) if !core.sealing.has_begun() => {
                    core.log.line(LogLevel::Warn, "space-not-reclaimed", &[cause(&fault)]);
                }
                _ => {}
            }
        };
        // If the service is being sealed, later writes use the empty pages.
        drop(in_background(&self.core, give_back));
    }

    async fn erase_space(&self, space: Space) -> Result<(), Failure> {
        let prefix = format!("{}/", self.record.uuid);
        loop {
            let keys = self.core.store.begin().keys(space, &prefix, "", ROWS_PER_COMMIT).await?;
            if keys.is_empty() {
                return Ok(());
            }
            let mut unit = self.core.store.begin();
            keys.into_iter().for_each(|key| unit.delete(Address::new(space, key)));
            unit.commit().await?;
        }
    }
}

//! The wait of requests while another node migrates the data of their mount.
//!
//! This file prevents a migration on one node from failing requests on the others: requests wait as
//! at the gate of the migrating node, and then load the new version. A migration that stopped keeps
//! nobody waiting, because no living node holds the claim of the mount.

use super::follow_nodes::catch_up;
use crate::core::Core;
use crate::followed_tables::ClaimLook;
use crate::mounts::{MountRecord, SWAP_WAIT_TIMEOUT};
use bulkhead_wire::failure::Failure;
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};

/// Pause between two looks at the claim of the migrating node.
const LOOK_PAUSE: Duration = Duration::from_millis(100);

/// Waits while another node migrates the data of the mount at `path`, for the time of a swap at
/// most. Returns true if the mount has another state by then, so that the caller looks again.
pub async fn outwait_foreign_migration(core: &Core, path: &str) -> bool {
    if !core.store.is_shared() {
        return false;
    }
    let Some(record) = core.mounts.migrating_at(path) else { return false };
    let ended = timeout(SWAP_WAIT_TIMEOUT, wait_for_end(core, path, &record)).await;
    // A failed look is a failure of the database, which the request meets, too.
    matches!(ended, Ok(Ok(true)))
}

/// Waits until the mount is no longer `record`, or no other node migrates the data. Returns true in
/// the first case.
async fn wait_for_end(core: &Core, path: &str, record: &MountRecord) -> Result<bool, Failure> {
    loop {
        // Before the table, which includes what the node committed until it gave the claim back.
        let is_claimed = is_claimed_elsewhere(core, record).await?;
        catch_up(core).await?;
        let present = core.mounts.migrating_at(path);
        if present.is_none_or(|present| present.uuid != record.uuid) {
            return Ok(true);
        }
        if !is_claimed || core.sealing.has_begun() {
            return Ok(false);
        }
        sleep(LOOK_PAUSE).await;
    }
}

/// Returns whether another living node holds the claim of the mount. Looks once in [`LOOK_PAUSE`]
/// for all requests that wait.
async fn is_claimed_elsewhere(core: &Core, record: &MountRecord) -> Result<bool, Failure> {
    let mut last = core.followed.claim_look.lock().await;
    let is_recent =
        |look: &&ClaimLook| look.uuid == record.uuid && look.moment.elapsed() < LOOK_PAUSE;
    if let Some(look) = last.as_ref().filter(is_recent) {
        return Ok(look.is_claimed);
    }
    let is_claimed = core.claims.is_claimed_elsewhere(&record.address()).await?;
    let (uuid, moment) = (record.uuid.clone(), Instant::now());
    *last = Some(ClaimLook { uuid, moment, is_claimed });
    Ok(is_claimed)
}

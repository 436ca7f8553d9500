//! The claim of a mount for a change of its version, its removal or its move.
//!
//! This file prevents a change that begins from an outdated record: another node may have changed
//! the mount until it gave the claim back, and a migration would run a second time on its own
//! outcome.

use super::follow_nodes::catch_up;
use crate::core::Core;
use crate::mounts::MountRecord;
use bulkhead_access::background::Claim;
use bulkhead_wire::failure::Failure;

/// Claims the mount of `record`. Returns `None` during another change of the mount. The table of
/// mounts then includes the changes by earlier holders of the claim.
///
/// # Errors
/// 503 if the claim cannot be stored, or the changes of other nodes cannot be read.
pub(super) async fn claim_mount(
    core: &Core,
    record: &MountRecord,
) -> Result<Option<Claim>, Failure> {
    let claim = core.claims.claim(&record.address()).await?;
    catch_up(core).await?;
    Ok(claim)
}

/// Claims the mount like [`claim_mount`], and waits for the end of another change.
///
/// # Errors
/// As [`claim_mount`].
pub(super) async fn claim_mount_in_turn(
    core: &Core,
    record: &MountRecord,
) -> Result<Claim, Failure> {
    let claim = core.claims.claim_in_turn(&record.address()).await?;
    catch_up(core).await?;
    Ok(claim)
}

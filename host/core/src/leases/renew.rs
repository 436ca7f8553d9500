//! Renewing a lease: the plugin prolongs the thing, the host caps and stores the new end.

use super::{LeaseRecord, locate, put, read};
use crate::core::Core;
use crate::neighbours::ForWork;
use crate::permit::Permit;
use crate::tokens;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::ttl::{self, Bounds};
use std::sync::Arc;

/// A lease after its renewal.
pub(crate) struct Renewed {
    pub(crate) lease: LeaseRecord,
    /// Seconds from now.
    pub(crate) ttl: u64,
    pub(crate) warning: Option<String>,
}

/// Renews the lease `id` by `increment` seconds from now; 0 leaves it to the role.
///
/// # Errors
/// 400 when there is no such lease, it is not renewable or past its maximum; the plugin's failure.
pub(crate) async fn renew(core: &Arc<Core>, id: &str, increment: u64) -> Result<Renewed, Failure> {
    let claim = core.claims.claim_in_turn(&locate(&core.store, &core.mounts, id)?).await;
    let mut unit = core.store.begin();
    let lease = read(&mut unit, claim.address()).await?;
    let lease =
        lease.ok_or_else(|| Failure::invalid("lease not found: there is no lease with this id; it may have ended"))?;
    may_be_renewed(&lease, core.store.now())?;
    let mount =
        core.mounts.by_uuid(&lease.mount).ok_or_else(|| Failure::internal("the lease's mount does not exist"))?;
    let owner_left = owner_left(core, &mut unit, &lease).await?;
    let seen = mount.seen(core.lifetimes, owner_left);
    let permit = Permit::for_due_work(&claim);
    let opened = core.mounts.open(&mount, &permit);
    let work = ForWork::new(core, &mount);
    let _admission = core.sandbox.admit(2, work.deadline).await?;
    // Before the plugin tells its target: a slow renewal shortens the lease, never the thing's grace.
    let now = core.store.now();
    let done = opened.plugin.engine.renew(work.scope(&opened), unit, &lease.seen(), increment, &seen).await;
    let renewal = done.result?;
    let bounds = Bounds {
        role_ttl: renewal.ttl,
        role_max: renewal.max_ttl,
        mount_default: seen.default_ttl,
        mount_max: seen.max_ttl,
    };
    let granted = ttl::grant(&bounds, increment, lease.issued / 1000, now / 1000)?;
    let ttl = granted.ttl.min(seen.longest_lease);
    let ttl = if renewal.ttl == 0 { ttl } else { ttl.min(renewal.ttl) };
    let mut unit = done.unit;
    let lease = LeaseRecord { expires: now.saturating_add(ttl.saturating_mul(1000)), last_renewal: Some(now), ..lease };
    put(&mut unit, claim.address(), &lease, Some(lease.expires))?;
    unit.commit().await?;
    Ok(Renewed { lease, ttl, warning: granted.warning })
}

fn may_be_renewed(lease: &LeaseRecord, now: u64) -> Result<(), Failure> {
    if !lease.renewable {
        return Err(Failure::invalid("lease is not renewable"));
    }
    if lease.reason.is_some() || lease.expires <= now {
        return Err(Failure::invalid("lease expired: it is being ended and cannot be renewed; ask for a new secret"));
    }
    Ok(())
}

/// Seconds that the token which owns the lease has left: a lease never outlives its token.
async fn owner_left(core: &Core, unit: &mut bulkhead_store::Unit, lease: &LeaseRecord) -> Result<Option<u64>, Failure> {
    let now = core.store.now();
    match tokens::read(unit, &lease.token).await? {
        Some(owner) if tokens::holds(&owner, now) => Ok(owner.left(now / 1000)),
        _ => Err(Failure::invalid("lease expired: the token that owns it has ended")),
    }
}

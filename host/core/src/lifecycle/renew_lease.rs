//! Renewing a lease: the plugin extends the credential, the host caps and stores the new end.

use super::attempts::CallAttempts;
use crate::core::Core;
use crate::host_services::BackgroundServices;
use crate::leases::{LeaseRecord, put};
use crate::mounts::OpenedMount;
use crate::permit::Permit;
use bulkhead_access::background::Claim;
use bulkhead_access::tokens;
use bulkhead_sandbox::{CallPriority, contract};
use bulkhead_store::Unit;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::ttl::{self, GrantedTtl, TtlBounds};
use std::sync::Arc;

/// A lease after its renewal.
pub struct RenewedLease {
    pub lease: LeaseRecord,
    /// Seconds from now.
    pub ttl: u64,
    pub warning: Option<String>,
}

/// Renews the lease `id` by `increment` seconds from now; 0 stands for the lifetime of the role.
///
/// # Errors
/// 400 if there is no such lease, or the lease is not renewable or past its maximum; the plugin's
/// failure.
pub async fn renew_lease(
    core: &Arc<Core>,
    id: &str,
    increment: u64,
) -> Result<RenewedLease, Failure> {
    let claim = core.claims.claim_in_turn(&core.leases.locate(id).ok_or_else(not_found)?).await?;
    let (lease, owner_left) =
        renewable(core, &claim, &mut core.store.begin(), core.store.now()).await?;
    let mount = core
        .mounts
        .by_uuid(&lease.mount)
        .ok_or_else(|| core.mounts.missing_failure(&lease.mount))?;
    let permit = Permit::for_due_work(&claim);
    let opened = core.mounts.open(&mount, &permit);
    let work = BackgroundServices::for_caller(core, &mount);
    let renewal = LeaseRenewal { core, claim: &claim, lease, owner_left, increment };
    let mut attempts = CallAttempts::for_caller(core, work.deadline());
    let renewed = loop {
        let mut unit = attempts.begin(mount.begin(&core.store));
        let renewed = match mount.fence(&core.store, &mut unit).await {
            Ok(()) => renewal.attempt(&work, &opened, unit).await,
            Err(failure) => Err(failure),
        };
        if !attempts.continue_after(&renewed).await {
            break renewed;
        }
    };
    work.release_guards().await;
    if renewed.is_ok() {
        mount.lease_counts.note_renewed();
    }
    renewed
}

/// A renewal of a lease.
struct LeaseRenewal<'a> {
    core: &'a Core,
    claim: &'a Claim,
    lease: LeaseRecord,
    /// Seconds that the lease's owner has left.
    owner_left: Option<u64>,
    /// Seconds that the caller asks for.
    increment: u64,
}

impl LeaseRenewal<'_> {
    /// Asks the plugin, and stores the end to which it agreed.
    async fn attempt(
        &self,
        work: &BackgroundServices,
        opened: &OpenedMount<'_>,
        unit: Unit,
    ) -> Result<RenewedLease, Failure> {
        let admitted = work.enter(CallPriority::Foreground).await?;
        // Read before the plugin calls its target: a slow renewal shortens the lease, and never the
        // time between the end of the lease and the end of the credential.
        let now = self.core.store.now();
        let (context, lease) = (work.context(self.owner_left), self.lease.for_plugin());
        let (scope, increment) = (work.scope(opened), self.increment);
        let engine = opened.engine;
        let done = engine.renew(scope, unit, &context, &lease, increment).await;
        work.note_end(admitted, done.ended);
        let granted = done.result?;
        let renewal = AgreedRenewal { increment, now, seen: context.mount, granted };
        store(self.core, self.claim, done.unit, &renewal).await
    }
}

/// Returns the claimed lease and the seconds that its owner has left, if the lease can be renewed
/// at `now`.
async fn renewable(
    core: &Core,
    claim: &Claim,
    unit: &mut Unit,
    now: u64,
) -> Result<(LeaseRecord, Option<u64>), Failure> {
    let record = claim.fence(unit).await?;
    let lease = LeaseRecord::parse(&record.ok_or_else(not_found)?)?;
    may_be_renewed(&lease, now)?;
    let owner_left = owner_left(core, unit, &lease).await?;
    Ok((lease, owner_left))
}

/// A renewal to which the plugin agreed.
struct AgreedRenewal {
    /// Seconds that the caller asks for.
    increment: u64,
    /// Store time when the plugin was asked.
    now: u64,
    seen: contract::Mount,
    granted: contract::Renewal,
}

async fn store(
    core: &Core,
    claim: &Claim,
    unit: Unit,
    renewal: &AgreedRenewal,
) -> Result<RenewedLease, Failure> {
    let mut finish = unit.finish();
    loop {
        let renewed = prolong(core, claim, finish.restart_host_part(), renewal).await?;
        if finish.try_commit().await? {
            return Ok(renewed);
        }
    }
}

/// Stores the new end in the commit of the plugin's changes. Lease and owner are checked again: a
/// token that was revoked meanwhile must not keep a renewed lease.
async fn prolong(
    core: &Core,
    claim: &Claim,
    unit: &mut Unit,
    renewal: &AgreedRenewal,
) -> Result<RenewedLease, Failure> {
    let (now, seen) = (renewal.now, &renewal.seen);
    let (lease, _) = renewable(core, claim, unit, now).await?;
    let bounds = TtlBounds {
        role_ttl: renewal.granted.ttl,
        role_max: renewal.granted.max_ttl,
        mount_default: seen.default_ttl,
        mount_max: seen.max_ttl,
        ..TtlBounds::default()
    };
    let grant_at = |now| ttl::grant(&bounds, renewal.increment, lease.issued / 1000, now);
    let granted = grant_at(now / 1000)?
        .at_most(seen.longest_lease, "the remaining lifetime of the lease's token");
    let granted = match renewal.granted.ttl {
        0 => granted,
        ttl => as_engine(grant_at, granted, ttl, (now / 1000, core.store.now().div_ceil(1000))),
    };
    let ttl = granted.ttl;
    let lease = LeaseRecord {
        expires: now.saturating_add(ttl.saturating_mul(1000)),
        last_renewal: Some(now),
        ..lease
    };
    put(unit, claim.address(), &lease, lease.expires)?;
    Ok(RenewedLease { lease, ttl, warning: granted.warning })
}

/// Returns the granted lifetime, or the shorter lifetime for which the engine renewed the lease.
/// The engine read the clock later, between the seconds `first` and `last`, and may have applied
/// the same maximum: the warning then names that maximum as the reason.
fn as_engine(
    grant_at: impl Fn(u64) -> Result<GrantedTtl, Failure>,
    granted: GrantedTtl,
    of_engine: u64,
    (first, last): (u64, u64),
) -> GrantedTtl {
    let Some(later) = granted.ttl.checked_sub(of_engine) else { return granted };
    let looked = first.saturating_add(later);
    let same = grant_at(looked).ok().filter(|same| same.ttl == of_engine && looked <= last);
    same.unwrap_or_else(|| granted.at_most(of_engine, "the engine's renewal"))
}

fn not_found() -> Failure {
    Failure::invalid("lease not found: there is no lease with this id; the lease may have ended")
}

fn may_be_renewed(lease: &LeaseRecord, now: u64) -> Result<(), Failure> {
    if !lease.renewable {
        return Err(Failure::invalid("lease is not renewable"));
    }
    if lease.reason.is_some() || lease.expires <= now {
        return Err(Failure::invalid(
            "lease expired: the lease is being ended and cannot be renewed; ask for a new secret",
        ));
    }
    Ok(())
}

/// Returns the seconds left of the tokens that bound the lease: its owner, and the batch token used
/// for the request. A lease never outlives either token.
async fn owner_left(
    core: &Core,
    unit: &mut Unit,
    lease: &LeaseRecord,
) -> Result<Option<u64>, Failure> {
    let now = core.store.now();
    let of_batch = lease.longest.map(|longest| longest.saturating_sub(now) / 1000);
    if lease.token.is_empty() {
        return at_least_a_second(of_batch);
    }
    match tokens::read(unit, &lease.token).await? {
        Some(owner) if owner.is_alive(now) => {
            at_least_a_second(owner.remaining_seconds(now).into_iter().chain(of_batch).min())
        }
        _ => Err(owner_ended()),
    }
}

/// Refuses 0 seconds: clients that are told 0 seconds ask again at once, forever.
fn at_least_a_second(left: Option<u64>) -> Result<Option<u64>, Failure> {
    if left == Some(0) { Err(owner_ended()) } else { Ok(left) }
}

fn owner_ended() -> Failure {
    Failure::invalid("lease expired: the lease's token has ended")
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: TtlBounds = TtlBounds {
        role_ttl: 3_600,
        role_max: 14_400,
        explicit_max: 0,
        period: 0,
        mount_default: 3_600,
        mount_max: 99_999,
    };

    #[test]
    fn lease_never_exceeds_maximum_for_any_engine_answer() {
        let grant_at = |now| ttl::grant(&BOUNDS, 900, 1_000, now);
        for of_engine in [59, 60, 61, 900, u64::MAX] {
            let granted = grant_at(1_010).unwrap().at_most(60, "what is left of the token");
            let (ttl, least) = (as_engine(grant_at, granted, of_engine, (1_010, 1_020)).ttl, 59);
            assert_eq!(ttl, of_engine.clamp(least, 60), "{of_engine}");
        }
    }

    /// Renews a lease for 100 hours. The lease was issued at second 1,000; the host looks at 1,010.
    fn renewed(of_engine: u64, last: u64) -> (u64, String) {
        let grant_at = |now| ttl::grant(&BOUNDS, 360_000, 1_000, now);
        let granted = as_engine(grant_at, grant_at(1_010).unwrap(), of_engine, (1_010, last));
        (granted.ttl, granted.warning.unwrap())
    }

    #[test]
    fn maximum_counted_moments_later_is_still_named() {
        for (of_engine, last) in [(14_390, 1_010), (14_389, 1_011), (14_387, 1_020)] {
            let (ttl, warning) = renewed(of_engine, last);
            assert_eq!(ttl, of_engine);
            assert!(warning.contains("the rest of the role's max_ttl of 4h"), "{warning}");
        }
    }

    #[test]
    fn an_engine_that_renews_for_less_is_named() {
        for (of_engine, last) in [(14_387, 1_011), (60, 1_020)] {
            let (ttl, warning) = renewed(of_engine, last);
            assert_eq!(ttl, of_engine);
            assert!(warning.contains("the engine's renewal"), "{warning}");
        }
        assert_eq!(renewed(99_999, 1_020).0, 14_390, "a longer renewal is cut to the maximum");
    }
}

//! How a lease ends: by its plugin's `revoke`, once, whoever asks.
//!
//! A target that does not answer is tried again for ever, with growing pauses; one that refuses six
//! times is given up, visibly (decision P13).

use super::{LeaseRecord, put, read};
use crate::claims::Claim;
use crate::core::Core;
use crate::neighbours::ForWork;
use crate::permit::Permit;
use bulkhead_store::{Address, Space, Unit};
use bulkhead_wire::failure::{Failure, Kind};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Refusals after which a lease is irrevocable.
pub(super) const MOST_REFUSALS: u32 = 6;
/// First pause after a target that did not answer, in milliseconds; doubles.
const FIRST_PAUSE: u64 = 1_000;
/// First pause after a refusal; doubles. Six attempts span five minutes, in which somebody may mend what was wrong.
const FIRST_REFUSAL_PAUSE: u64 = 10_000;
/// Longest pause between attempts, in milliseconds.
const LONGEST_PAUSE: u64 = 600_000;
/// Leases of an ended token that are made due in one commit.
const PAGE: u32 = 100;

/// Why a lease ends: the words of the plugin contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum End {
    /// Its time is over.
    Expired,
    /// Somebody revoked it.
    Requested,
    /// Its token ended.
    TokenEnded,
    /// The call that reserved it did not confirm it.
    Undo,
}

impl End {
    fn word(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Requested => "requested",
            Self::TokenEnded => "token-ended",
            Self::Undo => "undo",
        }
    }
}

/// Ends the claimed lease or reservation. A lease that is gone is success.
///
/// # Errors
/// The plugin's failure. The lease stays, with its next attempt scheduled.
pub(crate) async fn end(core: &Arc<Core>, claim: &Claim, asked: Option<End>) -> Result<(), Failure> {
    let address = claim.address();
    let mut unit = core.store.begin();
    let Some(mut lease) = read(&mut unit, address).await? else { return Ok(()) };
    let reason = asked.or(lease.reason).unwrap_or(match address.space {
        Space::Reservation => End::Undo,
        _ => End::Expired,
    });
    let (mut unit, result) = revoke(core, claim, unit, &lease, reason).await;
    match result {
        Ok(()) => {
            unit.delete(address.clone());
            unit.commit().await?;
            core.log_lease("info", "lease-ended", &lease, reason.word());
            Ok(())
        }
        Err(failure) => {
            lease.reason = Some(reason);
            postpone(core, claim, lease, &failure).await?;
            Err(failure)
        }
    }
}

async fn revoke(
    core: &Arc<Core>,
    claim: &Claim,
    unit: Unit,
    lease: &LeaseRecord,
    reason: End,
) -> (Unit, Result<(), Failure>) {
    let Some(mount) = core.mounts.by_uuid(&lease.mount) else {
        return (unit, Err(Failure::internal("the lease's mount does not exist any more")));
    };
    let permit = Permit::for_due_work(claim);
    let opened = core.mounts.open(&mount, &permit);
    let work = ForWork::new(core, &mount);
    let done = match core.sandbox.admit(2, work.deadline).await {
        Ok(_admission) => opened.plugin.engine.revoke(work.scope(&opened), unit, &lease.seen(), reason.word()).await,
        Err(failure) => return (unit, Err(failure)),
    };
    (done.unit, done.result)
}

/// Schedules the next attempt, or gives up after too many refusals.
async fn postpone(core: &Arc<Core>, claim: &Claim, mut lease: LeaseRecord, failure: &Failure) -> Result<(), Failure> {
    lease.attempts = lease.attempts.saturating_add(1);
    if !may_pass(failure.kind) {
        lease.refusals = lease.refusals.saturating_add(1);
    }
    lease.error = failure.message.chars().take(240).collect();
    let due = (!lease.is_irrevocable()).then(|| core.store.now().saturating_add(pause(failure.kind, lease.attempts)));
    let event = if due.is_some() { "lease-end-delayed" } else { "lease-irrevocable" };
    core.log_lease("warn", event, &lease, &lease.error);
    let mut unit = core.store.begin();
    put(&mut unit, claim.address(), &lease, due)?;
    Ok(unit.commit().await?)
}

/// May the same attempt succeed later, without anybody changing anything?
fn may_pass(kind: Kind) -> bool {
    matches!(kind, Kind::Unreachable | Kind::TimedOut | Kind::Conflict | Kind::Unavailable | Kind::RateLimited)
}

fn pause(kind: Kind, attempts: u32) -> u64 {
    let first = if may_pass(kind) { FIRST_PAUSE } else { FIRST_REFUSAL_PAUSE };
    first.saturating_mul(1 << attempts.saturating_sub(1).min(16)).min(LONGEST_PAUSE)
}

/// Makes the leases that `token` owns due now. One that cannot be read is left and told; it must not keep the
/// others.
pub(crate) async fn end_owned(core: &Core, token: &str) -> Result<(), Failure> {
    let mut after = String::new();
    loop {
        let keys = core.store.owned(Space::Lease, token, &after, PAGE).await?;
        let Some(last) = keys.last() else { return Ok(()) };
        after.clone_from(last);
        let mut unit = core.store.begin();
        for key in &keys {
            let address = Address::new(Space::Lease, key.as_str());
            match read(&mut unit, &address).await {
                Ok(Some(lease)) => {
                    // Without an owner it is not found here again.
                    let lease = LeaseRecord { token: String::new(), reason: Some(End::TokenEnded), ..lease };
                    put(&mut unit, &address, &lease, Some(core.store.now()))?;
                }
                Ok(None) => {}
                Err(failure) => core.log.line("error", "lease-unreadable", &[("cause", failure.message)]),
            }
        }
        unit.commit().await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_are_capped() {
        assert_eq!(pause(Kind::Unreachable, 1), 1_000);
        assert_eq!(pause(Kind::Unreachable, 4), 8_000);
        assert_eq!(pause(Kind::InvalidRequest, 1), 10_000);
        assert_eq!(pause(Kind::Unreachable, u32::MAX), LONGEST_PAUSE);
    }

    #[test]
    fn only_what_may_pass_by_itself_is_tried_for_ever() {
        assert!(may_pass(Kind::Unreachable) && may_pass(Kind::Conflict) && may_pass(Kind::TimedOut));
        assert!(!may_pass(Kind::InvalidRequest) && !may_pass(Kind::NotFound) && !may_pass(Kind::Internal));
    }
}

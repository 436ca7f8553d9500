//! Ending every lease below a path: for operators, and for mounts that go.
//!
//! All of them are made due first ([`Leases::queue_below`]), and due work ends them. The caller
//! that waits only watches, so that nothing is lost with a client that goes away. What is being
//! made meanwhile does not slip through: a reservation that was made due can no longer be
//! confirmed, so that its call fails and undoes it. A call that reserves later begins later:
//! keeping those out is for policies, and for mounts that no longer serve.

use super::due_now::OnFailure;
use super::record::{LEASE_SPACES, LeaseRecord};
use super::table::Leases;
use crate::background::backoff;
use crate::sealing::sealed;
use bulkhead_store::{Address, Scan, Space, Store, StoreFault};
use bulkhead_wire::failure::{Failure, Kind};
use std::sync::Arc;

/// Leases of a mount: all, or those whose path begins with `below`.
pub(crate) struct Below<'a> {
    /// uuid of the mount.
    pub(crate) mount: &'a str,
    /// The beginning of their keys below the mount: empty, ending in a slash, or the whole key of
    /// one lease.
    pub(crate) below: &'a str,
}

impl Below<'_> {
    fn scan(&self, store: &Arc<Store>, space: Space) -> Scan {
        store.scan(space, format!("{}/{}", self.mount, self.below))
    }
}

impl Leases {
    /// Asked before anything is written that makes sense only if leases end: where due work is
    /// suspended, nothing would end them (decision H39).
    ///
    /// # Errors
    /// 503 where due work is suspended.
    pub(crate) fn assert_ends_work(&self) -> Result<(), Failure> {
        if !self.due_work_is_suspended {
            return Ok(());
        }
        Err(Failure::new(
            Kind::Unavailable,
            "suspend_due_work is set, so that nothing would end the leases; nothing was changed: \
             revoke them one by one, or start the server without it",
        ))
    }

    /// Ends the leases now, and waits until each was tried once, or one of their target was tried
    /// often enough without an answer. One that fails does not keep the
    /// others. Due work does it: the caller must not hold what due work on the mount waits for.
    ///
    /// # Errors
    /// With the number of leases that stayed and the first reason, 400 when that was a refusal and
    /// 502 when it may pass; the store's failure; 503 when the service is being sealed, and as
    /// [`assert_ends_work`](Self::assert_ends_work) has it.
    pub(crate) async fn end_below(
        &self,
        which: &[Below<'_>],
        on_failure: OnFailure,
    ) -> Result<(), Failure> {
        self.assert_ends_work()?;
        self.queue_below(which, on_failure).await?;
        let mut left = Left::default();
        for below in which {
            for space in LEASE_SPACES {
                let mut scan = below.scan(&self.store, space);
                while let Some(page) = scan.page().await? {
                    for address in page {
                        self.await_attempt(&address)
                            .await?
                            .into_iter()
                            .for_each(|failure| left.add(failure));
                    }
                }
            }
        }
        left.outcome()
    }

    /// Makes the leases due now, after the reservations: one that is confirmed before it was
    /// reached is a lease by then.
    ///
    /// # Errors
    /// The store's failure. Those that were reached are due.
    pub(crate) async fn queue_below(
        &self,
        which: &[Below<'_>],
        on_failure: OnFailure,
    ) -> Result<(), Failure> {
        for space in LEASE_SPACES {
            for below in which {
                let mut scan = below.scan(&self.store, space);
                while let Some(page) = scan.page().await? {
                    self.queue(&page, on_failure).await?;
                }
            }
        }
        Ok(())
    }

    /// Waits until due work has tried to end the lease; the failure if that did not work. One that
    /// was made since is not waited for: its end was not asked for; and neither is one whose target
    /// answers none.
    async fn await_attempt(&self, address: &Address) -> Result<Option<Failure>, Failure> {
        loop {
            let freed = self.claims.freed();
            tokio::pin!(freed);
            // Registered before looking: what is freed in between wakes us.
            freed.as_mut().enable();
            let record = match self.store.begin().get(address).await {
                Ok(Some(record)) => record,
                Ok(None) => return Ok(None),
                Err(damaged @ StoreFault::Damaged(_)) => return Ok(Some(damaged.into())),
                Err(fault) => return Err(fault.into()),
            };
            match LeaseRecord::parse(&record) {
                Ok(lease) if lease.reason.is_none() => return Ok(None),
                // One that lost a race was not tried, and is due soon.
                Ok(lease)
                    if !lease.lost_a_race()
                        && record.index.due.is_none_or(|due| due > self.store.now()) =>
                {
                    return Ok(Some(lease.failure()));
                }
                // It is tried when the lane's target answers again.
                Ok(lease) if self.claims.rest(&lease.full_lane()).is_some_and(|r| !r.is_zero()) => {
                    return Ok(Some(lease.unanswered()));
                }
                Ok(_) => {}
                Err(unreadable) => return Ok(Some(unreadable)),
            }
            tokio::select! {
                () = freed => {}
                () = self.sealing.begun() => return Err(sealed()),
            }
        }
    }
}

/// The leases that could not be ended.
#[derive(Default)]
struct Left {
    count: u64,
    first: Option<Failure>,
}

impl Left {
    fn add(&mut self, failure: Failure) {
        self.count += 1;
        self.first.get_or_insert(failure);
    }

    fn outcome(self) -> Result<(), Failure> {
        let Some(first) = self.first else { return Ok(()) };
        // The status tells whether to come back, and no more: a target's "not found" is not about
        // our path.
        let kind = if backoff::may_pass(first.kind) || first.kind == Kind::Internal {
            first.kind
        } else {
            Kind::InvalidRequest
        };
        Err(Failure::new(
            kind,
            format!(
                "leases that could not be ended: {}; the first, because: {}; they stay and are \
                 tried again, \
                 until they end or sys/leases/revoke-force gives them up",
                self.count, first.message
            ),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(failures: &[Failure]) -> Option<(u16, String)> {
        let mut left = Left::default();
        failures.iter().cloned().for_each(|failure| left.add(failure));
        left.outcome().err().map(|failure| (failure.kind.status(), failure.message))
    }

    #[test]
    fn leases_that_stay_are_counted_with_the_first_reason_and_whether_to_come_back() {
        assert_eq!(outcome(&[]), None);
        for (kind, status) in [
            (Kind::InvalidRequest, 400),
            (Kind::NotFound, 400),
            (Kind::PermissionDenied, 400),
            (Kind::Unreachable, 502),
            (Kind::TimedOut, 502),
            (Kind::Internal, 500),
        ] {
            let failures =
                [Failure::new(kind, "the first"), Failure::new(Kind::Unreachable, "the second")];
            let (answered, message) = outcome(&failures).unwrap_or_default();
            assert_eq!(answered, status, "{kind:?}");
            assert!(
                message.starts_with(
                    "leases that could not be ended: 2; the first, because: the first;"
                )
            );
        }
    }
}

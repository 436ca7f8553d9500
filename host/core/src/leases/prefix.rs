//! Ending every lease below a path, for operators and for mounts being disabled or moved.
//!
//! All leases are made due first ([`Leases::queue_below`]), and due work ends the leases. A waiting
//! caller only watches, so nothing is lost if the client goes away. A lease in the making does not
//! slip through: a due reservation can no longer be confirmed, so the call fails and undoes the
//! reservation. Later calls are refused by policies, or because the mount no longer serves.

use super::due_now::OnFailure;
use super::record::LeaseRecord;
use super::table::Leases;
use bulkhead_access::background::backoff;
use bulkhead_access::sealing::sealed_failure;
use bulkhead_store::{Address, PrefixScan, Space, Store, StoreFault};
use bulkhead_wire::failure::{Failure, FailureKind};
use std::sync::Arc;

/// Leases of a mount: all leases, or those with the key prefix `below`.
pub struct LeasePrefix<'a> {
    /// uuid of the mount.
    pub(crate) mount: &'a str,
    /// Prefix of the keys below the mount: empty, ending in a slash, or the whole key of a lease.
    pub(crate) below: &'a str,
}

impl LeasePrefix<'_> {
    fn scan(&self, store: &Arc<Store>, space: Space) -> PrefixScan {
        store.scan(space, format!("{}/{}", self.mount, self.below))
    }
}

impl Leases {
    /// Refuses if due work is suspended, because then nothing would end the leases (decision H39).
    /// Callers must check this before any write that relies on the end of leases.
    ///
    /// # Errors
    /// 503 if due work is suspended.
    pub fn assert_ends_work(&self) -> Result<(), Failure> {
        let Some(suspension) = self.due_work.suspension() else { return Ok(()) };
        Err(Failure::new(
            FailureKind::Unavailable,
            format!(
                "{}, and nothing would end the leases; nothing was changed: revoke each lease \
                 singly, or {}",
                suspension.reason(),
                suspension.remedy()
            ),
        ))
    }

    /// Makes the leases due and waits until each was tried once or its target is known not to
    /// answer. A failing lease does not hold up the others. Due work ends the leases, so the caller
    /// must hold nothing for which due work on the mount waits.
    ///
    /// # Errors
    /// The number of remaining leases and the first reason: 400 after a refusal, 502 if the failure
    /// may pass, 500 after an internal failure. The store's failure. 503 if the service is being
    /// sealed, and as [`assert_ends_work`](Self::assert_ends_work).
    pub async fn end_below(
        &self,
        which: &[LeasePrefix<'_>],
        on_failure: OnFailure,
    ) -> Result<(), Failure> {
        self.assert_ends_work()?;
        self.queue_below(which, on_failure).await?;
        let mut left = UnendedLeases::default();
        for below in which {
            for space in Space::LEASES {
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

    /// Returns whether there is a lease or a reservation.
    ///
    /// # Errors
    /// The store's failure.
    pub(crate) async fn has_any_below(&self, below: &LeasePrefix<'_>) -> Result<bool, Failure> {
        for space in Space::LEASES {
            if below.scan(&self.store, space).page().await?.is_some_and(|page| !page.is_empty()) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Makes the leases due now, reservations first: a reservation confirmed in between is found as
    /// a lease afterwards.
    ///
    /// # Errors
    /// The store's failure. The leases reached so far are due.
    pub async fn queue_below(
        &self,
        which: &[LeasePrefix<'_>],
        on_failure: OnFailure,
    ) -> Result<(), Failure> {
        for space in Space::LEASES {
            for below in which {
                let mut scan = below.scan(&self.store, space);
                while let Some(page) = scan.page().await? {
                    self.queue(&page, on_failure).await?;
                }
            }
        }
        Ok(())
    }

    /// Waits until due work has tried to end the lease and returns the failure, if any. Does not
    /// wait for a lease made since, because no caller asked for its end, nor for a lease with a
    /// silent target.
    async fn await_attempt(&self, address: &Address) -> Result<Option<Failure>, Failure> {
        loop {
            let freed = self.claims.release_notice();
            tokio::pin!(freed);
            // Registered before the look-up, so that a release in between wakes this task.
            freed.as_mut().enable();
            let record = match self.store.begin().get(address).await {
                Ok(Some(record)) => record,
                Ok(None) => return Ok(None),
                Err(damaged @ StoreFault::Damaged(_)) => return Ok(Some(damaged.into())),
                Err(fault) => return Err(fault.into()),
            };
            match LeaseRecord::parse(&record) {
                Ok(lease) if lease.reason.is_none() => return Ok(None),
                // A lease with a conflict was not tried, and is due soon.
                Ok(lease)
                    if !lease.lost_a_race()
                        && record.index.due.is_none_or(|due| due > self.store.now()) =>
                {
                    return Ok(Some(lease.failure()));
                }
                // The lease is tried when the lane's target answers again.
                Ok(lease)
                    if self
                        .claims
                        .remaining_rest(&lease.full_lane())
                        .is_some_and(|r| !r.is_zero()) =>
                {
                    return Ok(Some(lease.pending_failure()));
                }
                Ok(_) => {}
                Err(unreadable) => return Ok(Some(unreadable)),
            }
            tokio::select! {
                () = self.claims.await_release(freed) => {}
                () = self.sealing.wait_for_seal() => return Err(sealed_failure()),
            }
        }
    }
}

/// The leases that could not be ended.
#[derive(Default)]
struct UnendedLeases {
    count: u64,
    first: Option<Failure>,
}

impl UnendedLeases {
    fn add(&mut self, failure: Failure) {
        self.count += 1;
        self.first.get_or_insert(failure);
    }

    fn outcome(self) -> Result<(), Failure> {
        let Some(first) = self.first else { return Ok(()) };
        // The status only tells if a retry may help: "not found" from a target is not about our
        // path.
        let kind = if backoff::may_pass(first.kind) || first.kind == FailureKind::Internal {
            first.kind
        } else {
            FailureKind::InvalidRequest
        };
        Err(Failure::new(
            kind,
            format!(
                "leases that could not be ended: {}; the first, because: {}; the server keeps \
                 these leases and tries again, until each has ended or sys/leases/revoke-force \
                 gives up",
                self.count, first.message
            ),
        ))
    }
}

#[cfg(test)]
mod tests;

//! Tidying the lease book: finds leases without any pending end. A crash leaves no such leases, but
//! a restored or damaged data directory may contain some.
//!
//! Repairs: a lease with a missing token ends like the leases of an ended token; a lease without a
//! due time becomes due at its end; a lease with a missing mount is given up, because no plugin can
//! end the lease. An unreadable lease is only logged: the operator needs `revoke-force` or a
//! backup.

use super::record::{EndReason, LeaseRecord, StoredLease, put, read_tolerantly};
use super::table::Leases;
use crate::mounts;
use bulkhead_access::background::Claim;
use bulkhead_access::log::cause;
use bulkhead_access::tokens;
use bulkhead_store::{Address, Space, Unit};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::log_level::LogLevel;
use std::collections::BTreeSet;
use std::sync::Arc;

impl Leases {
    /// Begins to tidy; `false` if tidying is under way already.
    pub fn begin_tidy(self: &Arc<Self>) -> bool {
        // Not the address of a record: the claim stands for the work of this process.
        let address = Address::new(Space::Core, "lease-tidy");
        let Some(turn) = self.claims.claim_here(&address) else { return false };
        tokio::spawn(Arc::clone(self).tidy(turn));
        true
    }

    async fn tidy(self: Arc<Self>, _turn: Claim) {
        let mut done = LeaseTidyCounts::default();
        let outcome = self.tidy_all(&mut done).await;
        let mut pairs = vec![
            ("looked-at", done.looked_at.to_string()),
            ("token-gone", done.token_gone.to_string()),
            ("never-due", done.never_due.to_string()),
            ("mount-gone", done.mount_gone.to_string()),
            ("unreadable", done.unreadable.to_string()),
        ];
        match outcome {
            Ok(()) => self.log.line(LogLevel::Info, "leases-tidied", &pairs),
            Err(failure) => {
                pairs.push(cause(&failure));
                self.log.line(LogLevel::Warn, "leases-not-tidied", &pairs);
            }
        }
    }

    async fn tidy_all(&self, done: &mut LeaseTidyCounts) -> Result<(), Failure> {
        for space in Space::LEASES {
            let mut scan = self.store.scan(space, "");
            while let Some(page) = scan.page().await? {
                // Entered per page, so that a seal waits for a single page at most.
                let _in_flight = self.sealing.enter()?;
                let stored = self.stored_mounts().await?;
                *done = self.tidy_page(&page, stored.as_ref(), *done).await?;
            }
        }
        Ok(())
    }

    /// Returns all stored mounts, serving or not; `None` if a mount cannot be read. Read in a
    /// separate unit, because a writing commit could not assert so many records. Read after the
    /// keys of a page, because another process may have enabled a mount and stored leases since the
    /// page before. A mount that was moved during the reading is found among the serving mounts.
    async fn stored_mounts(&self) -> Result<Option<BTreeSet<String>>, Failure> {
        mounts::stored_uuids(&mut self.store.begin()).await
    }

    async fn tidy_page(
        &self,
        page: &[Address],
        stored: Option<&BTreeSet<String>>,
        before: LeaseTidyCounts,
    ) -> Result<LeaseTidyCounts, Failure> {
        let mut finish = self.store.begin().finish();
        loop {
            let (unit, mut done) = (finish.restart_host_part(), before);
            for address in page {
                self.tidy_one(unit, address, stored, &mut done).await?;
            }
            if finish.try_commit().await? {
                return Ok(done);
            }
        }
    }

    async fn tidy_one(
        &self,
        unit: &mut Unit,
        address: &Address,
        stored: Option<&BTreeSet<String>>,
        done: &mut LeaseTidyCounts,
    ) -> Result<(), Failure> {
        done.looked_at += 1;
        let lease = match read_tolerantly(unit, address).await? {
            StoredLease::Lease(lease) => *lease,
            StoredLease::Gone => return Ok(()),
            StoredLease::Damaged(why) => {
                done.unreadable += 1;
                self.log.line(LogLevel::Error, "lease-unreadable", &[cause(&why)]);
                return Ok(());
            }
        };
        if self.mount_is_gone(stored, &lease) {
            done.mount_gone += 1;
            self.log_lease(LogLevel::Warn, "lease-forgotten", &lease, &"its mount is gone");
            unit.delete(address.clone());
        } else if address.space == Space::Lease && self.token_is_gone(unit, &lease).await? {
            done.token_gone += 1;
            let lease =
                LeaseRecord { token: String::new(), reason: Some(EndReason::TokenEnded), ..lease };
            put(unit, address, &lease, self.store.now())?;
        } else if unit.get(address).await?.is_some_and(|record| record.index.due.is_none()) {
            done.never_due += 1;
            put(unit, address, &lease, lease.expires)?;
        }
        Ok(())
    }

    /// Returns true if the mount neither serves nor is stored. A mount may be stored without
    /// serving.
    fn mount_is_gone(&self, stored: Option<&BTreeSet<String>>, lease: &LeaseRecord) -> bool {
        let is_served = self.mounts.by_uuid(&lease.mount).is_some();
        !is_served && stored.is_some_and(|uuids| !uuids.contains(&lease.mount))
    }

    async fn token_is_gone(&self, unit: &mut Unit, lease: &LeaseRecord) -> Result<bool, Failure> {
        // The lease ends already, or no token ends the lease.
        if lease.reason.is_some() || lease.token.is_empty() {
            return Ok(false);
        }
        match tokens::read(unit, &lease.token).await {
            Ok(token) => Ok(!token.is_some_and(|token| token.is_alive(self.store.now()))),
            Err(unreadable) => {
                // The token may be restored; until then the leases of the token end at their time.
                self.log.line(LogLevel::Error, "token-unreadable", &[cause(&unreadable)]);
                Ok(false)
            }
        }
    }
}

/// Counts of the leases that were found and, if possible, repaired.
#[derive(Clone, Copy, Default)]
struct LeaseTidyCounts {
    looked_at: u64,
    token_gone: u64,
    never_due: u64,
    mount_gone: u64,
    unreadable: u64,
}

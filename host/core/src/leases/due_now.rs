//! Making leases due now: how the end of many leases begins.
//!
//! The fault this file stops: work on many leases that dies half-way, with its client, its disk or
//! its process, and leaves the rest as if their end had not been asked for. Once they are due, due
//! work ends them, even if the caller goes away: as many of a lane at once as of any other work,
//! and oldest first.

use super::record::{End, LeaseRecord, Opened, put, read_tolerantly};
use super::table::Leases;
use crate::log::cause;
use bulkhead_store::{Address, Space};
use bulkhead_wire::failure::{Failure, Kind};

/// Reservations that are made due in one commit at start.
const UNDONE: u32 = 500;

/// What happens to a lease whose plugin does not end it, and to one whose record does not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnFailure {
    /// It stays, with its next attempt scheduled.
    Stays,
    /// It goes, and what it ended is left to the operator.
    Goes,
}

impl Leases {
    /// Makes these leases or reservations due because their end was asked for. Those that are gone
    /// are left out.
    ///
    /// # Errors
    /// The store's failure.
    pub(crate) async fn queue(
        &self,
        page: &[Address],
        on_failure: OnFailure,
    ) -> Result<(), Failure> {
        // Plugins know only one reason for which what was never handed out ends.
        let is_reserved = page.first().is_some_and(|address| address.space == Space::Reservation);
        let reason = Some(if is_reserved { End::Undo } else { End::Requested });
        let asked = |lease: LeaseRecord| {
            self.claims.ask_again(&lease.full_lane());
            let forced = lease.forced || on_failure == OnFailure::Goes;
            LeaseRecord { reason, forced, ..lease }
        };
        self.make_due(page, on_failure, asked).await
    }

    /// Makes these due now, all of one kind and in one commit where others let that be, each as
    /// `change` says. One that cannot be read is told, and as `unreadable` says: it must not keep
    /// the others.
    ///
    /// # Errors
    /// The store's failure.
    pub(super) async fn make_due(
        &self,
        page: &[Address],
        unreadable: OnFailure,
        change: impl Fn(LeaseRecord) -> LeaseRecord + Sync,
    ) -> Result<(), Failure> {
        let mut parts = vec![page];
        while let Some(part) = parts.pop() {
            match self.make_part_due(part, unreadable, &change).await {
                // Of many rows one is always being changed by others: the fewer, the sooner.
                Err(failure) if failure.kind == Kind::Conflict && part.len() > 1 => {
                    let (first, second) = part.split_at(part.len() / 2);
                    parts.extend([second, first]);
                }
                made => made?,
            }
        }
        Ok(())
    }

    async fn make_part_due(
        &self,
        page: &[Address],
        unreadable: OnFailure,
        change: &(impl Fn(LeaseRecord) -> LeaseRecord + Sync),
    ) -> Result<(), Failure> {
        // What others change meanwhile is read again; nothing was done outside that would have to
        // be undone.
        let mut finish = self.store.begin().finish();
        loop {
            let unit = finish.restart_host_part();
            for address in page {
                match read_tolerantly(unit, address).await? {
                    Opened::Lease(lease) => put(unit, address, &change(*lease), self.store.now())?,
                    Opened::Gone => {}
                    Opened::Damaged(why) => {
                        self.log.line("error", "lease-unreadable", &[cause(&why)]);
                        if unreadable == OnFailure::Goes {
                            unit.delete(address.clone());
                        }
                    }
                }
            }
            if finish.try_commit().await? {
                return Ok(());
            }
        }
    }

    /// Makes the leases that `token` owns due now. One that cannot be read is left and told; it
    /// must not keep the others.
    pub(crate) async fn end_owned(&self, token: &str) -> Result<(), Failure> {
        let mut scan = self.store.scan_owned(Space::Lease, token);
        while let Some(page) = scan.page().await? {
            // Without an owner it is not found here again.
            let orphaned = |lease| LeaseRecord {
                token: String::new(),
                reason: Some(End::TokenEnded),
                ..lease
            };
            self.make_due(&page, OnFailure::Stays, orphaned).await?;
        }
        Ok(())
    }

    /// Makes every reservation due now: when the service is unsealed, and the calls that made them
    /// are known to be gone. The directory is locked, so no other process can be at work on one,
    /// and what began before a seal has ended.
    ///
    /// # Errors
    /// 503 when the store cannot be read or written. A reservation that does not open is told and
    /// left.
    pub(crate) async fn undo_all(&self) -> Result<(), Failure> {
        let mut scan = self.store.scan(Space::Reservation, "").by(UNDONE);
        while let Some(page) = scan.page().await? {
            // One row that does not open must not keep everything else sealed.
            self.make_due(&page, OnFailure::Stays, |reservation| reservation).await?;
        }
        Ok(())
    }
}

//! Making leases due now: the first step in ending many leases.
//!
//! This file prevents a failure of the client, the disk or the process from losing a request to end
//! many leases half-way. Due work ends every due lease, even if the caller goes away: oldest first,
//! and with the usual limit per lane.

use super::record::{EndReason, LeaseRecord, StoredLease, put, read_tolerantly};
use super::table::Leases;
use bulkhead_access::background::dead_work::find_dead_work;
use bulkhead_access::log::cause;
use bulkhead_store::{Address, Record, Space};
use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::log_level::LogLevel;

/// Maximum number of reservations of dead processes made due per commit.
const UNDONE: u32 = 500;

/// The fate of a lease after a failed revocation, and of a lease with an unreadable record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFailure {
    /// The lease stays, with its next attempt scheduled.
    Stays,
    /// The lease goes; the operator has to clean up at the target.
    Goes,
}

impl Leases {
    /// Makes leases or reservations due at the request of a caller. Skips missing records.
    ///
    /// # Errors
    /// The store's failure.
    pub async fn queue(&self, page: &[Address], on_failure: OnFailure) -> Result<(), Failure> {
        // The plugin contract has a single reason for the end of a reservation.
        let is_reserved = page.first().is_some_and(|address| address.space == Space::Reservation);
        let reason = Some(if is_reserved { EndReason::Undo } else { EndReason::Requested });
        let change = |lease: LeaseRecord| {
            self.claims.ask_again(&lease.full_lane());
            let forced = lease.forced || on_failure == OnFailure::Goes;
            Some(LeaseRecord { reason, forced, ..lease })
        };
        self.make_due(page, on_failure, change).await
    }

    /// Changes leases or reservations of one kind with `change` and makes them due now, in one
    /// commit, or in several commits after conflicts. A record for which `change` returns `None`
    /// stays. An unreadable record is logged and treated as `unreadable` says, and does not hold up
    /// the others.
    ///
    /// # Errors
    /// The store's failure.
    pub(super) async fn make_due(
        &self,
        page: &[Address],
        unreadable: OnFailure,
        change: impl Fn(LeaseRecord) -> Option<LeaseRecord> + Sync,
    ) -> Result<(), Failure> {
        let mut parts = vec![page];
        while let Some(part) = parts.pop() {
            match self.make_part_due(part, unreadable, &change).await {
                // With many rows, some row is always being changed by others: retry with half of
                // them.
                Err(failure) if failure.kind == FailureKind::Conflict && part.len() > 1 => {
                    let (first, second) = part.split_at(part.len() / 2);
                    parts.extend([second, first]);
                }
                result => result?,
            }
        }
        Ok(())
    }

    async fn make_part_due(
        &self,
        page: &[Address],
        unreadable: OnFailure,
        change: &(impl Fn(LeaseRecord) -> Option<LeaseRecord> + Sync),
    ) -> Result<(), Failure> {
        // After a conflict the rows are read again; nothing was done outside that needs an undo.
        let mut finish = self.store.begin().finish();
        loop {
            let unit = finish.restart_host_part();
            for address in page {
                match read_tolerantly(unit, address).await? {
                    StoredLease::Lease(lease) => {
                        if let Some(changed) = change(*lease) {
                            put(unit, address, &changed, self.store.now())?;
                        }
                    }
                    StoredLease::Gone => {}
                    StoredLease::Damaged(why) => {
                        self.log.line(LogLevel::Error, "lease-unreadable", &[cause(&why)]);
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

    /// Makes the leases of the owner `token` due now. An unreadable lease is logged and left, and
    /// does not hold up the others.
    pub(crate) async fn end_owned(&self, token: &str) -> Result<(), Failure> {
        let mut scan = self.store.scan_owned(Space::Lease, token);
        while let Some(page) = scan.page().await? {
            // Without an owner, the lease is not found here again.
            let reason = Some(EndReason::TokenEnded);
            let orphaned = |lease| Some(LeaseRecord { token: String::new(), reason, ..lease });
            self.make_due(&page, OnFailure::Stays, orphaned).await?;
        }
        Ok(())
    }

    /// Takes over the reservations of dead processes, and makes them due now: the calls that made
    /// the reservations are gone. Reservations of living processes stay.
    ///
    /// # Errors
    /// 503 if the store cannot be read or written. A reservation that does not open is logged and
    /// left.
    pub(crate) async fn undo_dead(&self) -> Result<(), Failure> {
        let epoch_of =
            |row: &Record| LeaseRecord::parse(row).map(|lease| lease.epoch).unwrap_or_default();
        let mut scan = self.store.scan(Space::Reservation, "").by(UNDONE);
        while let Some(page) = scan.page().await? {
            let dead = find_dead_work(&self.store, page, epoch_of).await?;
            let taken_over = |lease: LeaseRecord| {
                let is_dead = dead.epochs.contains(&lease.epoch);
                is_dead.then(|| LeaseRecord { epoch: self.store.epoch().to_owned(), ..lease })
            };
            // A single row that does not open must not keep everything else sealed.
            self.make_due(&dead.rows, OnFailure::Stays, taken_over).await?;
        }
        Ok(())
    }
}

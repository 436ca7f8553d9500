//! Making leases due now: how whatever ends many leases begins.
//!
//! The fault this file stops: work on many leases that dies half-way, with its client, its disk or
//! its process, and leaves the rest as if nobody had asked. Once they are due, due work ends them,
//! whatever becomes of who asked: as many of a lane at once as of any other work, and oldest first.

use super::{End, LeaseRecord, put};
use crate::core::Core;
use bulkhead_store::{Address, Space, StoreFault, Unit};
use bulkhead_wire::failure::Failure;

/// What happens to a lease whose plugin does not end it, and to one whose record does not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnFailure {
    /// It stays, with its next attempt scheduled.
    Stays,
    /// It goes, and what it ended is left to the operator.
    Goes,
}

/// Makes these leases or reservations due because somebody asked for their end. Those that are gone
/// are left out.
///
/// # Errors
/// The store's failure.
pub(crate) async fn queue(
    core: &Core,
    page: &[Address],
    on_failure: OnFailure,
) -> Result<(), Failure> {
    // Plugins know only one reason for which what was never handed out ends.
    let is_reserved = page.first().is_some_and(|address| address.space == Space::Reservation);
    let reason = Some(if is_reserved { End::Undo } else { End::Requested });
    let asked = |lease: LeaseRecord| {
        let forced = lease.forced || on_failure == OnFailure::Goes;
        LeaseRecord { reason, forced, ..lease }
    };
    make_due(core, page, on_failure, asked).await
}

/// Makes these due now, all of one kind and in one commit, each as `change` says. One that cannot
/// be read is told, and as `unreadable` says: it must not keep the others.
///
/// # Errors
/// The store's failure: none was made due.
pub(super) async fn make_due(
    core: &Core,
    page: &[Address],
    unreadable: OnFailure,
    change: impl Fn(LeaseRecord) -> LeaseRecord + Sync,
) -> Result<(), Failure> {
    // What others change meanwhile is read again; nothing was done outside that would have to be
    // undone.
    let mut finish = core.store.begin().finish();
    loop {
        let unit = finish.restart_host_part();
        for address in page {
            match opened(unit, address).await? {
                Opened::Lease(lease) => {
                    put(unit, address, &change(*lease), Some(core.store.now()))?
                }
                Opened::Gone => {}
                Opened::Damaged(why) => {
                    core.log.line("error", "lease-unreadable", &[("cause", why.message)]);
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

/// What is at the address of a lease.
pub(super) enum Opened {
    Lease(Box<LeaseRecord>),
    Gone,
    /// Edited in the file, or written by nobody: why it does not open.
    Damaged(Failure),
}

/// Reads a lease, also one that does not open.
///
/// # Errors
/// The store's failure.
pub(super) async fn opened(unit: &mut Unit, address: &Address) -> Result<Opened, Failure> {
    match unit.get(address).await {
        Ok(None) => Ok(Opened::Gone),
        Ok(Some(record)) => Ok(LeaseRecord::parse(&record)
            .map_or_else(Opened::Damaged, |lease| Opened::Lease(Box::new(lease)))),
        Err(damaged @ StoreFault::Damaged(_)) => Ok(Opened::Damaged(damaged.into())),
        Err(fault) => Err(fault.into()),
    }
}

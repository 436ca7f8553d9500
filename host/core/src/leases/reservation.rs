//! Leases that a call writes: reserved before the credential exists, confirmed with the answer.
//!
//! Example. `GET /v1/database/creds/app` reserves the lease first: the component calls
//! `leases.reserve`, and [`reserve`] puts a [`LeaseRecord`] into [`Space::Reservation`], due a
//! minute after the deadline of the call, and claims the row. `storage.checkpoint` commits the row,
//! and only then does the database plugin run `CREATE ROLE`. The answer names the tag of the
//! reservation, and [`confirm`] deletes the reservation and puts the lease into [`Space::Lease`],
//! in a single commit. If the call fails after the checkpoint, or the last commit fails,
//! [`undo_reservations`] makes the reservation due now, with [`EndReason::Undo`]. If the process
//! dies, the next unsealing makes the reservation due (`Leases::undo_dead`), or the reservation
//! becomes due by itself. Due work then calls the component's `revoke` with the reason `undo`,
//! again and again while the database does not answer. If the database certainly created nothing,
//! the component calls `leases.end`, and the reservation is deleted without `revoke`.

use super::record::{EndReason, LeaseRecord, put, read};
use super::table::address;
use crate::mounts::Mount;
use bulkhead_access::background::{CALL_GRACE, Claim, Claims};
use bulkhead_access::random;
use bulkhead_access::tokens::Caller;
use bulkhead_sandbox::contract;
use bulkhead_store::{Address, Space, Store, Unit};
use bulkhead_wire::failure::{Failure, FailureKind};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Number of letters and digits of a lease id after its path: 143 bits.
const SUFFIX: usize = 24;

/// Caller, mount, path and deadline of a request that writes leases.
pub struct LeaseContext<'a> {
    /// Store of the lease rows, and clock of the lease's times.
    pub store: &'a Store,
    /// Mount of the call; each lease record contains the uuid of this mount.
    pub mount: &'a Mount,
    /// The request's path, the first part of the lease id.
    pub path: &'a str,
    /// The caller: its token owns the leases and bounds their lifetime.
    pub caller: &'a Caller,
    /// Latest end of the call, in milliseconds of store time.
    pub deadline: u64,
}

impl LeaseContext<'_> {
    fn address(&self, space: Space, id: &str) -> Address {
        let mount = &self.mount.record;
        address(self.store, space, &mount.uuid, mount.below(self.path), id)
    }
}

/// A reservation made by a call.
pub struct LeaseReservation {
    /// Tag chosen by the plugin, unique in the call; the confirming secret carries the same tag.
    pub(crate) tag: String,
    /// Row of the reservation in [`Space::Reservation`], deleted by the confirmation.
    pub(crate) address: Address,
    /// The credential was certainly not made, so there is nothing to undo.
    pub(crate) withdrawn: bool,
    record: LeaseRecord,
    /// Latest time of the undo, in milliseconds of store time.
    due: u64,
    /// Keeps due work of this process away while the call runs, even if clocks jump.
    _claim: Option<Claim>,
}

impl LeaseReservation {
    /// Returns the tag that the plugin chose; the confirming secret carries the same tag.
    pub fn tag(&self) -> &str {
        &self.tag
    }

    /// Returns true if the credential was certainly not made, so there is nothing to undo.
    pub fn is_withdrawn(&self) -> bool {
        self.withdrawn
    }

    /// Returns true if the call may still hand out the reservation. The answer is false if due
    /// work was quicker because clocks jumped, or if everything below the path was revoked
    /// meanwhile.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn is_reserved(&self, unit: &mut Unit) -> Result<bool, Failure> {
        is_reserved(unit, &self.address).await
    }

    /// Adds the database plugins that the call reached after making the reservation.
    pub(crate) fn note_plugins(&mut self, plugins: &BTreeSet<String>) {
        self.record.plugins.extend(plugins.iter().cloned());
    }

    /// Returns the handle with which a later call of the mount ends the lease: its key below the
    /// mount. The lease id cannot be derived from the handle.
    pub(crate) fn handle(&self) -> &str {
        self.address.key.split_once('/').map_or("", |(_mount, handle)| handle)
    }

    /// Writes the reservation again, with new data for the end.
    pub(crate) fn amend(&mut self, unit: &mut Unit, internal: String) -> Result<(), Failure> {
        self.record.internal = internal;
        put(unit, &self.address, &self.record, self.due)
    }
}

/// Writes a reservation into the call's unit of work. `plugins` are the database plugins reached by
/// the call so far.
pub(crate) fn reserve(
    page: &LeaseContext<'_>,
    claims: &Arc<Claims>,
    unit: &mut Unit,
    request: bulkhead_sandbox::ReservationRequest,
    plugins: BTreeSet<String>,
) -> Result<LeaseReservation, Failure> {
    let blank = blank_record(page, request.tag, request.lane, request.internal)?;
    let record = LeaseRecord { plugins, epoch: page.store.epoch().to_owned(), ..blank };
    let address = page.address(Space::Reservation, &record.id);
    let due = page.deadline.saturating_add(CALL_GRACE);
    put(unit, &address, &record, due)?;
    let claim = claims.claim_here(&address);
    let tag = record.tag.clone();
    Ok(LeaseReservation { tag, address, withdrawn: false, record, due, _claim: claim })
}

fn blank_record(
    page: &LeaseContext<'_>,
    tag: String,
    lane: String,
    internal: String,
) -> Result<LeaseRecord, Failure> {
    Ok(LeaseRecord {
        id: format!("{}/{}", page.path, random::base62(SUFFIX)?),
        mount: page.mount.record.uuid.clone(),
        token: page.caller.lease_owner().to_owned(),
        longest: page.caller.longest_lease(),
        tag,
        lane,
        internal,
        issued: page.store.now(),
        expires: 0,
        renewable: false,
        last_renewal: None,
        reason: None,
        attempts: 0,
        refusals: 0,
        error: String::new(),
        error_code: String::new(),
        forced: false,
        plugins: BTreeSet::new(),
        first_due: None,
        epoch: String::new(),
    })
}

/// Returns the failure for a missing or ending reservation.
pub fn ended_meanwhile() -> Failure {
    // The credential was ended, or is being ended.
    Failure::new(FailureKind::Unavailable, "the reservation ended while the request ran; try again")
}

/// Returns true if the call may still hand out the reservation at `address`, as
/// [`LeaseReservation::is_reserved`].
pub(crate) async fn is_reserved(unit: &mut Unit, address: &Address) -> Result<bool, Failure> {
    Ok(read(unit, address).await?.is_some_and(|record| record.reason.is_none()))
}

/// Removes the lease or reservation with the handle `handle`, issued by another call of `mount`.
/// Reads nothing: a concurrent renewal or revocation finds the lease missing at its commit.
pub(crate) fn end_issued(unit: &mut Unit, mount: &str, handle: &str) {
    for space in Space::LEASES {
        unit.delete(Address::new(space, format!("{mount}/{handle}")));
    }
}

/// Ends unconfirmed reservations. A withdrawn reservation is deleted; any other becomes due now and
/// is written from memory even if the store has no such row, because ending a credential twice does
/// no harm.
pub async fn undo_reservations(
    store: &Arc<Store>,
    reserved: &[LeaseReservation],
) -> Result<(), Failure> {
    let mut unit = store.begin();
    for one in reserved {
        match one.withdrawn {
            true => unit.delete(one.address.clone()),
            false => {
                let ended = LeaseRecord { reason: Some(EndReason::Undo), ..one.record.clone() };
                put(&mut unit, &one.address, &ended, store.now())?;
            }
        }
    }
    unit.commit().await?;
    Ok(())
}

/// Turns the answered secret into a lease, in the call's unit of work, and deletes the reservation
/// named by the secret. `ttl` is in seconds and already capped.
pub fn confirm(
    page: &LeaseContext<'_>,
    unit: &mut Unit,
    secret: &contract::Secret,
    reserved: Option<&LeaseReservation>,
    ttl: u64,
) -> Result<LeaseRecord, Failure> {
    let mut record = match reserved {
        Some(reserved) => {
            unit.delete(reserved.address.clone());
            reserved.record.clone()
        }
        None => blank_record(page, String::new(), String::new(), secret.internal.clone())?,
    };
    // Counted from the reservation, like the expiry that the plugin gave its target: a slow call
    // shortens the lease, and never leaves a lease without its credential.
    record.expires = record.issued.saturating_add(ttl.saturating_mul(1000));
    record.renewable = secret.renewable;
    record.epoch = String::new();
    let address = page.address(Space::Lease, &record.id);
    put(unit, &address, &record, record.expires)?;
    Ok(record)
}

#[cfg(test)]
mod tests;

//! Leases that a call writes down: reserved before the thing exists, confirmed with the answer.

use super::record::{End, LEASE_SPACES, LeaseRecord, put, read};
use super::table::address;
use crate::background::{Claim, Claims, GRACE};
use crate::mounts::Mount;
use crate::random;
use crate::tokens::Caller;
use bulkhead_sandbox::contract;
use bulkhead_store::{Address, Space, Store, Unit};
use bulkhead_wire::failure::{Failure, Kind};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Letters and digits of a lease id after its path: 143 bits.
const SUFFIX: usize = 24;

/// Where leases of a request are written: who asks, on which mount and path, until when.
pub(crate) struct LeaseContext<'a> {
    pub(crate) store: &'a Store,
    pub(crate) mount: &'a Mount,
    /// The request's path, which the lease id begins with.
    pub(crate) path: &'a str,
    /// Who asks: whose token owns the leases, and how long they may be.
    pub(crate) caller: &'a Caller,
    /// Store time, in milliseconds, at which the call ends at the latest.
    pub(crate) deadline: u64,
}

impl LeaseContext<'_> {
    fn address(&self, space: Space, id: &str) -> Address {
        let mount = &self.mount.record;
        address(self.store, space, &mount.uuid, mount.below(self.path), id)
    }
}

/// A reservation that a call made.
pub(crate) struct Reserved {
    pub(crate) tag: String,
    pub(crate) address: Address,
    /// Its thing was certainly not made, so there is nothing to undo.
    pub(crate) withdrawn: bool,
    record: LeaseRecord,
    /// Store time, in milliseconds, at which it is undone at the latest.
    due: u64,
    /// So that due work leaves it alone while the call runs, also when clocks jump.
    _claim: Option<Claim>,
}

impl Reserved {
    /// Adds the database plugins that the call reached after it had made the reservation.
    pub(crate) fn note_plugins(&mut self, plugins: &BTreeSet<String>) {
        self.record.plugins.extend(plugins.iter().cloned());
    }

    /// What a later call of the mount ends the lease by: where its row is, below the mount. The id
    /// cannot be made from it.
    pub(crate) fn handle(&self) -> &str {
        self.address.key.split_once('/').map_or("", |(_mount, handle)| handle)
    }

    /// Writes it once more, with what its end needs to know from now on.
    pub(crate) fn amend(&mut self, unit: &mut Unit, internal: String) -> Result<(), Failure> {
        self.record.internal = internal;
        put(unit, &self.address, &self.record, self.due)
    }
}

/// Writes a reservation into the call's unit of work. `plugins` are the database plugins that the
/// call has reached so far.
pub(crate) fn reserve(
    page: &LeaseContext<'_>,
    claims: &Arc<Claims>,
    unit: &mut Unit,
    asked: bulkhead_sandbox::Reservation,
    plugins: BTreeSet<String>,
) -> Result<Reserved, Failure> {
    let blank = blank(page, asked.tag, asked.lane, asked.internal)?;
    let record = LeaseRecord { plugins, ..blank };
    let address = page.address(Space::Reservation, &record.id);
    let due = page.deadline.saturating_add(GRACE);
    put(unit, &address, &record, due)?;
    let claim = claims.claim(&address);
    let tag = record.tag.clone();
    Ok(Reserved { tag, address, withdrawn: false, record, due, _claim: claim })
}

fn blank(
    page: &LeaseContext<'_>,
    tag: String,
    lane: String,
    internal: String,
) -> Result<LeaseRecord, Failure> {
    Ok(LeaseRecord {
        id: format!("{}/{}", page.path, random::base62(SUFFIX)?),
        mount: page.mount.record.uuid.clone(),
        token: page.caller.owner().to_owned(),
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
    })
}

/// What a call is told of a reservation that is gone, or whose end was asked for.
pub(crate) fn ended_meanwhile() -> Failure {
    // What was made is being ended, or was.
    Failure::new(Kind::Unavailable, "the reservation ended while the request ran; try again")
}

/// May the call still hand out what it reserved at `address`? Not when due work was quicker,
/// because clocks jumped, and not when everything below its path was revoked meanwhile.
pub(crate) async fn is_reserved(unit: &mut Unit, address: &Address) -> Result<bool, Failure> {
    Ok(read(unit, address).await?.is_some_and(|record| record.reason.is_none()))
}

/// Removes the lease of another call of `mount`, which has the handle, or its reservation. Nothing
/// is read: a renewal or revocation that is under way finds at its commit that the lease is gone.
pub(crate) fn end_issued(unit: &mut Unit, mount: &str, handle: &str) {
    for space in LEASE_SPACES {
        unit.delete(Address::new(space, format!("{mount}/{handle}")));
    }
}

/// Ends reservations whose call did not confirm them: due now, or gone where there is nothing to
/// undo. What is due is written from memory, also where it is gone from the store: ending twice
/// does no harm.
pub(crate) async fn undo(store: &Arc<Store>, reserved: &[Reserved]) -> Result<(), Failure> {
    let mut unit = store.begin();
    for one in reserved {
        match one.withdrawn {
            true => unit.delete(one.address.clone()),
            false => {
                let ended = LeaseRecord { reason: Some(End::Undo), ..one.record.clone() };
                put(&mut unit, &one.address, &ended, store.now())?;
            }
        }
    }
    unit.commit().await?;
    Ok(())
}

/// Turns the answered secret into a lease, in the call's unit of work: the reservation it names
/// goes, the lease comes. `ttl` is in seconds and already capped.
pub(crate) fn confirm(
    page: &LeaseContext<'_>,
    unit: &mut Unit,
    secret: &contract::Secret,
    reserved: Option<&Reserved>,
    ttl: u64,
) -> Result<LeaseRecord, Failure> {
    let mut record = match reserved {
        Some(reserved) => {
            unit.delete(reserved.address.clone());
            reserved.record.clone()
        }
        None => blank(page, String::new(), String::new(), secret.internal.clone())?,
    };
    // Counted from the reservation, as the plugin told its target: a slow call shortens the lease,
    // and never leaves a lease without its thing.
    record.expires = record.issued.saturating_add(ttl.saturating_mul(1000));
    record.renewable = secret.renewable;
    let address = page.address(Space::Lease, &record.id);
    put(unit, &address, &record, record.expires)?;
    Ok(record)
}

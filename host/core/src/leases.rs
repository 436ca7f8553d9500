//! The lease book: reserve, confirm, renew, revoke.
//!
//! The attack this file stops: a credential that outlives its lease. A lease is written down, as a
//! reservation, before the thing it ends exists; a reservation that its call does not confirm, or
//! whose process dies, is undone by the engine's own revocation, so that there is one code path to
//! trust.

mod below;
mod due_now;
mod end;
pub(crate) mod irrevocable;
mod names;
mod reach;
mod renew;
pub(crate) mod tidy;
mod unanswered;

pub(crate) use below::{Below, end_below, queue_below};
pub(crate) use due_now::{OnFailure, queue};
pub(crate) use end::{End, end, end_owned};
pub(crate) use names::names;
pub(crate) use reach::Reach;
pub(crate) use renew::renew;
pub(crate) use unanswered::end_unanswered;

use crate::claims::{Claim, Claims};
use crate::core::Core;
use crate::mounts::{Mount, Mounts};
use crate::random;
use crate::tokens::Caller;
use bulkhead_sandbox::contract;
use bulkhead_store::{Address, Index, Record, Space, Store, Unit};
use bulkhead_wire::failure::{Failure, Kind};
use bulkhead_wire::stored;
use bulkhead_wire::stored::Stored;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Milliseconds after its call's deadline at which a reservation is undone in any case.
pub(crate) const GRACE: u64 = 60_000;
/// Letters and digits of a lease id after its path: 143 bits.
const SUFFIX: usize = 24;
/// Reservations that are made due in one commit at start.
const UNDONE: u32 = 500;
/// Where the things are written down that may exist outside: in this order, because what is
/// reserved becomes a lease.
pub(crate) const LEASE_SPACES: [Space; 2] = [Space::Reservation, Space::Lease];

/// A lease or reservation as it is stored. Times are milliseconds of store time.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct LeaseRecord {
    /// `database/creds/readonly/<24 letters and digits>`.
    pub(crate) id: String,
    /// uuid of its mount.
    pub(crate) mount: String,
    /// Key of the token that owns it; empty when it stands alone.
    pub(crate) token: String,
    /// When it ends at the latest although its owner lives on: with the batch token that asked for
    /// it.
    pub(crate) longest: Option<u64>,
    pub(crate) tag: String,
    pub(crate) lane: String,
    /// JSON text that only the plugin reads.
    pub(crate) internal: String,
    pub(crate) issued: u64,
    pub(crate) expires: u64,
    pub(crate) renewable: bool,
    pub(crate) last_renewal: Option<u64>,
    /// Why it ends, once that was decided.
    pub(crate) reason: Option<End>,
    /// Failed attempts to end it.
    pub(crate) attempts: u32,
    /// Attempts that were refused for good, rather than unanswered.
    pub(crate) refusals: u32,
    /// The last failure, already scrubbed, and the code of its kind; empty while none failed.
    pub(crate) error: String,
    pub(crate) error_code: String,
    /// The next attempt is the last one: whatever comes of it, the lease goes.
    pub(crate) forced: bool,
}

stored!(LeaseRecord, "lease", reads_stored_leases);

impl LeaseRecord {
    fn parse(record: &Record) -> Result<Self, Failure> {
        Self::from_bytes(&record.body).map_err(|unreadable| unreadable.of("the record of a lease"))
    }

    /// As its plugin sees it.
    pub(crate) fn seen(&self) -> contract::Lease {
        contract::Lease {
            tag: self.tag.clone(),
            internal: self.internal.clone(),
            issued: self.issued,
            expires: self.expires,
        }
    }

    /// Index columns: found when due, by lane, by the token that owns it. An irrevocable lease is
    /// ending whatever becomes of its token, so that its owner's column is free to say what it is.
    fn index(&self, due: Option<u64>) -> Index {
        let owner = if self.is_irrevocable() { irrevocable::OWNER } else { &self.token };
        Index { due, lane: format!("{}/{}", self.mount, self.lane), owner: owner.to_owned() }
    }

    /// Its plugin refused to end it so often that only somebody's help will: it is tried once a
    /// day.
    pub(crate) fn is_irrevocable(&self) -> bool {
        self.refusals >= end::MOST_REFUSALS
    }

    /// Why the last attempt to end it failed.
    fn failure(&self) -> Failure {
        Failure::new(Kind::of_code(&self.error_code), self.error.clone())
    }
}

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
        let below =
            self.path.strip_prefix(mount.path.as_str().trim_end_matches('/')).unwrap_or(self.path);
        address(self.store, space, &mount.uuid, below.trim_start_matches('/'), id)
    }
}

/// A reservation that a call made.
pub(crate) struct Reserved {
    pub(crate) tag: String,
    pub(crate) address: Address,
    /// Its thing was certainly not made, so there is nothing to undo.
    pub(crate) withdrawn: bool,
    record: LeaseRecord,
    /// So that due work leaves it alone while the call runs, also when clocks jump.
    _claim: Option<Claim>,
}

/// The row of a lease id; `None` when no lease can have it. The path stays readable for listing by
/// prefix; the part that must not be guessed is hashed.
pub(crate) fn locate(store: &Store, mounts: &Mounts, id: &str) -> Option<Address> {
    let (path, _) = id.rsplit_once('/')?;
    let (holder, below) = mounts.holder(path)?;
    Some(address(store, Space::Lease, &holder.uuid, below, id))
}

fn address(store: &Store, space: Space, mount: &str, below: &str, id: &str) -> Address {
    let hash = store.keyed_hash("lease", id.as_bytes());
    let key = if below.is_empty() {
        format!("{mount}/{hash}")
    } else {
        format!("{mount}/{below}/{hash}")
    };
    Address::new(space, key)
}

/// What bears the id: a lease, or a reservation whose end is still owed.
pub(crate) async fn find(
    core: &Core,
    unit: &mut Unit,
    id: &str,
) -> Result<Option<(Address, LeaseRecord)>, Failure> {
    let Some(Address { key, .. }) = locate(&core.store, &core.mounts, id) else { return Ok(None) };
    for space in LEASE_SPACES {
        let address = Address::new(space, key.as_str());
        if let Some(lease) = read(unit, &address).await? {
            return Ok(Some((address, lease)));
        }
    }
    Ok(None)
}

/// Reads a lease.
pub(crate) async fn read(
    unit: &mut Unit,
    address: &Address,
) -> Result<Option<LeaseRecord>, Failure> {
    unit.get(address).await?.as_ref().map(LeaseRecord::parse).transpose()
}

fn put(
    unit: &mut Unit,
    address: &Address,
    record: &LeaseRecord,
    due: Option<u64>,
) -> Result<(), Failure> {
    unit.put(address.clone(), record.to_bytes()?, record.index(due));
    Ok(())
}

/// Writes a reservation into the call's unit of work.
pub(crate) fn reserve(
    page: &LeaseContext<'_>,
    claims: &Arc<Claims>,
    unit: &mut Unit,
    asked: bulkhead_sandbox::Reservation,
) -> Result<Reserved, Failure> {
    let record = blank(page, asked.tag, asked.lane, asked.internal)?;
    let address = page.address(Space::Reservation, &record.id);
    put(unit, &address, &record, Some(page.deadline.saturating_add(GRACE)))?;
    let claim = claims.claim(&address);
    Ok(Reserved { tag: record.tag.clone(), address, withdrawn: false, record, _claim: claim })
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
    })
}

/// May the call still hand out what it reserved? Not when due work was quicker, because clocks
/// jumped, and not when somebody revoked everything below its path meanwhile.
pub(crate) async fn is_reserved(unit: &mut Unit, reserved: &Reserved) -> Result<bool, Failure> {
    Ok(read(unit, &reserved.address).await?.is_some_and(|record| record.reason.is_none()))
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
                put(&mut unit, &one.address, &ended, Some(store.now()))?;
            }
        }
    }
    unit.commit().await?;
    Ok(())
}

/// Makes every reservation due now: when the service is unsealed, and whoever made them is known to
/// be gone. The directory is locked, so no other process can be at work on one, and what began
/// before a seal has ended.
///
/// # Errors
/// 503 when the store cannot be read or written. A reservation that does not open is told and left.
pub(crate) async fn undo_all(core: &Core) -> Result<(), Failure> {
    let mut scan = core.store.scan(Space::Reservation, "").by(UNDONE);
    while let Some(page) = scan.page().await? {
        // One row that does not open must not keep everything else sealed.
        due_now::make_due(core, &page, OnFailure::Stays, |reservation| reservation).await?;
    }
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
    put(unit, &address, &record, Some(record.expires))?;
    Ok(record)
}

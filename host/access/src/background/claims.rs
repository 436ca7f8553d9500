//! Claims: the exclusive right to work on a lease, token, timer or mount.
//!
//! This file prevents a lease from expiring during its renewal, which would drop the user while the
//! caller holds a renewed lease. Renewal, revocation and expiry all hold the claim.
//!
//! Example. A lease of `GET /v1/database/creds/app` ends at 12:00:00, and
//! `POST /v1/sys/leases/renew` arrives a second earlier. The renewal takes the claim on the address
//! of the lease ([`Claims::claim_in_turn`]) and calls the component, which needs two seconds. At
//! 12:00:00 the worker finds the row due, but `Claims::hold_due` leaves the row out and notes the
//! address. The renewal reads the lease again with [`Claim::fence`], as part of the commit that
//! stores the later end. The dropped claim wakes the worker, and the row is not due any more. If
//! the worker is first, the renewal waits, finds the lease gone or ending, and answers 400. If
//! another commit changes the lease after the fence, the commit of the renewal conflicts, and the
//! host checks the lease again. If the process dies, the claims die with the process, and the next
//! process finds the row due.
//!
//! On a node that works alone, a claim is an address in the memory of the process. On a node that
//! shares its database, a claim is also a record with the epoch of the holder (`ClaimRecords`,
//! decision T63). The process takes the address in memory first, and
//! then commits the record, before any effect of the work. [`Claim::fence`] removes the record in
//! the commit of the outcome. A claim that is dropped without such a commit removes its record in a
//! task, and gives the address in memory back after the removal. The record of a dead process is
//! free, because the epoch of the process is not living.
//!
//! Two kinds of work hold a claim in memory alone ([`Claims::claim_here`]):
//!
//! - a call on its own reservation or guard, as long as the call runs. The row names the epoch of
//!   the process, other nodes undo only rows of dead epochs, and the row becomes due after the last
//!   moment of the call. Work of another node on a due row is fenced: a call that confirms its
//!   reservation finds the row gone or ending, and undoes the reservation again.
//! - a search that repairs rows (tidy). Two nodes may search at a time; a repair is a commit that
//!   checks what it read.

mod dead_epochs;
mod doubtful;
mod in_lanes;
mod release;
#[cfg(test)]
mod tests;

use self::doubtful::{DoubtfulRecords, record_in_doubt};
use self::release::ClaimRelease;
use super::claim_records::{ClaimRecords, TakeFault};
use super::claimed_addresses::{ClaimLane, ClaimedAddresses};
use super::lanes::Lanes;
use crate::sealing::SealSignal;
use bulkhead_store::{Address, Record, Store, StoreFault, Unit};
use bulkhead_wire::sync;
use std::pin::Pin;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::time::Instant;

/// First pause between two looks at the record of another node.
const FIRST_LOOK_PAUSE: Duration = Duration::from_millis(10);
/// Maximum pause between two looks at the record of another node.
const LONGEST_LOOK_PAUSE: Duration = Duration::from_millis(200);

/// All claims of the process.
#[derive(Default)]
pub struct Claims {
    held: Mutex<ClaimedAddresses>,
    freed: Notify,
    /// Wakes only the worker on due rows. Otherwise the worker would search all lanes in vain after
    /// each request that held a claim.
    room: Notify,
    lanes: Lanes,
    /// `None` if no other process works on the store.
    records: Option<ClaimRecords>,
    /// Ended claims whose records may be stored.
    doubtful: DoubtfulRecords,
    /// Due work passed over an address that another node holds.
    passed_over_node: AtomicBool,
}

/// The exclusive right to work on an address. Dropping it releases the address.
pub struct Claim {
    claims: Arc<Claims>,
    address: Address,
    lane: Option<ClaimLane>,
    record: ClaimRecord,
}

/// The record of a claim.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ClaimRecord {
    /// There is none.
    Absent,
    /// Committed, and perhaps removed by the outcome of the work.
    Stored,
    /// Perhaps stored, now or later.
    InDoubt,
}

impl Claims {
    /// Returns the claims of a process on `store`.
    pub(super) fn of(store: &Arc<Store>, sealing: &SealSignal) -> Arc<Self> {
        Arc::new(Self { records: ClaimRecords::of(store, sealing), ..Self::default() })
    }

    #[cfg(test)]
    pub(super) fn records(&self) -> Option<&ClaimRecords> {
        self.records.as_ref()
    }

    /// Returns the claims of a simulated process.
    #[cfg(test)]
    pub(super) fn with_records(records: ClaimRecords) -> Arc<Self> {
        Arc::new(Self { records: Some(records), ..Self::default() })
    }

    /// Claims `address` in this process alone. Returns `None` if the address is already claimed.
    pub fn claim_here(self: &Arc<Self>, address: &Address) -> Option<Claim> {
        let is_free = self.lock().insert(address);
        is_free.then(|| Claim::new(self, address, None))
    }

    /// Claims `address`. Returns `None` if the address is already claimed.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the database cannot be read or written, or has not confirmed
    /// the end of an earlier claim.
    pub async fn claim(self: &Arc<Self>, address: &Address) -> Result<Option<Claim>, StoreFault> {
        let until = Instant::now() + self.patience();
        let Some(mut claim) = self.claim_after_release(address, until).await? else {
            return Ok(None);
        };
        loop {
            match self.record(vec![claim]).await? {
                (mut taken, foreign) if foreign.is_empty() => return Ok(taken.pop()),
                (_, mut foreign) => match foreign.pop().filter(|_| Instant::now() < until) {
                    Some(left) => claim = left,
                    None => return Ok(None),
                },
            }
            tokio::time::sleep(FIRST_LOOK_PAUSE).await;
        }
    }

    /// Returns whether another living node holds `address`. Claims nothing.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the database cannot be read.
    pub async fn is_claimed_elsewhere(&self, address: &Address) -> Result<bool, StoreFault> {
        match &self.records {
            Some(records) => records.is_foreign(address).await,
            None => Ok(false),
        }
    }

    /// Claims `address`, after waiting for its present holder.
    ///
    /// # Errors
    /// As [`Claims::claim`].
    pub async fn claim_in_turn(self: &Arc<Self>, address: &Address) -> Result<Claim, StoreFault> {
        let mut claim = self.claim_here_in_turn(address).await?;
        let mut pause = FIRST_LOOK_PAUSE;
        loop {
            let (mut taken, mut foreign) = self.record(vec![claim]).await?;
            match (taken.pop(), foreign.pop()) {
                (Some(taken), _) => return Ok(taken),
                (None, Some(left)) => claim = left,
                (None, None) => claim = self.claim_here_in_turn(address).await?,
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_LOOK_PAUSE);
        }
    }

    /// As [`Claims::claim_in_turn`], in this process alone.
    pub(super) async fn claim_here_in_turn(
        self: &Arc<Self>,
        address: &Address,
    ) -> Result<Claim, StoreFault> {
        let mut until = None;
        loop {
            let freed = self.freed.notified();
            tokio::pin!(freed);
            // Registers before the attempt, so that a release between the two still wakes this
            // task.
            freed.as_mut().enable();
            if let Some(claim) = self.claim_here(address) {
                return Ok(claim);
            }
            if !self.doubtful.contains(address) {
                until = None;
                freed.await;
                continue;
            }
            let until = *until.get_or_insert_with(|| Instant::now() + self.patience());
            if tokio::time::timeout_at(until, freed).await.is_err() {
                return Err(record_in_doubt());
            }
        }
    }

    /// Claims `address` in this process. Waits for a claim whose work is finished, but not longer
    /// than `until`.
    async fn claim_after_release(
        self: &Arc<Self>,
        address: &Address,
        until: Instant,
    ) -> Result<Option<Claim>, StoreFault> {
        loop {
            let freed = self.freed.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            if let Some(claim) = self.claim_here(address) {
                return Ok(Some(claim));
            }
            if !self.lock().is_in_release(address) {
                return Ok(None);
            }
            if tokio::time::timeout_at(until, freed).await.is_err() {
                let is_in_doubt = self.doubtful.contains(address);
                return if is_in_doubt { Err(record_in_doubt()) } else { Ok(None) };
            }
        }
    }

    /// Returns the time for which a caller waits for the removal of the record of an ended claim.
    fn patience(&self) -> Duration {
        self.records.as_ref().map_or(Duration::ZERO, |records| records.patience)
    }

    /// Commits the records of claims in memory, in one commit. Returns the claims with records, and
    /// the claims that other nodes hold.
    async fn record(
        self: &Arc<Self>,
        claims: Vec<Claim>,
    ) -> Result<(Vec<Claim>, Vec<Claim>), StoreFault> {
        if self.records.is_none() || claims.is_empty() {
            return Ok((claims, Vec::new()));
        }
        // A separate task, so that a caller that goes away leaves no record without a claim.
        let recorded = tokio::spawn(record_claims(Arc::clone(self), claims));
        let ended_early = || StoreFault::Unavailable("a claim on a record ended early".to_owned());
        recorded.await.unwrap_or_else(|_| Err(ended_early()))
    }

    fn lock(&self) -> MutexGuard<'_, ClaimedAddresses> {
        sync::lock(&self.held)
    }
}

async fn record_claims(
    claims: Arc<Claims>,
    mut here: Vec<Claim>,
) -> Result<(Vec<Claim>, Vec<Claim>), StoreFault> {
    let Some(records) = &claims.records else { return Ok((here, Vec::new())) };
    let addresses: Vec<Address> = here.iter().map(|claim| claim.address.clone()).collect();
    match records.take(&addresses).await {
        Ok(elsewhere) => {
            let is_elsewhere = |claim: &Claim| elsewhere.contains(&claim.address);
            let (mut foreign, mut taken): (Vec<Claim>, _) =
                here.into_iter().partition(is_elsewhere);
            foreign.iter_mut().for_each(Claim::leave_lane_quietly);
            taken.iter_mut().for_each(|claim: &mut Claim| claim.record = ClaimRecord::Stored);
            Ok((taken, foreign))
        }
        Err(fault) => {
            if matches!(fault, TakeFault::InDoubt(_)) {
                here.iter_mut().for_each(|claim| claim.record = ClaimRecord::InDoubt);
            }
            here.iter_mut().for_each(Claim::leave_lane_quietly);
            Err(fault.into_fault())
        }
    }
}

/// The notices of releases.
impl Claims {
    /// Resolves when a claim of this process is released or a lane's rest ends. Enable the future
    /// before checking the state, or a release in between is missed.
    pub fn release_notice(&self) -> Notified<'_> {
        self.freed.notified()
    }

    /// Waits for `notice` ([`Claims::release_notice`]). If other nodes may release claims, waits
    /// for a short time at most, because no notice tells of other nodes.
    pub async fn await_release(&self, notice: Pin<&mut Notified<'_>>) {
        match &self.records {
            None => notice.await,
            Some(_) => {
                // The caller looks again, after a notice or without one.
                let _ = tokio::time::timeout(LONGEST_LOOK_PAUSE, notice).await;
            }
        }
    }

    /// Resolves when skipped due work may start: a lane has room, a skipped address was released,
    /// or a lane's rest ended. Enable the future before checking the state, as for
    /// [`Claims::release_notice`].
    pub(crate) fn room_notice(&self) -> Notified<'_> {
        self.room.notified()
    }

    fn notify_of_room(&self) {
        self.freed.notify_waiters();
        self.room.notify_waiters();
    }
}

impl Claim {
    fn new(claims: &Arc<Claims>, address: &Address, lane: Option<ClaimLane>) -> Self {
        let (claims, address) = (Arc::clone(claims), address.clone());
        Self { claims, address, lane, record: ClaimRecord::Absent }
    }

    /// Returns the claimed address.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Leaves the lane, so that other work can use its place, and keeps the address.
    pub(crate) fn leave_lane(mut self) -> Self {
        self.claims.lock().leave(self.lane.take());
        self.claims.notify_of_room();
        self
    }

    /// Leaves the lane of work that does not begin. Does not wake the worker, which would search
    /// again at once and find the same.
    fn leave_lane_quietly(&mut self) {
        self.claims.lock().leave(self.lane.take());
    }

    /// Reads the claimed record for the commit that ends the work. A later change of the record
    /// makes that commit fail with a conflict. The commit also removes the record of the claim, so
    /// that another node may claim the address as soon as the outcome is stored.
    ///
    /// Call this in the last segment, after the plugin's call, because a checkpoint of the plugin
    /// forgets earlier reads. If the record is gone or replaced, or another node holds the address
    /// since an earlier outcome of this work, the work must store nothing.
    ///
    /// # Errors
    /// Errors of [`Unit::get`].
    pub async fn fence(&self, unit: &mut Unit) -> Result<Option<Record>, StoreFault> {
        if let Some(records) = &self.claims.records
            && self.record != ClaimRecord::Absent
            && !records.remove_in(unit, &self.address).await?
        {
            return Ok(None);
        }
        unit.get(&self.address).await
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        ClaimRelease::of(self).begin();
    }
}

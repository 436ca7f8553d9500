//! The records of claims, in a database on which several nodes work.
//!
//! This file prevents two nodes from ending the same lease, waking the same timer or changing the
//! same mount at a time. The record of a claim stands in [`Space::Claim`], below the number of the
//! claimed kind and the claimed key, and names the epoch of the holder. A unit of work reads the
//! record and puts the record if there is none, or if the epoch is not living. Of two nodes that
//! claim at the same moment, one has a conflict, reads again, and finds the other node.
//!
//! No record expires, because a process whose epoch is not living can commit nothing: neither the
//! outcome of its work nor the removal of a record that another node took over. A paused process is
//! in the same position. A process takes over the records of its own epoch, because the claims in
//! memory decide inside of the process.
//!
//! A record that does not open counts as held, because another node may have sealed the record with
//! a key that this process has not read yet. Only a process that is the only living process takes
//! such a record over.
//!
//! Records of dead epochs at addresses that nobody claims again are removed after the death of the
//! epoch (`claims/dead_epochs.rs`). A snapshot may contain records: after a restore their epochs
//! are dead, and a node that works alone does not read them.

#[cfg(test)]
mod tests;

use crate::sealing::SealSignal;
use bulkhead_store::{Address, IndexColumns, Space, Store, StoreFault, Unit};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of attempts to take claims that other nodes take at the same moment.
const MOST_ATTEMPTS: u32 = 16;
/// Pause between two attempts to remove records, while the database cannot be written.
const REMOVAL_PAUSE: Duration = Duration::from_secs(1);
/// The same pause after a conflict.
const CONFLICT_PAUSE: Duration = Duration::from_millis(10);
/// Time for which a caller waits for the removal of the record of an ended claim.
const RELEASE_PATIENCE: Duration = Duration::from_secs(1);

/// The epochs by which a record of a claim is judged.
pub(super) enum NodeEpochs {
    /// The epochs of the store.
    OfStore,
    /// An own epoch and living epochs of a test, which opens one store for several nodes.
    #[cfg(test)]
    Simulated(String, Arc<std::sync::Mutex<BTreeSet<String>>>),
}

/// The records of the claims of a process.
pub(super) struct ClaimRecords {
    store: Arc<Store>,
    epochs: NodeEpochs,
    sealing: SealSignal,
    /// Time for which a caller waits for the removal of the record of an ended claim.
    pub(super) patience: Duration,
}

/// The holder in the record of a claim.
#[derive(Debug, PartialEq, Eq)]
enum ClaimHolder {
    /// There is no record.
    Nobody,
    /// The process with this epoch.
    Process(String),
    /// The record does not open: the record is damaged, or sealed with a key that this process has
    /// not read yet. Any process may hold the address.
    Unreadable,
}

/// The fault for which no record was taken.
pub(super) enum TakeFault {
    /// Nothing was written.
    Unread(StoreFault),
    /// The records may be stored nevertheless, now or later.
    InDoubt(StoreFault),
}

impl TakeFault {
    /// Returns the fault of the store.
    pub(super) fn into_fault(self) -> StoreFault {
        let (Self::Unread(fault) | Self::InDoubt(fault)) = self;
        fault
    }
}

impl ClaimRecords {
    /// Returns the records of a store on which several nodes may work; `None` for a store of a
    /// single process.
    pub(super) fn of(store: &Arc<Store>, sealing: &SealSignal) -> Option<Self> {
        store.is_shared().then(|| Self {
            store: Arc::clone(store),
            epochs: NodeEpochs::OfStore,
            sealing: sealing.clone(),
            patience: RELEASE_PATIENCE,
        })
    }

    /// Returns the records of a simulated node, whose epoch counts as long as it is `living`.
    #[cfg(test)]
    pub(super) fn simulated(
        store: &Arc<Store>,
        epoch: &str,
        living: &Arc<std::sync::Mutex<BTreeSet<String>>>,
    ) -> Self {
        Self {
            store: Arc::clone(store),
            epochs: NodeEpochs::Simulated(epoch.to_owned(), Arc::clone(living)),
            sealing: SealSignal::new(&Arc::default()),
            patience: Duration::from_millis(20),
        }
    }

    /// Commits records at all `addresses` without a living holder, in one commit. Returns the
    /// addresses that other nodes hold.
    ///
    /// # Errors
    /// No record was taken, as far as is known.
    pub(super) async fn take(&self, addresses: &[Address]) -> Result<BTreeSet<Address>, TakeFault> {
        let mut elsewhere: BTreeSet<Address> = BTreeSet::new();
        for _ in 0..MOST_ATTEMPTS {
            // Foreign records are read only once: a later release would be a conflict.
            let left = addresses.iter().filter(|address| !elsewhere.contains(*address)).cloned();
            let (mut unit, left) = (self.store.begin(), left.collect::<Vec<_>>());
            elsewhere.extend(self.put_free(&mut unit, &left).await.map_err(TakeFault::Unread)?);
            if !unit.wrote() {
                return Ok(elsewhere);
            }
            match unit.commit().await {
                Ok(_) => return Ok(elsewhere),
                // Another node took or released one of the records.
                Err(StoreFault::Conflict) => {}
                Err(fault) => return Err(TakeFault::InDoubt(fault)),
            }
        }
        Ok(addresses.iter().cloned().collect())
    }

    /// Returns whether another living process holds `address`.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the database cannot be read.
    pub(super) async fn is_foreign(&self, address: &Address) -> Result<bool, StoreFault> {
        let holder = holder_in(&mut self.store.begin(), &record_of(address)).await?;
        if holder == ClaimHolder::Nobody || self.is_own(&holder) {
            return Ok(false);
        }
        let living = self.living_epochs().await?;
        Ok(self.may_live(&holder, &living))
    }

    /// Puts records at the addresses without a living holder. Returns the other addresses.
    async fn put_free(
        &self,
        unit: &mut Unit,
        addresses: &[Address],
    ) -> Result<Vec<Address>, StoreFault> {
        let (mut free, mut foreign) = (Vec::new(), Vec::new());
        for address in addresses {
            match holder_in(unit, &record_of(address)).await? {
                ClaimHolder::Nobody => free.push(address),
                ClaimHolder::Process(holder) if holder == self.own_epoch() => free.push(address),
                holder => foreign.push((address, holder)),
            }
        }
        let mut elsewhere = Vec::new();
        if !foreign.is_empty() {
            // After the records, because the epoch of a new node is in no earlier answer.
            let living = self.living_epochs().await?;
            for (address, holder) in foreign {
                match self.may_live(&holder, &living) {
                    true => elsewhere.push(address.clone()),
                    false => free.push(address),
                }
            }
        }
        for address in free {
            let body = self.own_epoch().as_bytes().to_vec();
            unit.put(record_of(address), body, IndexColumns::default());
        }
        Ok(elsewhere)
    }

    /// Removes the record of a claim of this process in the commit of the unit. Returns `false` if
    /// another node holds the address.
    ///
    /// # Errors
    /// As [`Unit::get`].
    pub(super) async fn remove_in(
        &self,
        unit: &mut Unit,
        address: &Address,
    ) -> Result<bool, StoreFault> {
        let record = record_of(address);
        let holder = holder_in(unit, &record).await?;
        // A record that does not open is the own record: if another node had taken the address
        // over, this process could not commit.
        let is_own = self.is_own(&holder) || holder == ClaimHolder::Unreadable;
        if is_own {
            unit.delete(record);
        }
        Ok(is_own || holder == ClaimHolder::Nobody)
    }

    /// Removes the record of a claim of this process that was committed, if the record is still
    /// there.
    ///
    /// # Errors
    /// The record may be left.
    pub(super) async fn remove_stored(&self, address: &Address) -> Result<(), StoreFault> {
        let mut unit = self.store.begin();
        self.remove_in(&mut unit, address).await?;
        match unit.wrote() {
            true => unit.commit().await.map(drop),
            false => Ok(()),
        }
    }

    /// Removes the records of claims of this process that may be stored now or later, in one
    /// commit. Tries until the database answers, or the service is being sealed: the epoch is dead
    /// then.
    pub(super) async fn remove_doubtful(&self, addresses: &[Address]) {
        while let Err(fault) = self.try_remove_doubtful(addresses).await
            && !self.sealing.has_begun()
        {
            let pause = match fault {
                // A record was stored meanwhile; the next attempt reads the record.
                StoreFault::Conflict => CONFLICT_PAUSE,
                _ => REMOVAL_PAUSE,
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.sealing.wait_for_seal() => {}
            }
        }
    }

    async fn try_remove_doubtful(&self, addresses: &[Address]) -> Result<(), StoreFault> {
        let (mut unit, mut unreadable) = (self.store.begin(), Vec::new());
        for address in addresses {
            let record = record_of(address);
            match holder_in(&mut unit, &record).await? {
                ClaimHolder::Unreadable => unreadable.push(record),
                holder if self.is_own(&holder) => unit.delete(record),
                // A write waits for the decision over earlier commits, and conflicts with a record
                // that was stored meanwhile.
                ClaimHolder::Nobody => unit.delete(record),
                ClaimHolder::Process(_) => {}
            }
        }
        // Another node may have taken the address instead of this process.
        if !unreadable.is_empty() && self.is_alone(&self.living_epochs().await?) {
            unreadable.into_iter().for_each(|record| unit.delete(record));
        }
        match unit.wrote() {
            true => unit.commit().await.map(drop),
            false => Ok(()),
        }
    }

    /// Removes the records of dead epochs.
    ///
    /// # Errors
    /// The remaining records are left; each is taken over by a claim of its address.
    pub(super) async fn remove_dead(&self) -> Result<(), StoreFault> {
        let mut living = BTreeSet::from([self.own_epoch().to_owned()]);
        let mut scan = self.store.scan(Space::Claim, "");
        while let Some(page) = scan.page().await? {
            for record in page {
                let mut unit = self.store.begin();
                let holder = holder_in(&mut unit, &record).await?;
                if holder == ClaimHolder::Nobody || self.is_own(&holder) {
                    continue;
                }
                // After the record, as for a claim. An epoch that lived at a former look may be
                // dead by now; the next search removes its records.
                if !self.may_live(&holder, &living) || holder == ClaimHolder::Unreadable {
                    living = self.living_epochs().await?;
                }
                if self.may_live(&holder, &living) {
                    continue;
                }
                unit.delete(record);
                match unit.commit().await {
                    // Another node took the record over.
                    Err(StoreFault::Conflict) => {}
                    removed => {
                        removed?;
                    }
                }
            }
        }
        Ok(())
    }

    fn is_own(&self, holder: &ClaimHolder) -> bool {
        matches!(holder, ClaimHolder::Process(epoch) if epoch == self.own_epoch())
    }

    /// Returns whether a living process may hold an address. An unreadable record is free for the
    /// only living process: no process that starts later takes the address before the record is
    /// replaced.
    fn may_live(&self, holder: &ClaimHolder, living: &BTreeSet<String>) -> bool {
        match holder {
            ClaimHolder::Nobody => false,
            ClaimHolder::Process(epoch) => living.contains(epoch),
            ClaimHolder::Unreadable => !self.is_alone(living),
        }
    }

    fn is_alone(&self, living: &BTreeSet<String>) -> bool {
        living.iter().all(|epoch| epoch == self.own_epoch())
    }

    fn own_epoch(&self) -> &str {
        match &self.epochs {
            NodeEpochs::OfStore => self.store.epoch(),
            #[cfg(test)]
            NodeEpochs::Simulated(own, _) => own,
        }
    }

    /// Returns the epochs of the living processes.
    ///
    /// # Errors
    /// As [`Store::living_epochs`].
    pub(super) async fn living_epochs(&self) -> Result<BTreeSet<String>, StoreFault> {
        match &self.epochs {
            NodeEpochs::OfStore => self.store.living_epochs().await,
            #[cfg(test)]
            NodeEpochs::Simulated(_, living) => Ok(bulkhead_wire::sync::lock(living).clone()),
        }
    }
}

/// Returns the address of the record of a claim.
fn record_of(claimed: &Address) -> Address {
    Address::new(Space::Claim, format!("{}/{}", claimed.space.number(), claimed.key))
}

/// Returns the holder in the record of a claim.
async fn holder_in(unit: &mut Unit, record: &Address) -> Result<ClaimHolder, StoreFault> {
    let found = match unit.get(record).await {
        Err(StoreFault::Damaged(_)) => return Ok(ClaimHolder::Unreadable),
        found => found?,
    };
    let Some(found) = found else { return Ok(ClaimHolder::Nobody) };
    let epoch = String::from_utf8(found.body.to_vec());
    Ok(epoch.map_or(ClaimHolder::Unreadable, ClaimHolder::Process))
}

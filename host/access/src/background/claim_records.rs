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
//! Records of dead epochs at addresses that nobody claims again are removed when due work begins.
//! A snapshot may contain records: after a restore their epochs are dead, and a node that works
//! alone does not read them.

#[cfg(test)]
mod tests;

use crate::sealing::SealSignal;
use bulkhead_store::{Address, IndexColumns, Space, Store, StoreFault, Unit};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of attempts to take claims that other nodes take at the same moment.
const MOST_ATTEMPTS: u32 = 16;
/// Pause between two attempts to remove a record, while the database cannot be written.
const REMOVAL_PAUSE: Duration = Duration::from_secs(1);

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

    /// Puts records at the addresses without a living holder. Returns the other addresses.
    async fn put_free(
        &self,
        unit: &mut Unit,
        addresses: &[Address],
    ) -> Result<Vec<Address>, StoreFault> {
        let (mut free, mut foreign) = (Vec::new(), Vec::new());
        for address in addresses {
            match holder_in(unit, &record_of(address)).await? {
                Some(holder) if holder != self.own_epoch() => foreign.push((address, holder)),
                _ => free.push(address),
            }
        }
        let mut elsewhere = Vec::new();
        if !foreign.is_empty() {
            // After the records, because the epoch of a new node is in no earlier answer.
            let living = self.living_epochs().await?;
            for (address, holder) in foreign {
                match living.contains(&holder) {
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
        let is_own = holder.as_deref() == Some(self.own_epoch());
        if is_own {
            unit.delete(record);
        }
        Ok(is_own || holder.is_none())
    }

    /// Removes the record of a claim of this process, if the record is still there. Tries until the
    /// database answers, or the service is being sealed: the epoch is dead then. `is_in_doubt`: the
    /// record may be stored later.
    pub(super) async fn remove(&self, address: &Address, is_in_doubt: bool) {
        while self.try_remove(address, is_in_doubt).await.is_err() && !self.sealing.has_begun() {
            tokio::select! {
                () = tokio::time::sleep(REMOVAL_PAUSE) => {}
                () = self.sealing.wait_for_seal() => {}
            }
        }
    }

    async fn try_remove(&self, address: &Address, is_in_doubt: bool) -> Result<(), StoreFault> {
        let record = record_of(address);
        let mut unit = self.store.begin();
        match holder_in(&mut unit, &record).await? {
            Some(holder) if holder != self.own_epoch() => return Ok(()),
            None if !is_in_doubt => return Ok(()),
            // A write waits for the decision over earlier commits, and conflicts with a record
            // that was stored meanwhile.
            _ => unit.delete(record),
        }
        unit.commit().await.map(drop)
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
                let Some(holder) = holder_in(&mut unit, &record).await? else { continue };
                if !living.contains(&holder) {
                    living = self.living_epochs().await?;
                }
                if living.contains(&holder) {
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

    fn own_epoch(&self) -> &str {
        match &self.epochs {
            NodeEpochs::OfStore => self.store.epoch(),
            #[cfg(test)]
            NodeEpochs::Simulated(own, _) => own,
        }
    }

    async fn living_epochs(&self) -> Result<BTreeSet<String>, StoreFault> {
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

/// Returns the epoch in the record of a claim. A record that does not open names no holder.
async fn holder_in(unit: &mut Unit, record: &Address) -> Result<Option<String>, StoreFault> {
    match unit.get(record).await {
        Err(StoreFault::Damaged(_)) => Ok(None),
        found => Ok(found?.map(|found| String::from_utf8_lossy(&found.body).into_owned())),
    }
}

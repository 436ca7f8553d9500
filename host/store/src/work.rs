//! One unit of work as it asks to be committed: what it read, and what it writes.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::fault::StoreFault;
use crate::range::KeyRange;
use crate::record::{Address, Record, Stamp};
use crate::revision::RevisedWrites;
use crate::rows::SealedRow;
use crate::turns::{Contended, TurnState};

/// What a unit of work read since its last checkpoint.
#[derive(Clone, Default)]
pub(crate) struct Reads {
    keys: BTreeMap<Address, Option<Stamp>>,
    listings: Vec<Listing>,
}

/// A listed range: reading it again must give the same keys.
#[derive(Clone)]
pub(crate) struct Listing {
    pub(crate) range: KeyRange,
    pub(crate) limit: u32,
    pub(crate) keys: Vec<String>,
}

impl Reads {
    /// Remembers that the record had this stamp, or was absent.
    ///
    /// # Errors
    /// The address, when it was read before and has changed since: such a unit can never commit.
    pub(crate) fn remember(
        &mut self,
        address: &Address,
        stamp: Option<Stamp>,
    ) -> Result<(), Address> {
        let before = self.keys.insert(address.clone(), stamp);
        if before.is_some_and(|before| before != stamp) { Err(address.clone()) } else { Ok(()) }
    }

    /// Remembers that the first `limit` keys of `range` were these.
    pub(crate) fn remember_range(&mut self, range: KeyRange, limit: u32, keys: Vec<String>) {
        self.listings.push(Listing { range, limit, keys });
    }

    /// These reads and `others` too.
    ///
    /// # Errors
    /// The address that was read by both and had changed in between.
    pub(crate) fn and(mut self, others: &Reads) -> Result<Reads, Address> {
        others.keys.iter().try_for_each(|(address, stamp)| self.remember(address, *stamp))?;
        self.listings.extend(others.listings.iter().cloned());
        Ok(self)
    }

    /// How many separate reads there were. A single one is consistent by itself.
    pub(crate) fn len(&self) -> usize {
        self.keys.len() + self.listings.len()
    }

    /// The stamps of the remembered records; `None` for those that were absent.
    pub(crate) fn keys(&self) -> &BTreeMap<Address, Option<Stamp>> {
        &self.keys
    }

    /// The remembered ranges.
    pub(crate) fn listings(&self) -> &[Listing] {
        &self.listings
    }

    /// The remembered keys, if no range was listed.
    pub(crate) fn only_keys(&self) -> Option<&BTreeMap<Address, Option<Stamp>>> {
        self.listings.is_empty().then_some(&self.keys)
    }
}

/// What a unit of work asks to have written.
#[derive(Default)]
pub(crate) struct Writes {
    /// Sealed already, by the task that asks.
    pub(crate) puts: Vec<SealedRow>,
    pub(crate) deletes: Vec<Address>,
    /// The change to the data of the mount whose revisions the unit counts. Its deletes are among
    /// the others.
    pub(crate) revised: Option<RevisedWrites>,
}

impl Writes {
    /// Whether there is nothing to write.
    pub(crate) fn is_empty(&self) -> bool {
        self.puts.is_empty() && self.deletes.is_empty() && self.revised.is_none()
    }
}

/// One unit of work, as it asks to be committed.
pub(crate) struct Work {
    pub(crate) reads: Reads,
    pub(crate) writes: Writes,
    /// The turn of its request, which goes on after a conflict; `None` where that is the end.
    pub(crate) turn: Option<Arc<TurnState>>,
}

impl Work {
    /// Bytes of bodies to be written.
    pub(crate) fn bytes(&self) -> usize {
        let sealed: usize = self.writes.puts.iter().map(|row| row.sealed.len()).sum();
        sealed + self.revised_puts().map(|(_, record)| record.body.len()).sum::<usize>()
    }

    /// Every address that it puts or deletes.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = &Address> {
        let revised = self.revised_puts().map(|(address, _)| address);
        let counter = self.writes.revised.iter().map(|revised| &revised.counter);
        let sealed = self.writes.puts.iter().map(|row| &row.address);
        sealed.chain(&self.writes.deletes).chain(revised).chain(counter)
    }

    /// When the first of the records that it puts is due, in store time.
    pub(crate) fn earliest_due(&self) -> Option<u64> {
        let sealed = self.writes.puts.iter().filter_map(|row| row.due);
        let sealed = sealed.map(|due| u64::try_from(due).unwrap_or_default());
        sealed.chain(self.revised_puts().filter_map(|(_, record)| record.index.due)).min()
    }

    /// On what it has to give way to a request whose turn it is.
    pub(crate) fn give_way(&self) -> Option<Contended> {
        self.turn.as_ref().and_then(|turn| turn.give_way(self.addresses()))
    }

    /// Tells its request on what it was refused.
    pub(crate) fn report(&self, contended: Contended) {
        if let Some(turn) = &self.turn {
            turn.report(contended);
        }
    }

    fn revised_puts(&self) -> impl Iterator<Item = &(Address, Record)> {
        self.writes.revised.iter().flat_map(|revised| &revised.puts)
    }
}

/// How the commit of one unit ended: the revision that it made, if it counts any, or why nothing of
/// it was written.
pub(crate) type Outcome = Result<Option<u64>, StoreFault>;

//! One unit of work as it asks to be committed: what it read, and what it writes.
//!
//! The attack this file stops: a request of which the commit is so large that all others wait for
//! it. One task commits for all, so what it checks and writes for one of them is bounded.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::cipher;
use crate::counted::{self, StoredLimit};
use crate::fault::StoreFault;
use crate::range::KeyRange;
use crate::record::{Address, Record, Stamp};
use crate::revision::RevisedWrites;
use crate::rows::SealedRow;
use crate::turns::{Contended, TurnState};

/// Most records and listed keys, since its last checkpoint, on which a unit that writes may have
/// relied: each is read again while other commits wait, some two microseconds.
const MOST_CHECKED: usize = 24_576;
/// Most records that a unit puts and deletes in one commit, some ten microseconds each.
const MOST_WRITTEN: usize = 2_048;
/// Most bytes of bodies in one commit, some five milliseconds a MiB.
const MOST_WRITTEN_BYTES: usize = 3 << 20;

/// Refuses what all other commits would have to wait for: a unit that relies on so many records and
/// listed keys, and writes so many records and bytes.
///
/// # Errors
/// [`StoreFault::TooLarge`].
pub(crate) fn check_size(checked: usize, written: usize, bytes: usize) -> Result<(), StoreFault> {
    if bytes > MOST_WRITTEN_BYTES {
        return Err(StoreFault::TooLarge(format!(
            "the request wrote {bytes} bytes at once; a commit has at most {MOST_WRITTEN_BYTES}: \
             split the request, or checkpoint in between"
        )));
    }
    if written > MOST_WRITTEN {
        return Err(StoreFault::TooLarge(format!(
            "the request wrote {written} records at once; a commit has at most {MOST_WRITTEN}: \
             split the request, or checkpoint in between"
        )));
    }
    if written > 0 && checked > MOST_CHECKED {
        return Err(StoreFault::TooLarge(format!(
            "the request read {checked} keys and then wrote; a commit relies on at most \
             {MOST_CHECKED}: list less, or checkpoint before writing"
        )));
    }
    Ok(())
}

/// What a unit of work read since its last checkpoint.
#[derive(Clone, Default)]
pub(crate) struct Reads {
    keys: BTreeMap<Address, Option<Stamp>>,
    listings: HashMap<KeyRange, Listing>,
    /// The numbers of folders.
    folders: BTreeMap<String, u64>,
}

/// What a listed range held: reading it again must give the same keys.
#[derive(Clone)]
pub(crate) struct Listing {
    /// As many keys were asked for.
    pub(crate) limit: u32,
    pub(crate) keys: Vec<String>,
}

impl Listing {
    /// The first `limit` of its keys.
    fn first(&self, limit: u32) -> &[String] {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        self.keys.get(..limit).unwrap_or(&self.keys)
    }
}

impl Reads {
    /// Remembers that the record had this stamp, or was absent.
    ///
    /// # Errors
    /// The record, when it was read before and has changed since: such a unit can never commit.
    pub(crate) fn remember(
        &mut self,
        address: &Address,
        stamp: Option<Stamp>,
    ) -> Result<(), Contended> {
        let before = self.keys.insert(address.clone(), stamp);
        if before.is_some_and(|before| before != stamp) {
            return Err(Contended::Record(address.clone()));
        }
        Ok(())
    }

    /// Remembers that the first `limit` keys of `range` were these: once, however often it is
    /// listed.
    ///
    /// # Errors
    /// The range, when it was listed before and has changed since.
    pub(crate) fn remember_range(
        &mut self,
        range: KeyRange,
        limit: u32,
        keys: Vec<String>,
    ) -> Result<(), Contended> {
        let listing = Listing { limit, keys };
        match self.listings.entry(range) {
            Entry::Vacant(new) => {
                new.insert(listing);
            }
            Entry::Occupied(mut known) => {
                let both = known.get().limit.min(limit);
                if known.get().first(both) != listing.first(both) {
                    return Err(Contended::Listing(known.key().clone()));
                }
                if known.get().limit < limit {
                    known.insert(listing);
                }
            }
        }
        Ok(())
    }

    /// Remembers that the folder `name` had this number.
    ///
    /// # Errors
    /// The folder, when it was asked for before and has changed since.
    pub(crate) fn remember_folder(&mut self, name: &str, number: u64) -> Result<(), Contended> {
        let before = self.folders.insert(name.to_owned(), number);
        if before.is_some_and(|before| before != number) {
            return Err(Contended::of_folder(name));
        }
        Ok(())
    }

    /// How many folders were asked for.
    pub(crate) fn folders(&self) -> usize {
        self.folders.len()
    }

    /// The first folder that no longer has its number.
    pub(crate) fn changed_folder(&self, has: impl Fn(&str, u64) -> bool) -> Option<Contended> {
        let changed = self.folders.iter().find(|(name, number)| !has(name, **number));
        changed.map(|(name, _)| Contended::of_folder(name))
    }

    /// These reads and `others` too.
    ///
    /// # Errors
    /// What was read by both and had changed in between.
    pub(crate) fn and(mut self, others: &Reads) -> Result<Reads, Contended> {
        others.keys.iter().try_for_each(|(address, stamp)| self.remember(address, *stamp))?;
        let mut folders = others.folders.iter();
        folders.try_for_each(|(name, number)| self.remember_folder(name, *number))?;
        for (range, listing) in others.listings.clone() {
            self.remember_range(range, listing.limit, listing.keys)?;
        }
        Ok(self)
    }

    /// How much is read again to check it: records, ranges and the keys in them.
    pub(crate) fn checked(&self) -> usize {
        let listed = self.listings.values().map(|listing| 1 + listing.keys.len());
        self.keys.len() + listed.sum::<usize>() + self.folders.len()
    }

    /// Whether they have to be checked also where nothing is written. A single record or range is
    /// consistent by itself; a folder's number stands for what was made from it.
    pub(crate) fn must_hold(&self) -> bool {
        self.keys.len() + self.listings.len() > 1 || !self.folders.is_empty()
    }

    /// The stamps of the remembered records; `None` for those that were absent.
    pub(crate) fn keys(&self) -> &BTreeMap<Address, Option<Stamp>> {
        &self.keys
    }

    /// The remembered ranges.
    pub(crate) fn listings(&self) -> impl Iterator<Item = (&KeyRange, &Listing)> {
        self.listings.iter()
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
    /// Of the records that are put, those that the unit had read before: they are in use.
    pub(crate) in_use: Vec<(Address, Stamp, Record)>,
    /// The change to the data of the mount whose revisions the unit counts. Its deletes are among
    /// the others.
    pub(crate) revised: Option<RevisedWrites>,
}

impl Writes {
    /// Whether there is nothing to write.
    pub(crate) fn is_empty(&self) -> bool {
        self.puts.is_empty() && self.deletes.is_empty() && self.revised.is_none()
    }

    /// How many records are put and deleted.
    fn rows(&self) -> usize {
        let revised = self.revised.as_ref().map_or(0, |revised| 1 + revised.puts.len());
        self.puts.len() + self.deletes.len() + revised
    }
}

/// One unit of work, as it asks to be committed.
pub(crate) struct Work {
    pub(crate) reads: Reads,
    pub(crate) writes: Writes,
    /// The most that its mount may store; `None` where nothing bounds that.
    pub(crate) limit: Option<Arc<StoredLimit>>,
    /// The turn of its request, which goes on after a conflict; `None` where that is the end.
    pub(crate) turn: Option<Arc<TurnState>>,
}

impl Work {
    /// What the committer does for it, in rows.
    pub(crate) fn rows(&self) -> usize {
        self.reads.checked() + self.writes.rows()
    }

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

    /// Returns the written records that count for a mount, each with its bytes after the write.
    pub(crate) fn sizes(&self) -> impl Iterator<Item = (&Address, u64)> {
        let sealed = self.writes.puts.iter().map(|row| {
            let size = counted::size(&row.address, &row.lane, &row.owner, row.sealed.len());
            (&row.address, size)
        });
        let revised = self.revised_puts().map(|(address, record)| {
            let (index, sealed) = (&record.index, record.body.len() + cipher::SEALED_MORE);
            (address, counted::size(address, &index.lane, &index.owner, sealed))
        });
        let deleted = self.writes.deletes.iter().map(|address| (address, 0));
        let all = sealed.chain(revised).chain(deleted);
        all.filter(|(address, _)| counted::mount_of(address).is_some())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Space;

    fn range() -> KeyRange {
        KeyRange::new(Space::Data, "m/", "")
    }

    fn keys(numbers: std::ops::Range<u32>) -> Vec<String> {
        numbers.map(|number| format!("m/{number:04}")).collect()
    }

    #[test]
    fn a_range_that_is_listed_again_and_again_is_remembered_once() {
        let mut reads = Reads::default();
        for _ in 0..25_000 {
            reads.remember_range(range(), 9, keys(0..9)).unwrap();
        }
        assert_eq!((reads.listings.len(), reads.checked()), (1, 10));
        reads.remember_range(range(), 4, keys(0..4)).unwrap();
        assert_eq!(
            (reads.listings.len(), reads.checked()),
            (1, 10),
            "a shorter page is a part of it"
        );
        reads.remember_range(range(), 20, keys(0..20)).unwrap();
        assert_eq!(
            (reads.listings.len(), reads.checked()),
            (1, 21),
            "a longer one takes its place"
        );
        let twice = reads.clone().and(&reads).unwrap();
        assert_eq!((twice.listings.len(), twice.checked()), (1, 21));
    }

    #[test]
    fn a_range_that_changed_between_two_listings_is_a_conflict() {
        for (limit, changed) in [(9, keys(1..10)), (20, keys(1..10)), (4, keys(1..5)), (9, vec![])]
        {
            let mut reads = Reads::default();
            reads.remember_range(range(), 9, keys(0..9)).unwrap();
            let outcome = reads.remember_range(range(), limit, changed);
            assert_eq!(outcome, Err(Contended::Listing(range())), "limit {limit}");
        }
    }
}

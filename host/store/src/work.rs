//! A unit of work as submitted to the committer: reads and writes.
//!
//! This file prevents a request from blocking all other requests by a large commit. A single task
//! commits for all requests, so the checks and writes of each commit are bounded.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::revision::RevisedWrites;
use crate::write_queue::{ContendedKey, TicketState};
use bulkhead_record::cipher;
use bulkhead_record::fault::StoreFault;
use bulkhead_record::range::KeyRange;
use bulkhead_record::record::{Address, Record, Space, Stamp};
use bulkhead_record::rows::SealedRow;
use bulkhead_record::stored_limit::{self, StoredLimit};
use bulkhead_wire::call_limits::{COMMIT_BYTES, COMMIT_READS, COMMIT_RECORDS};

/// Refuses a unit that reads too many records and listed keys, or writes too many records or bytes,
/// for other commits to wait for.
///
/// # Errors
/// [`StoreFault::TooLarge`].
pub(crate) fn check_size(checked: usize, written: usize, bytes: usize) -> Result<(), StoreFault> {
    if bytes > COMMIT_BYTES {
        return Err(StoreFault::TooLarge(format!(
            "the request wrote {bytes} bytes at once; a commit has at most {COMMIT_BYTES}: \
             split the request, or checkpoint in between"
        )));
    }
    if written > COMMIT_RECORDS {
        return Err(StoreFault::TooLarge(format!(
            "the request wrote {written} records at once; a commit has at most \
             {COMMIT_RECORDS}: split the request, or checkpoint in between"
        )));
    }
    if written > 0 && checked > COMMIT_READS {
        return Err(StoreFault::TooLarge(format!(
            "the request read {checked} keys and then wrote; a commit relies on at most \
             {COMMIT_READS}: list less, or checkpoint before writing"
        )));
    }
    Ok(())
}

/// The reads of a unit of work since the last checkpoint.
#[derive(Clone, Default)]
pub(crate) struct ReadSet {
    keys: BTreeMap<Address, Option<Stamp>>,
    /// Records that must be present, with any content.
    present: BTreeSet<Address>,
    listings: HashMap<KeyRange, ListedKeys>,
    /// The numbers of folders, by name.
    folders: BTreeMap<String, u64>,
}

/// The keys of a listed range. The commit checks that the range still gives the same keys.
#[derive(Clone)]
pub(crate) struct ListedKeys {
    /// The requested number of keys.
    pub(crate) limit: u32,
    pub(crate) keys: Vec<String>,
}

impl ListedKeys {
    /// Returns the first `limit` listed keys.
    fn first(&self, limit: u32) -> &[String] {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        self.keys.get(..limit).unwrap_or(&self.keys)
    }
}

impl ReadSet {
    /// Remembers that the record had this stamp, or was absent.
    ///
    /// # Errors
    /// The record, if read before and changed since: the unit can then never commit.
    pub(crate) fn remember(
        &mut self,
        address: &Address,
        stamp: Option<Stamp>,
    ) -> Result<(), ContendedKey> {
        // The stamp says more than the presence.
        let is_gone = self.present.remove(address) && stamp.is_none();
        let before = self.keys.insert(address.clone(), stamp);
        if is_gone || before.is_some_and(|before| before != stamp) {
            return Err(ContendedKey::Record(address.clone()));
        }
        Ok(())
    }

    /// Remembers that the record was present, with any content, or was absent.
    ///
    /// # Errors
    /// The record, if read before and created or deleted since.
    pub(crate) fn remember_presence(
        &mut self,
        address: &Address,
        is_present: bool,
    ) -> Result<(), ContendedKey> {
        match self.keys.get(address) {
            None if is_present => drop(self.present.insert(address.clone())),
            Some(Some(_)) if is_present => {}
            _ if is_present => return Err(ContendedKey::Record(address.clone())),
            _ => self.remember(address, None)?,
        }
        Ok(())
    }

    /// Remembers the first `limit` keys of `range`. A range that is listed repeatedly is remembered
    /// once.
    ///
    /// # Errors
    /// The range, if listed before and changed since.
    pub(crate) fn remember_range(
        &mut self,
        range: KeyRange,
        limit: u32,
        keys: Vec<String>,
    ) -> Result<(), ContendedKey> {
        let listing = ListedKeys { limit, keys };
        match self.listings.entry(range) {
            Entry::Vacant(new) => {
                new.insert(listing);
            }
            Entry::Occupied(mut entry) => {
                let both = entry.get().limit.min(limit);
                if entry.get().first(both) != listing.first(both) {
                    return Err(ContendedKey::Listing(entry.key().clone()));
                }
                if entry.get().limit < limit {
                    entry.insert(listing);
                }
            }
        }
        Ok(())
    }

    /// Remembers that the folder `name` had this number.
    ///
    /// # Errors
    /// The folder, if read before and changed since.
    pub(crate) fn remember_folder(&mut self, name: &str, number: u64) -> Result<(), ContendedKey> {
        let before = self.folders.insert(name.to_owned(), number);
        if before.is_some_and(|before| before != number) {
            return Err(ContendedKey::folder_contents(name));
        }
        Ok(())
    }

    /// Returns the number of remembered folders.
    pub(crate) fn folders(&self) -> usize {
        self.folders.len()
    }

    /// Returns whether the unit relies on a folder.
    pub(crate) fn has_folders(&self) -> bool {
        !self.folders.is_empty()
    }

    /// Returns the first folder whose number has changed.
    pub(crate) fn changed_folder(&self, has: impl Fn(&str, u64) -> bool) -> Option<ContendedKey> {
        let changed = self.folders.iter().find(|(name, number)| !has(name, **number));
        changed.map(|(name, _)| ContendedKey::folder_contents(name))
    }

    /// Merges these reads with `others`.
    ///
    /// # Errors
    /// A record, range or folder that changed between the two reads.
    pub(crate) fn and(mut self, others: &ReadSet) -> Result<ReadSet, ContendedKey> {
        others.keys.iter().try_for_each(|(address, stamp)| self.remember(address, *stamp))?;
        others.present.iter().try_for_each(|address| self.remember_presence(address, true))?;
        let mut folders = others.folders.iter();
        folders.try_for_each(|(name, number)| self.remember_folder(name, *number))?;
        for (range, listing) in others.listings.clone() {
            self.remember_range(range, listing.limit, listing.keys)?;
        }
        Ok(self)
    }

    /// Returns the number of items that the commit checks: records, ranges, listed keys and
    /// folders.
    pub(crate) fn checked(&self) -> usize {
        let listed = self.listings.values().map(|listing| 1 + listing.keys.len());
        self.keys.len() + self.present.len() + listed.sum::<usize>() + self.folders.len()
    }

    /// Returns `true` if the reads have to be checked even when nothing is written. A single record
    /// or range is consistent by itself; a folder's number stands for a value computed from the
    /// folder.
    pub(crate) fn must_hold(&self) -> bool {
        self.keys.len() + self.present.len() + self.listings.len() > 1 || !self.folders.is_empty()
    }

    /// Returns whether the unit read the record or its presence.
    pub(crate) fn has(&self, address: &Address) -> bool {
        self.keys.contains_key(address) || self.present.contains(address)
    }

    /// Returns the records that must be present, with any content.
    pub(crate) fn present(&self) -> &BTreeSet<Address> {
        &self.present
    }

    /// Returns the stamps of the remembered records; `None` for absent records.
    pub(crate) fn keys(&self) -> &BTreeMap<Address, Option<Stamp>> {
        &self.keys
    }

    /// Returns the remembered ranges.
    pub(crate) fn listings(&self) -> impl Iterator<Item = (&KeyRange, &ListedKeys)> {
        self.listings.iter()
    }

    /// Returns the remembered records if no range was listed, and no presence was read.
    pub(crate) fn only_keys(&self) -> Option<&BTreeMap<Address, Option<Stamp>>> {
        (self.listings.is_empty() && self.present.is_empty()).then_some(&self.keys)
    }
}

/// The writes that a unit of work submits.
#[derive(Default)]
pub(crate) struct WriteSet {
    /// Rows sealed by the submitting task.
    pub(crate) puts: Vec<SealedRow>,
    pub(crate) deletes: Vec<Address>,
    /// Records among `puts` that the unit had read before, or whose presence the unit had read. The
    /// cache keeps such records because they are in use.
    pub(crate) in_use: Vec<(Address, Stamp, Record)>,
    /// The change to the data of the mount whose revisions the unit counts. The deletes are in
    /// `deletes`.
    pub(crate) revised: Option<RevisedWrites>,
}

impl WriteSet {
    /// Returns `true` if there is nothing to write.
    pub(crate) fn is_empty(&self) -> bool {
        self.puts.is_empty() && self.deletes.is_empty() && self.revised.is_none()
    }

    /// Returns the number of records put and deleted.
    fn rows(&self) -> usize {
        let revised = self.revised.as_ref().map_or(0, |revised| 1 + revised.puts.len());
        self.puts.len() + self.deletes.len() + revised
    }
}

/// A unit of work, as submitted to the committer.
pub(crate) struct CommitRequest {
    pub(crate) reads: ReadSet,
    pub(crate) writes: WriteSet,
    /// The limits of stored bytes that the unit must keep.
    pub(crate) limits: Vec<Arc<StoredLimit>>,
    /// The turn of a request that retries after a conflict; `None` if the request does not retry.
    pub(crate) turn: Option<Arc<TicketState>>,
}

impl CommitRequest {
    /// Returns the number of rows that the committer checks and writes for the unit.
    pub(crate) fn rows(&self) -> usize {
        self.reads.checked() + self.writes.rows()
    }

    /// Returns the bytes of bodies to be written.
    pub(crate) fn bytes(&self) -> usize {
        let sealed: usize = self.writes.puts.iter().map(|row| row.sealed.len()).sum();
        sealed + self.revised_puts().map(|(_, record)| record.body.len()).sum::<usize>()
    }

    /// Returns every address that the unit puts or deletes.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = &Address> {
        let revised = self.revised_puts().map(|(address, _)| address);
        let counter = self.writes.revised.iter().map(|revised| &revised.counter);
        let sealed = self.writes.puts.iter().map(|row| &row.address);
        sealed.chain(&self.writes.deletes).chain(revised).chain(counter)
    }

    /// Returns whether the answer must wait until other nodes of a shared database have read the
    /// writes: changes of the host's own records, and of tokens that existed before.
    pub(crate) fn needs_other_nodes(&self) -> bool {
        let is_changed = |address: &Address| match address.space {
            Space::Core => true,
            Space::Token => self.reads.keys().get(address).is_none_or(Option::is_some),
            _ => false,
        };
        self.addresses().any(is_changed)
    }

    /// Returns the written records that count for a mount or a caller, each with its bytes after
    /// the write.
    pub(crate) fn sizes(&self) -> impl Iterator<Item = (&Address, u64)> {
        let sealed = self.writes.puts.iter().map(|row| {
            let size = stored_limit::size(&row.address, &row.lane, &row.owner, row.sealed.len());
            (&row.address, size)
        });
        let revised = self.revised_puts().map(|(address, record)| {
            let (index, sealed) = (&record.index, record.body.len() + cipher::SEAL_OVERHEAD_BYTES);
            (address, stored_limit::size(address, &index.lane, &index.owner, sealed))
        });
        let deleted = self.writes.deletes.iter().map(|address| (address, 0));
        let all = sealed.chain(revised).chain(deleted);
        all.filter(|(address, _)| stored_limit::counters_of(address).next().is_some())
    }

    /// Returns the earliest due time of the records put, as store time.
    pub(crate) fn earliest_due(&self) -> Option<u64> {
        let sealed = self.writes.puts.iter().filter_map(|row| row.due);
        let sealed = sealed.map(|due| u64::try_from(due).unwrap_or_default());
        sealed.chain(self.revised_puts().filter_map(|(_, record)| record.index.due)).min()
    }

    /// Returns the conflict if the unit writes where another request has its turn.
    pub(crate) fn give_way(&self) -> Option<ContendedKey> {
        self.turn.as_ref().and_then(|turn| turn.yield_to_others(self.addresses()))
    }

    /// Reports the conflict to the unit's request.
    pub(crate) fn report(&self, contended: ContendedKey) {
        if let Some(turn) = &self.turn {
            turn.report(contended);
        }
    }

    fn revised_puts(&self) -> impl Iterator<Item = &(Address, Record)> {
        self.writes.revised.iter().flat_map(|revised| &revised.puts)
    }
}

/// The result of a unit's commit: the new revision, if the unit counts revisions, or the fault.
/// With a fault, nothing of the unit was written, unless the fault calls the outcome unknown.
pub(crate) type CommitOutcome = Result<Option<u64>, StoreFault>;

#[cfg(test)]
mod tests;

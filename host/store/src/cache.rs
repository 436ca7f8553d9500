//! Recently read records, decrypted, so that a token or role needed by every request is not fetched
//! and decrypted every time.
//!
//! This file prevents a stale record from staying after a commit. Before a commit is acknowledged,
//! every record written by the commit is evicted, and a read that began before a commit leaves
//! nothing behind. A record that a unit of work put after a read of the record or its presence is
//! cached as put, because a state machine reads back the last write. A record that another process
//! of a shared database changed is evicted by the next read of changes (`crate::change_watch`). If
//! a unit of work used a stale record meanwhile, the stamp makes the commit fail.
//!
//! The cache holds a single state: that of the last commit whose records were evicted. Between a
//! commit and the eviction, a reader may find the newer state in the database. Addresses that the
//! commit writes are therefore not cached until their old records are evicted, so that the cache
//! never mixes two states.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::mem;
use std::sync::{Mutex, MutexGuard};

use bulkhead_wire::sync;

use crate::change_watch::ReadNumber;
use crate::foreign_changes::is_followed;
use crate::work::CommitRequest;
use bulkhead_record::record::{Address, Record, Space, Stamp};

/// Maximum bytes of cached records, including table overhead. Beyond this size the cache is
/// emptied.
const MOST_BYTES: usize = 64 << 20;
/// Bytes of an entry besides the key and the body.
const ENTRY_BYTES: usize = 256;

/// A record and the stamp of the row; `None` if there is no record.
pub(crate) type StampedRecord = Option<(Stamp, Record)>;

/// A record in memory.
struct CachedRecord {
    found: StampedRecord,
    /// Any later read of changes settles the record.
    read: ReadNumber,
}

#[derive(Default)]
struct CacheContents {
    records: HashMap<Address, CachedRecord>,
    bytes: usize,
    commits: u64,
    /// Addresses that the current commit writes. Commits do not overlap.
    being_written: HashSet<Address>,
    /// Addresses among them that another process changed since: the later change may be newer than
    /// the current commit.
    outdated: HashSet<Address>,
    /// `true` while an earlier commit may still be stored.
    is_in_doubt: bool,
}

impl CacheContents {
    /// Caches a record. Returns all other records if they had to be evicted for lack of room.
    fn insert(
        &mut self,
        address: &Address,
        cached: CachedRecord,
    ) -> Option<HashMap<Address, CachedRecord>> {
        self.remove(address);
        let bytes = size(address, &cached.found);
        let outgrown = (self.bytes + bytes > MOST_BYTES).then(|| {
            self.bytes = 0;
            mem::take(&mut self.records)
        });
        self.bytes += bytes;
        self.records.insert(address.clone(), cached);
        outgrown
    }

    fn remove(&mut self, address: &Address) {
        if let Some(cached) = self.records.remove(address) {
            self.bytes = self.bytes.saturating_sub(size(address, &cached.found));
        }
    }
}

/// A cache of the committed state.
#[derive(Default)]
pub(crate) struct RecordCache {
    kept: Mutex<CacheContents>,
}

impl RecordCache {
    /// Returns the cached record of `address`. If there is none, returns the number of commits so
    /// far, which the caller passes to [`RecordCache::keep`] together with the record read.
    pub(crate) fn find(&self, address: &Address) -> Result<StampedRecord, u64> {
        let contents = self.lock();
        let cached = contents.records.get(address);
        cached.map(|cached| cached.found.clone()).ok_or(contents.commits)
    }

    /// Returns `true` if all these records, or their absence, are cached with these stamps, and
    /// were settled by the read of changes `ended` or before. They then belong to a single state.
    /// Other nodes may have read a record of the current commit already.
    pub(crate) fn holds(
        &self,
        stamps: &BTreeMap<Address, Option<Stamp>>,
        ended: ReadNumber,
    ) -> bool {
        let contents = self.lock();
        let is_visible_elsewhere =
            |address: &Address| ended.is_shared() && contents.being_written.contains(address);
        stamps.iter().all(|(address, stamp)| {
            if is_visible_elsewhere(address) {
                return false;
            }
            let cached = contents.records.get(address).filter(|cached| cached.read < ended);
            cached.is_some_and(|cached| cached.found.as_ref().map(|(stamp, _)| *stamp) == *stamp)
        })
    }

    /// Caches a record that was read, unless there was a commit since `commits` were counted, or
    /// this record is being written. `read` is the last read of changes that began.
    pub(crate) fn keep(
        &self,
        (commits, read): (u64, ReadNumber),
        address: &Address,
        found: &StampedRecord,
    ) {
        let mut contents = self.lock();
        if !is_worth_caching(address, found)
            || contents.commits != commits
            || contents.being_written.contains(address)
            || contents.is_in_doubt
        {
            return;
        }
        let outgrown = contents.insert(address, CachedRecord { found: found.clone(), read });
        drop(contents);
        // Wiping many records takes time; no reader has to wait meanwhile.
        drop(outgrown);
    }

    /// Evicts records that another process changed. Reads in progress leave nothing behind.
    pub(crate) fn evict<'a>(&self, changed: impl Iterator<Item = &'a Address>) {
        let mut contents = self.lock();
        contents.commits += 1;
        for address in changed {
            contents.remove(address);
            if contents.being_written.contains(address) {
                contents.outdated.insert(address.clone());
            }
        }
    }

    /// Evicts everything, when the store is closed, or any record may have changed.
    pub(crate) fn clear(&self) {
        let mut contents = self.lock();
        contents.bytes = 0;
        let CacheContents { being_written, outdated, .. } = &mut *contents;
        outdated.extend(being_written.iter().cloned());
        // Reads in progress leave nothing behind either.
        contents.commits += 1;
        drop(mem::take(&mut contents.records));
    }

    /// Records that a commit is undecided (decision T61): the database may store the commit at any
    /// later time, and a record that was read before would be cached for ever. Nothing is cached
    /// until [`RecordCache::end_doubt`].
    pub(crate) fn begin_doubt(&self) {
        self.lock().is_in_doubt = true;
    }

    /// Returns `true` while a commit is undecided.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.lock().is_in_doubt
    }

    /// Records that every commit is decided. Reads that began before leave nothing behind.
    pub(crate) fn end_doubt(&self) {
        let mut contents = self.lock();
        contents.is_in_doubt = false;
        contents.commits += 1;
    }

    /// Starts a write, before the commit. Records cached for these addresses stay, and no newer
    /// record is cached until the write ends.
    pub(crate) fn begin_writing<'a>(&self, written: impl Iterator<Item = &'a Address>) {
        let hot = written.filter(|address| is_followed(address.space)).cloned();
        self.lock().being_written.extend(hot);
    }

    /// Ends a write, even if the commit failed or its outcome is unknown. Evicts everything that
    /// the commit may have written, and caches the records in use of the units that were `stored`,
    /// in order; `read` is the last read of changes that began.
    pub(crate) fn end_writing<'a>(
        &self,
        stored: impl Iterator<Item = &'a CommitRequest>,
        read: ReadNumber,
    ) {
        let mut outgrown = Vec::new();
        let mut contents = self.lock();
        contents.commits += 1;
        for address in mem::take(&mut contents.being_written) {
            contents.remove(&address);
        }
        let outdated = mem::take(&mut contents.outdated);
        for work in stored {
            // Another unit of the same commit may have put the record before.
            work.addresses().for_each(|address| contents.remove(address));
            for (address, stamp, record) in &work.writes.in_use {
                let found = Some((*stamp, record.clone()));
                if is_worth_caching(address, &found) && !outdated.contains(address) {
                    outgrown.extend(contents.insert(address, CachedRecord { found, read }));
                }
            }
        }
        drop(contents);
        drop(outgrown);
    }

    /// Returns the number of cached records and absences, and their bytes.
    pub(crate) fn size(&self) -> (u64, u64) {
        let contents = self.lock();
        (contents.records.len() as u64, contents.bytes as u64)
    }

    /// Returns `true` if the current commit writes data whose keys begin with `folder`.
    pub(crate) fn writes_below(&self, folder: &str) -> bool {
        let below = |address: &&Address| address.space == Space::Data;
        self.lock().being_written.iter().filter(below).any(|one| one.key.starts_with(folder))
    }

    /// Returns `true` if the current commit writes `address`.
    #[cfg(test)]
    pub(crate) fn is_being_written(&self, address: &Address) -> bool {
        self.lock().being_written.contains(address)
    }

    fn lock(&self) -> MutexGuard<'_, CacheContents> {
        sync::lock(&self.kept)
    }
}

/// Returns `false` for absent tokens: a caller without a token can invent any number of names.
fn is_worth_caching(address: &Address, found: &StampedRecord) -> bool {
    is_followed(address.space) && (found.is_some() || address.space != Space::Token)
}

fn size(address: &Address, found: &StampedRecord) -> usize {
    ENTRY_BYTES + address.key.len() + found.as_ref().map_or(0, |(_, record)| record.body.len())
}

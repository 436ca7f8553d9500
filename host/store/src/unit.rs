//! The unit of work: everything one request reads and writes, committed at once.
//!
//! It holds no connection, no transaction and no lock between calls, so a request may wait for a
//! network as long as it likes without keeping other requests from committing. What it costs is
//! that a commit can be refused ([`StoreFault::Conflict`]); the request is then run again from its
//! first read.

mod begin;
mod finish;
mod folder;
mod records;
#[cfg(test)]
mod tests;

pub use finish::Finish;

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::Arc;

use crate::body::Body;
use crate::counted::StoredLimit;
use crate::fault::StoreFault;
use crate::range::KeyRange;
use crate::record::{Address, Index, Record, Space};
use crate::revision::{self, RevisedWrites};
use crate::rows::SealedRow;
use crate::seal::Hashes;
use crate::store::Store;
use crate::turns::{Contended, TurnState};
use crate::work::{self, Outcome, Reads, Work, Writes};

/// Keys that are read at once for their names.
const PAGE: u32 = 1_000;

/// What one part of a unit read and wrote since the last checkpoint.
#[derive(Default)]
struct Part {
    reads: Reads,
    /// What is buffered: a record to put, or `None` to delete.
    buffer: BTreeMap<Address, Option<Record>>,
}

/// A unit of work. Dropped without a commit, it leaves no trace but its checkpoints.
pub struct Unit {
    store: Arc<Store>,
    work: Part,
    /// What [`Unit::finish`] adds; `None` before it.
    host: Option<Part>,
    /// The mount whose revisions the unit counts.
    mount: Option<String>,
    wrote: bool,
    checkpoints: u32,
    is_whole: bool,
    /// Why this unit can no longer commit. A caller who goes on after a conflict must not store
    /// what was computed from two different states.
    spoiled: Option<StoreFault>,
    limit: Option<Arc<StoredLimit>>,
    /// The turn of the request, as long as that can begin anew.
    turn: Option<Arc<TurnState>>,
}

impl Unit {
    /// Gives way no more: something outside was changed, and the request cannot begin anew.
    pub fn insist(&mut self) {
        self.turn = None;
    }

    /// The record at `address`: what this unit wrote, or else the newest committed one, which is
    /// remembered together with its absence.
    ///
    /// # Errors
    /// [`StoreFault::Conflict`] when this unit read it before and it has changed;
    /// [`StoreFault::Damaged`] when it does not open; [`StoreFault::Unavailable`] when it cannot be
    /// read.
    pub async fn get(&mut self, address: &Address) -> Result<Option<Record>, StoreFault> {
        if let Some(own) = self.own_write(address) {
            return Ok(own.clone());
        }
        self.check_usable()?;
        let found = self.store.read(address).await?;
        let stamp = found.as_ref().map(|(stamp, _)| *stamp);
        let remembered = self.current_part().reads.remember(address, stamp);
        self.spoil_on_change(remembered)?;
        Ok(found.map(|(_, record)| record))
    }

    /// The full keys of `space` that begin with `prefix` and are greater than `after` (a full key;
    /// empty: from the first), in the order of their bytes, at most `limit`. This unit's own writes
    /// are taken into account; what the committed state held is remembered as a range, so a key
    /// that appears in it or vanishes from it is a conflict.
    ///
    /// # Errors
    /// [`StoreFault::Conflict`] when this unit listed the same before and it has changed;
    /// [`StoreFault::Unavailable`] when the database cannot be read, or an earlier checkpoint
    /// failed.
    pub async fn keys(
        &mut self,
        space: Space,
        prefix: &str,
        after: &str,
        limit: u32,
    ) -> Result<Vec<String>, StoreFault> {
        self.check_usable()?;
        if limit == 0 {
            return Ok(Vec::new());
        }
        let range = KeyRange::new(space, prefix, after);
        // As many more as this unit deletes, so that the page is full without a second read.
        let deleted = self.own_writes_in(&range).filter(|(_, record)| record.is_none()).count();
        let fetch = limit.saturating_add(u32::try_from(deleted).unwrap_or(u32::MAX));
        let committed = self.store.list(&range, fetch).await?;
        let page = self.merge_own(&range, &committed, limit);
        let remembered = self.current_part().reads.remember_range(range, fetch, committed);
        self.spoil_on_change(remembered)?;
        Ok(page)
    }

    /// What follows `prefix` in the keys of `space` that begin with it, behind `after` (a name,
    /// too; empty: from the first) and at most `limit`, however many that is. Read and remembered
    /// as [`Unit::keys`] does, page by page.
    ///
    /// # Errors
    /// As [`Unit::keys`].
    pub async fn names(
        &mut self,
        space: Space,
        prefix: &str,
        after: &str,
        limit: usize,
    ) -> Result<Vec<String>, StoreFault> {
        let mut after = if after.is_empty() { String::new() } else { format!("{prefix}{after}") };
        let mut names = Vec::new();
        while names.len() < limit {
            let wanted = u32::try_from(limit - names.len()).unwrap_or(PAGE).min(PAGE);
            let keys = self.keys(space, prefix, &after, wanted).await?;
            let Some(last) = keys.last() else { break };
            after.clone_from(last);
            names.extend(keys.iter().filter_map(|key| key.strip_prefix(prefix)).map(str::to_owned));
        }
        Ok(names)
    }

    /// Buffers the record until the next checkpoint or the commit. An unread record is overwritten.
    pub fn put(&mut self, address: Address, body: Vec<u8>, index: Index) {
        self.wrote = true;
        let record = Record::unwritten(Body::new(body), index);
        self.current_part().buffer.insert(address, Some(record));
    }

    /// Buffers the removal of the record; that there is none is no error.
    pub fn delete(&mut self, address: Address) {
        self.wrote = true;
        self.current_part().buffer.insert(address, None);
    }

    /// Buffers the removal of the count of revisions of `mount`, whose data is gone.
    pub fn delete_revision(&mut self, mount: &str) {
        self.delete(revision::counter(mount));
    }

    /// Commits what is buffered, if what was read still holds, and begins a new segment: earlier
    /// reads are forgotten. With nothing buffered, the reads are checked as [`Unit::commit`] does.
    /// Gives the revision as [`Unit::commit`] does.
    ///
    /// # Errors
    /// As [`Unit::commit`], and [`StoreFault::TooLarge`] in a unit that is whole. The unit is then
    /// spoiled: all that it can do is fail in the same way.
    pub async fn checkpoint(&mut self) -> Result<Option<u64>, StoreFault> {
        self.check_parts()?;
        let revision = self.end_segment().await?;
        if !self.work.buffer.is_empty() {
            self.checkpoints += 1;
        }
        self.work = Part::default();
        Ok(revision)
    }

    /// Ends the unit. What it read is checked and what it buffered is stored, in one transaction
    /// and with one flush. A unit that wrote nothing is checked too when it read more than once;
    /// otherwise no transaction is needed. Gives the revision of the mount that the commit made, if
    /// the mount has revisions and its data changed.
    ///
    /// # Errors
    /// [`StoreFault::Conflict`] when something it read has changed: nothing of this segment was
    /// stored. [`StoreFault::TooLarge`] when the segment relies on too much, or writes too much, to
    /// be committed at once, and [`StoreFault::OverLimit`] when the mount would store more than it
    /// may; nothing was stored either. [`StoreFault::Unavailable`] when the storage failed: nothing
    /// was acknowledged. The fault of an earlier get or checkpoint that has spoiled the unit.
    pub async fn commit(mut self) -> Result<Option<u64>, StoreFault> {
        self.end_segment().await
    }

    /// Begins the end of the unit, in which the host adds its own part: see [`Finish`].
    pub fn finish(mut self) -> Finish {
        self.host = Some(Part::default());
        Finish { unit: self, attempts: 0 }
    }

    /// Whether this unit put or deleted anything since it began, checkpointed or not.
    pub fn wrote(&self) -> bool {
        self.wrote
    }

    /// How many checkpoints of this unit stored something: what they stored stays, also when the
    /// unit fails.
    pub fn checkpoints(&self) -> u32 {
        self.checkpoints
    }

    /// The means by which records are named that must not be readable in the database file.
    pub fn hashes(&self) -> &Hashes {
        self.store.hashes()
    }

    fn check_usable(&self) -> Result<(), StoreFault> {
        self.spoiled.clone().map_or(Ok(()), Err)
    }

    /// A unit that met a fault fails in the same way from then on.
    fn spoil_unless(&mut self, outcome: Result<(), StoreFault>) -> Result<(), StoreFault> {
        if let Err(fault) = &outcome {
            self.spoiled = Some(fault.clone());
        }
        outcome
    }

    /// A unit that read something in two states can never commit.
    fn spoil_on_change(&mut self, remembered: Result<(), Contended>) -> Result<(), StoreFault> {
        let Err(changed) = remembered else { return Ok(()) };
        self.report(changed);
        self.spoil_unless(Err(StoreFault::Conflict))
    }

    async fn end_segment(&mut self) -> Outcome {
        self.check_usable()?;
        let checked = self.check_size();
        self.spoil_unless(checked)?;
        let (writes, reads) = (self.seal_writes()?, self.take_reads()?);
        // Stands while the outcome is open, so that a unit whose checkpoint was dropped cannot
        // commit unchecked.
        self.spoiled =
            Some(StoreFault::Unavailable("a checkpoint of this request was not waited for".into()));
        let (limit, turn) = (self.limit.clone(), self.turn.clone());
        let outcome = if !writes.is_empty() {
            let work = Work { reads, writes, limit, turn };
            Box::pin(Arc::clone(&self.store).commit(work)).await
        } else if reads.must_hold() {
            self.check(&reads).await.map(|()| None)
        } else {
            Ok(None)
        };
        self.spoiled = outcome.clone().err();
        outcome
    }

    /// Checks that all of `reads` were true at one moment.
    async fn check(&self, reads: &Reads) -> Result<(), StoreFault> {
        let Some(changed) = self.store.find_changed(reads).await? else { return Ok(()) };
        self.report(changed);
        Err(StoreFault::Conflict)
    }

    fn report(&self, contended: Contended) {
        if let Some(turn) = &self.turn {
            turn.report(contended);
        }
    }

    /// Before anything is sealed: that takes its time, too.
    fn check_size(&self) -> Result<(), StoreFault> {
        let written = self.parts().map(|part| part.buffer.len()).sum();
        let bodies = self.parts().flat_map(|part| part.buffer.values().flatten());
        let bytes = bodies.map(|record| record.body.len()).sum();
        work::check_size(self.parts().map(|part| part.reads.checked()).sum(), written, bytes)
    }

    /// The part that reads and writes now.
    fn current_part(&mut self) -> &mut Part {
        self.host.as_mut().unwrap_or(&mut self.work)
    }

    /// Both parts, the later one last.
    fn parts(&self) -> impl Iterator<Item = &Part> {
        [Some(&self.work), self.host.as_ref()].into_iter().flatten()
    }

    /// What this unit wrote at `address`, if it did.
    fn own_write(&self, address: &Address) -> Option<&Option<Record>> {
        let hosts = self.host.as_ref().and_then(|part| part.buffer.get(address));
        hosts.or_else(|| self.work.buffer.get(address))
    }

    /// What both parts read. Without a host's part the segment ends in any case; with one,
    /// the work's reads are kept, because that part may be done again.
    fn take_reads(&mut self) -> Result<Reads, StoreFault> {
        match &self.host {
            None => Ok(mem::take(&mut self.work.reads)),
            Some(host) => {
                let both = self.work.reads.clone().and(&host.reads);
                both.map_err(|changed| {
                    self.report(changed);
                    StoreFault::Conflict
                })
            }
        }
    }

    /// What is buffered, sealed here rather than by the committer, for which all requests wait.
    /// Only what gets a revision has to be sealed there.
    fn seal_writes(&self) -> Result<Writes, StoreFault> {
        let latest: BTreeMap<_, _> = self.parts().flat_map(|part| &part.buffer).collect();
        let mut writes = Writes { revised: self.begin_revision(), ..Writes::default() };
        for (address, record) in latest {
            match (record, &mut writes.revised) {
                (Some(record), Some(revised)) if self.is_revised(address) => {
                    revised.puts.push((address.clone(), record.clone()));
                }
                (Some(record), _) => {
                    let row = SealedRow::of(self.store.seal(), address, record)?;
                    if self.parts().any(|part| part.reads.keys().contains_key(address)) {
                        let record = Record { stamp: Some(row.stamp), ..record.clone() };
                        writes.in_use.push((address.clone(), row.stamp, record));
                    }
                    writes.puts.push(row);
                }
                (None, _) => writes.deletes.push(address.clone()),
            }
        }
        Ok(writes)
    }

    /// The revision to be made, still without its records, if data of the unit's mount changed.
    fn begin_revision(&self) -> Option<RevisedWrites> {
        let mount = self.mount.as_ref()?;
        let mut written = self.parts().flat_map(|part| part.buffer.keys());
        let is_changed = written.any(|address| self.is_revised(address));
        is_changed.then(|| RevisedWrites { counter: revision::counter(mount), puts: Vec::new() })
    }

    /// Whether the unit numbers what it writes there.
    fn is_revised(&self, address: &Address) -> bool {
        let below = self.mount.as_ref().and_then(|mount| address.key.strip_prefix(mount.as_str()));
        address.space == Space::Data && below.is_some_and(|below| below.starts_with('/'))
    }

    fn own_writes_in<'a>(
        &'a self,
        range: &'a KeyRange,
    ) -> impl Iterator<Item = (&'a Address, &'a Option<Record>)> {
        self.parts().flat_map(|part| &part.buffer).filter(|(address, _)| range.contains(address))
    }

    /// The first `limit` keys of the range as this unit sees it.
    fn merge_own(&self, range: &KeyRange, committed: &[String], limit: u32) -> Vec<String> {
        let mut keys: BTreeSet<&str> = committed.iter().map(String::as_str).collect();
        for (address, record) in self.own_writes_in(range) {
            match record {
                Some(_) => keys.insert(&address.key),
                None => keys.remove(address.key.as_str()),
            };
        }
        keys.into_iter()
            .take(usize::try_from(limit).unwrap_or(usize::MAX))
            .map(str::to_owned)
            .collect()
    }
}

//! The unit of work: all reads and writes of one request, committed at once.
//!
//! A unit holds no connection, transaction or lock between calls, so that a request may wait for a
//! network without blocking the commits of other requests. In return a commit can be refused
//! ([`StoreFault::Conflict`]), and the request then runs again from its first read.
//!
//! Example. Two clients send `POST /v1/secret/data/app` with `options.cas` 3 at the same time.
//! `Unit::get` reads the metadata record of the secret for each client and remembers the record's
//! [`Stamp`](crate::Stamp), 128 random bits that identify a single write. The component compares
//! the versions, and `Unit::put` buffers two records: the data of version 4 and the new metadata.
//! The first commit stores both records, each with a new stamp. The second commit finds another
//! stamp than the remembered stamp and returns [`StoreFault::Conflict`]: nothing of the unit is
//! stored, and the pipeline runs the request again from its first read. The second run reads
//! version 4, and the component answers 400, because 3 is not the current version. A process that
//! dies during the commit leaves both records or neither.

mod begin;
mod finish;
mod folder;
mod presence;
mod records;
#[cfg(test)]
mod tests;

pub use finish::UnitFinish;

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::Arc;

use crate::revision::{self, RevisedWrites};
use crate::store::Store;
use crate::work::{self, CommitOutcome, CommitRequest, ReadSet, WriteSet};
use crate::write_queue::{ContendedKey, TicketState};
use bulkhead_record::body::RecordBody;
use bulkhead_record::fault::StoreFault;
use bulkhead_record::range::KeyRange;
use bulkhead_record::record::{Address, IndexColumns, Record, Space};
use bulkhead_record::rows::SealedRow;
use bulkhead_record::seal::SecretHasher;
use bulkhead_record::stored_limit::StoredLimit;

/// Number of keys in one page of a scan for names.
const PAGE: u32 = 1_000;

/// Reads and writes of one part of a unit since the last checkpoint.
#[derive(Default)]
struct UnitPart {
    reads: ReadSet,
    /// Buffered writes: a record to put, or `None` to delete.
    buffer: BTreeMap<Address, Option<Record>>,
}

/// A unit of work. A unit that is dropped without a commit leaves only its checkpoints.
pub struct Unit {
    store: Arc<Store>,
    work: UnitPart,
    /// The part that [`Unit::finish`] adds; `None` before that call.
    host: Option<UnitPart>,
    /// The mount whose revisions the unit counts.
    mount: Option<String>,
    wrote: bool,
    checkpoints: u32,
    is_whole: bool,
    /// The reason for which this unit can no longer commit. A caller that goes on after a conflict
    /// must not store values computed from two different states.
    spoiled: Option<StoreFault>,
    limits: Vec<Arc<StoredLimit>>,
    /// The turn of the request, as long as the request can begin again.
    turn: Option<Arc<TicketState>>,
}

impl Unit {
    /// Stops yielding to other requests: the request changed something outside and cannot begin
    /// anew.
    pub fn mark_effectful(&mut self) {
        self.turn = None;
    }

    /// Returns store time, as [`Store::now`].
    pub fn now(&self) -> u64 {
        self.store.now()
    }

    /// Returns the epoch of this process, as [`Store::epoch`].
    pub fn epoch(&self) -> &str {
        self.store.epoch()
    }

    /// Returns the record at `address`: the own write of this unit, or else the newest committed
    /// record. The commit depends on the committed record, and on its absence.
    ///
    /// # Errors
    /// [`StoreFault::Conflict`] if this unit read the record before and the record has changed;
    /// [`StoreFault::Damaged`] if the record cannot be decrypted; [`StoreFault::Unavailable`] if
    /// the database cannot be read.
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

    /// Returns at most `limit` full keys of `space` that begin with `prefix` and are greater than
    /// `after` (a full key; empty: from the first), in the order of their bytes. The own writes of
    /// this unit are taken into account. The commit depends on the range: a key that appears in the
    /// range or vanishes from the range is a conflict.
    ///
    /// # Errors
    /// [`StoreFault::Conflict`] if this unit listed the same range before and the range has
    /// changed; [`StoreFault::Unavailable`] if the database cannot be read, or an earlier
    /// checkpoint failed.
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
        // Reads as many more keys as this unit deletes, so that the page is full without a second
        // read.
        let deleted = self.own_writes_in(&range).filter(|(_, record)| record.is_none()).count();
        let fetch = limit.saturating_add(u32::try_from(deleted).unwrap_or(u32::MAX));
        let committed = self.store.list(&range, fetch).await?;
        let page = self.merge_own(&range, &committed, limit);
        let remembered = self.current_part().reads.remember_range(range, fetch, committed);
        self.spoil_on_change(remembered)?;
        Ok(page)
    }

    /// Returns at most `limit` names behind the name `after` (empty: from the first). A name is the
    /// rest of a key of `space` behind `prefix`. Reads page by page with [`Unit::keys`].
    ///
    /// # Errors
    /// The errors of [`Unit::keys`].
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

    /// Buffers the record until the next checkpoint or the commit. A record that the unit did not
    /// read is overwritten.
    pub fn put(&mut self, address: Address, body: Vec<u8>, index: IndexColumns) {
        self.wrote = true;
        let record = Record::unwritten(RecordBody::new(body), index);
        self.current_part().buffer.insert(address, Some(record));
    }

    /// Buffers the removal of the record. A missing record is not an error.
    pub fn delete(&mut self, address: Address) {
        self.wrote = true;
        self.current_part().buffer.insert(address, None);
    }

    /// Buffers the removal of the count of revisions of `mount`, after the removal of its data.
    pub fn delete_revision(&mut self, mount: &str) {
        self.delete(revision::counter(mount));
    }

    /// Commits the buffered writes if the reads still hold, and begins a new segment without reads.
    /// Without buffered writes, the reads are checked as in [`Unit::commit`]. Returns the revision
    /// as [`Unit::commit`] does.
    ///
    /// # Errors
    /// The errors of [`Unit::commit`], and [`StoreFault::TooLarge`] for a unit that is whole. The
    /// unit is then spoiled, and every later call fails in the same way.
    pub async fn checkpoint(&mut self) -> Result<Option<u64>, StoreFault> {
        self.check_parts()?;
        let revision = self.end_segment().await?;
        if !self.work.buffer.is_empty() {
            self.checkpoints += 1;
        }
        self.work = UnitPart::default();
        Ok(revision)
    }

    /// Checks the reads and stores the buffered writes in one transaction with one flush. A unit
    /// without writes is checked if the unit read more than once; a single read needs no
    /// transaction. Returns the new revision of the mount, if the mount has revisions and its data
    /// changed.
    ///
    /// # Errors
    /// [`StoreFault::Conflict`] if a record that the unit read has changed,
    /// [`StoreFault::TooLarge`] if the segment reads or writes too much for one commit, and
    /// [`StoreFault::OverLimit`] if a limit of stored bytes would be exceeded: the segment was not
    /// stored. [`StoreFault::Unavailable`] if the storage failed: nothing was acknowledged.
    /// The fault of an earlier get or checkpoint that has spoiled the unit.
    pub async fn commit(mut self) -> Result<Option<u64>, StoreFault> {
        self.end_segment().await
    }

    /// Begins the last part of the unit, in which the host adds its own writes: see [`UnitFinish`].
    pub fn finish(mut self) -> UnitFinish {
        self.host = Some(UnitPart::default());
        UnitFinish { unit: self, attempts: 0 }
    }

    /// Reports whether this unit put or deleted a record, before or after a checkpoint.
    pub fn wrote(&self) -> bool {
        self.wrote
    }

    /// Returns the number of checkpoints that stored records. These records stay if the unit fails.
    pub fn checkpoints(&self) -> u32 {
        self.checkpoints
    }

    /// Returns the keyed hashes for names that must not be readable in the database file.
    pub fn hashes(&self) -> &SecretHasher {
        self.store.hashes()
    }

    fn check_usable(&self) -> Result<(), StoreFault> {
        self.spoiled.clone().map_or(Ok(()), Err)
    }

    /// Fails with the fault that spoiled the unit.
    fn spoil_on_fault(&mut self, outcome: Result<(), StoreFault>) -> Result<(), StoreFault> {
        if let Err(fault) = &outcome {
            self.spoiled = Some(fault.clone());
        }
        outcome
    }

    /// Spoils a unit that read a record in two states.
    fn spoil_on_change(&mut self, remembered: Result<(), ContendedKey>) -> Result<(), StoreFault> {
        let Err(changed) = remembered else { return Ok(()) };
        self.report(changed);
        self.store.count_conflict();
        self.spoil_on_fault(Err(StoreFault::Conflict))
    }

    async fn end_segment(&mut self) -> CommitOutcome {
        self.check_usable()?;
        let outcome = self.submit_segment().await;
        if outcome == Err(StoreFault::Conflict) {
            self.store.count_conflict();
        }
        outcome
    }

    async fn submit_segment(&mut self) -> CommitOutcome {
        let checked = self.check_size();
        self.spoil_on_fault(checked)?;
        let (writes, reads) = (self.seal_writes()?, self.take_reads()?);
        // Holds while the outcome is open, so that a unit cannot commit unchecked after its
        // checkpoint was dropped.
        self.spoiled =
            Some(StoreFault::Unavailable("a checkpoint of this request was not waited for".into()));
        let (limits, turn) = (self.limits.clone(), self.turn.clone());
        let outcome = if !writes.is_empty() {
            let work = CommitRequest { reads, writes, limits, turn };
            Box::pin(Arc::clone(&self.store).commit(work)).await
        } else if reads.must_hold() {
            self.check(&reads).await.map(|()| None)
        } else {
            Ok(None)
        };
        self.spoiled = outcome.clone().err();
        outcome
    }

    /// Checks that all `reads` held at one moment.
    async fn check(&self, reads: &ReadSet) -> Result<(), StoreFault> {
        let Some(changed) = self.store.find_changed(reads).await? else { return Ok(()) };
        self.report(changed);
        Err(StoreFault::Conflict)
    }

    fn report(&self, contended: ContendedKey) {
        if let Some(turn) = &self.turn {
            turn.report(contended);
        }
    }

    /// Checks the limits before sealing, which takes time, too.
    fn check_size(&self) -> Result<(), StoreFault> {
        let written = self.parts().map(|part| part.buffer.len()).sum();
        let bodies = self.parts().flat_map(|part| part.buffer.values().flatten());
        let bytes = bodies.map(|record| record.body.len()).sum();
        work::check_size(self.parts().map(|part| part.reads.checked()).sum(), written, bytes)
    }

    /// The part that current reads and writes belong to.
    fn current_part(&mut self) -> &mut UnitPart {
        self.host.as_mut().unwrap_or(&mut self.work)
    }

    /// Both parts, the later one last.
    fn parts(&self) -> impl Iterator<Item = &UnitPart> {
        [Some(&self.work), self.host.as_ref()].into_iter().flatten()
    }

    /// The own write of this unit at `address`.
    fn own_write(&self, address: &Address) -> Option<&Option<Record>> {
        let hosts = self.host.as_ref().and_then(|part| part.buffer.get(address));
        hosts.or_else(|| self.work.buffer.get(address))
    }

    /// The reads of both parts. The segment ends here, unless there is a part of the host: the host
    /// may repeat its part, so that the reads of the work are kept.
    fn take_reads(&mut self) -> Result<ReadSet, StoreFault> {
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

    /// The buffered writes, sealed. The committer, for which all requests wait, seals only records
    /// with a revision.
    fn seal_writes(&self) -> Result<WriteSet, StoreFault> {
        let latest: BTreeMap<_, _> = self.parts().flat_map(|part| &part.buffer).collect();
        let mut writes = WriteSet { revised: self.begin_revision(), ..WriteSet::default() };
        for (address, record) in latest {
            match (record, &mut writes.revised) {
                (Some(record), Some(revised)) if self.is_revised(address) => {
                    revised.puts.push((address.clone(), record.clone()));
                }
                (Some(record), _) => {
                    let row = SealedRow::of(self.store.seal(), address, record)?;
                    if self.parts().any(|part| part.reads.has(address)) {
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

    /// The new revision without its records, if data of the unit's mount changed.
    fn begin_revision(&self) -> Option<RevisedWrites> {
        let mount = self.mount.as_ref()?;
        let mut written = self.parts().flat_map(|part| part.buffer.keys());
        let is_changed = written.any(|address| self.is_revised(address));
        is_changed.then(|| RevisedWrites { counter: revision::counter(mount), puts: Vec::new() })
    }

    /// Reports whether records at that address get a revision.
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

    /// The first `limit` keys of the range, with the own writes of this unit.
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

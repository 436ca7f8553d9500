//! The unit of work: everything one request reads and writes, committed at once.
//!
//! It holds no connection, no transaction and no lock between calls, so a request may wait for a
//! network as long as it likes without keeping anybody else from committing. What it costs is that
//! a commit can be refused ([`StoreFault::Conflict`]); the request is then run again from its first
//! read.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::Arc;

use crate::body::Body;
use crate::commit::{Outcome, Reads, Writes};
use crate::fault::StoreFault;
use crate::indexed::{self, IndexedWrites};
use crate::range::KeyRange;
use crate::record::{Address, Index, Record, Space};
use crate::rows::SealedRow;
use crate::store::Store;

/// How often the host's part is computed anew before its conflict is the caller's.
const HOST_TURNS: u32 = 16;
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
    /// The mount for whose index the unit counts.
    mount: Option<String>,
    wrote: bool,
    checkpoints: u32,
    /// Why this unit can no longer commit. A caller who goes on after a conflict must not store
    /// what was computed from two different states.
    spoiled: Option<StoreFault>,
}

impl Unit {
    pub(crate) fn new(store: Arc<Store>) -> Unit {
        Unit {
            store,
            work: Part::default(),
            host: None,
            mount: None,
            wrote: false,
            checkpoints: 0,
            spoiled: None,
        }
    }

    pub(crate) fn indexed(store: Arc<Store>, mount: &str) -> Unit {
        Unit { mount: Some(mount.to_owned()), ..Unit::new(store) }
    }

    /// The record at `address`: what this unit wrote, or else the newest committed one, which is
    /// remembered together with its absence.
    ///
    /// # Errors
    /// [`StoreFault::Conflict`] when this unit read it before and it has changed;
    /// [`StoreFault::Damaged`] when it does not open; [`StoreFault::Unavailable`] when it cannot be
    /// read.
    pub async fn get(&mut self, address: &Address) -> Result<Option<Record>, StoreFault> {
        if let Some(own) = self.written(address) {
            return Ok(own.clone());
        }
        self.sound()?;
        let found = self.store.read(address).await?;
        if let Err(changed) =
            self.part().reads.remember(address, found.as_ref().map(|(stamp, _)| *stamp))
        {
            self.spoiled = Some(changed.clone());
            return Err(changed);
        }
        Ok(found.map(|(_, record)| record))
    }

    /// The full keys of `space` that begin with `prefix` and are greater than `after` (a full key;
    /// empty: from the first), in the order of their bytes, at most `limit`. This unit's own writes
    /// are taken into account; what the committed state held is remembered as a range, so a key
    /// that appears in it or vanishes from it is a conflict.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] when the database cannot be read, or an earlier checkpoint
    /// failed.
    pub async fn keys(
        &mut self,
        space: Space,
        prefix: &str,
        after: &str,
        limit: u32,
    ) -> Result<Vec<String>, StoreFault> {
        self.sound()?;
        if limit == 0 {
            return Ok(Vec::new());
        }
        let range = KeyRange::new(space, prefix, after);
        // As many more as this unit deletes, so that the page is full without a second read.
        let deleted = self.own(&range).filter(|(_, record)| record.is_none()).count();
        let fetch = limit.saturating_add(u32::try_from(deleted).unwrap_or(u32::MAX));
        let committed = self.store.list(&range, fetch).await?;
        let page = self.merged(&range, &committed, limit);
        self.part().reads.remember_range(range, fetch, committed);
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

    /// Buffers the record; nothing is stored before the next checkpoint or the commit. Writing
    /// without having read overwrites whatever is there by then.
    pub fn put(&mut self, address: Address, body: Vec<u8>, index: Index) {
        self.wrote = true;
        self.part().buffer.insert(
            address,
            Some(Record { body: Body::new(body), index, created: 0, modified: 0 }),
        );
    }

    /// Buffers the removal of the record; that there is none is no error.
    pub fn delete(&mut self, address: Address) {
        self.wrote = true;
        self.part().buffer.insert(address, None);
    }

    /// Buffers the removal of the index of `mount`, whose data is gone.
    pub fn delete_index(&mut self, mount: &str) {
        self.delete(indexed::counter(mount));
    }

    /// Commits what is buffered, if what was read still holds, and begins a new segment: earlier
    /// reads are forgotten. With nothing buffered, the reads are checked as [`Unit::commit`] does.
    /// Gives the index as [`Unit::commit`] does.
    ///
    /// # Errors
    /// As [`Unit::commit`]. The unit is then spoiled: all that it can do is fail in the same way.
    pub async fn checkpoint(&mut self) -> Result<Option<u64>, StoreFault> {
        let index = self.end_segment().await?;
        if !self.work.buffer.is_empty() {
            self.checkpoints += 1;
        }
        self.work = Part::default();
        Ok(index)
    }

    /// Ends the unit. What it read is checked and what it buffered is stored, in one transaction
    /// and with one flush. A unit that wrote nothing is checked too when it read more than once;
    /// otherwise no transaction is needed. Gives the index of the mount that the commit got, if the
    /// mount has one and its data changed.
    ///
    /// # Errors
    /// [`StoreFault::Conflict`] when something it read has changed: nothing of this segment was
    /// stored. [`StoreFault::Unavailable`] when the storage failed: nothing was acknowledged. The
    /// fault of an earlier get or checkpoint, when that has spoiled the unit.
    pub async fn commit(mut self) -> Result<Option<u64>, StoreFault> {
        self.end_segment().await
    }

    /// Begins the end of the unit, in which the host adds its own part: see [`Finish`].
    pub fn finish(mut self) -> Finish {
        self.host = Some(Part::default());
        Finish { unit: self, turns: 0 }
    }

    /// Whether this unit put or deleted anything since it began, checkpointed or not.
    pub fn wrote(&self) -> bool {
        self.wrote
    }

    /// How many checkpoints of this unit stored something: what they stored stays, whatever becomes
    /// of the unit.
    pub fn checkpoints(&self) -> u32 {
        self.checkpoints
    }

    fn sound(&self) -> Result<(), StoreFault> {
        self.spoiled.clone().map_or(Ok(()), Err)
    }

    async fn end_segment(&mut self) -> Outcome {
        self.sound()?;
        let (writes, reads) = (self.sealed()?, self.take_reads()?);
        // Stands while the outcome is open, so that a unit whose checkpoint was dropped cannot
        // commit unchecked.
        self.spoiled =
            Some(StoreFault::Unavailable("a checkpoint of this request was not waited for".into()));
        let outcome = if !writes.is_empty() {
            Box::pin(Arc::clone(&self.store).commit(reads, writes)).await
        } else if reads.len() > 1 {
            Box::pin(self.store.validate(&reads)).await.map(|()| None)
        } else {
            Ok(None)
        };
        self.spoiled = outcome.clone().err();
        outcome
    }

    /// The part that reads and writes now.
    fn part(&mut self) -> &mut Part {
        self.host.as_mut().unwrap_or(&mut self.work)
    }

    /// Both parts, the later one last.
    fn parts(&self) -> impl Iterator<Item = &Part> {
        [Some(&self.work), self.host.as_ref()].into_iter().flatten()
    }

    /// What this unit wrote at `address`, if it did.
    fn written(&self, address: &Address) -> Option<&Option<Record>> {
        let hosts = self.host.as_ref().and_then(|part| part.buffer.get(address));
        hosts.or_else(|| self.work.buffer.get(address))
    }

    /// What both parts read. Without a host's part the segment ends whatever comes of it; with one,
    /// the work's reads are kept, because that part may be done again.
    fn take_reads(&mut self) -> Result<Reads, StoreFault> {
        match &self.host {
            None => Ok(mem::take(&mut self.work.reads)),
            Some(host) => self.work.reads.clone().and(&host.reads),
        }
    }

    /// What is buffered, sealed here rather than by the committer, which all others wait for. Only
    /// what an index numbers has to be sealed there.
    fn sealed(&self) -> Result<Writes, StoreFault> {
        let latest: BTreeMap<_, _> = self.parts().flat_map(|part| &part.buffer).collect();
        let mut writes = Writes { indexed: self.index_asked(), ..Writes::default() };
        for (address, record) in latest {
            match (record, &mut writes.indexed) {
                (Some(record), Some(indexed)) if self.is_indexed(address) => {
                    indexed.puts.push((address.clone(), record.clone()));
                }
                (Some(record), _) => {
                    writes.puts.push(SealedRow::of(self.store.seal(), address, record)?)
                }
                (None, _) => writes.deletes.push(address.clone()),
            }
        }
        Ok(writes)
    }

    /// To be filled, if data of the unit's mount changed.
    fn index_asked(&self) -> Option<IndexedWrites> {
        let mount = self.mount.as_ref()?;
        let changed = self
            .parts()
            .flat_map(|part| part.buffer.keys())
            .any(|address| self.is_indexed(address));
        changed.then(|| IndexedWrites { counter: indexed::counter(mount), puts: Vec::new() })
    }

    fn is_indexed(&self, address: &Address) -> bool {
        let below = self.mount.as_ref().and_then(|mount| address.key.strip_prefix(mount.as_str()));
        address.space == Space::Data && below.is_some_and(|below| below.starts_with('/'))
    }

    fn own<'a>(
        &'a self,
        range: &'a KeyRange,
    ) -> impl Iterator<Item = (&'a Address, &'a Option<Record>)> {
        self.parts().flat_map(|part| &part.buffer).filter(|(address, _)| range.contains(address))
    }

    /// The first `limit` keys of the range as this unit sees it.
    fn merged(&self, range: &KeyRange, committed: &[String], limit: u32) -> Vec<String> {
        let mut keys: BTreeSet<&str> = committed.iter().map(String::as_str).collect();
        for (address, record) in self.own(range) {
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

/// The end of a unit, to which the host adds what it knows best itself (a lease, the check of a
/// token). Both are committed as one. When a conflict lies in the host's part alone, a token that
/// was renewed meanwhile, only that part is done again; so an effect that the unit made needs not
/// be undone for it:
///
/// ```text
/// let mut finish = unit.finish();
/// loop {
///     let lease = write_lease(finish.restart_host_part()).await?;
///     if finish.try_commit().await? {
///         break Ok(lease);
///     }
/// }
/// ```
pub struct Finish {
    unit: Unit,
    turns: u32,
}

impl Finish {
    /// The unit, for the host's part, which begins anew.
    pub fn restart_host_part(&mut self) -> &mut Unit {
        self.unit.host = Some(Part::default());
        &mut self.unit
    }

    /// Commits; `false` when the host's part is to be done again.
    ///
    /// # Errors
    /// As [`Unit::commit`]: nothing of the last segment was stored.
    pub async fn try_commit(&mut self) -> Result<bool, StoreFault> {
        self.turns += 1;
        match self.unit.end_segment().await {
            Ok(_) => Ok(true),
            Err(StoreFault::Conflict) if self.turns < HOST_TURNS => {
                self.unit.store.validate(&self.unit.work.reads).await?;
                self.unit.spoiled = None;
                Ok(false)
            }
            Err(fault) => Err(fault),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Scratch, body, data, put};

    fn write(unit: &mut Unit, key: &str, body: &str) {
        unit.put(data(key), body.as_bytes().to_vec(), Index::default());
    }

    async fn listed(unit: &mut Unit, prefix: &str, after: &str, limit: u32) -> Vec<String> {
        unit.keys(Space::Data, prefix, after, limit).await.unwrap()
    }

    #[tokio::test]
    async fn the_second_of_two_updates_from_the_same_state_is_a_conflict() {
        let scratch = Scratch::new();
        let store = scratch.open().await;
        put(&store, data("counter"), "1").await;
        let (mut first, mut second) = (store.begin(), store.begin());
        for unit in [&mut first, &mut second] {
            unit.get(&data("counter")).await.unwrap();
        }
        write(&mut first, "counter", "first");
        write(&mut second, "counter", "second");
        first.commit().await.unwrap();
        assert_eq!(second.commit().await, Err(StoreFault::Conflict));
        assert_eq!(body(&store, &data("counter")).await.unwrap(), "first");
    }

    #[tokio::test]
    async fn of_two_units_that_each_read_what_the_other_writes_only_one_commits() {
        let scratch = Scratch::new();
        let store = scratch.open().await;
        put(&store, data("a"), "on call").await;
        put(&store, data("b"), "on call").await;
        let (mut first, mut second) = (store.begin(), store.begin());
        for unit in [&mut first, &mut second] {
            unit.get(&data("a")).await.unwrap();
            unit.get(&data("b")).await.unwrap();
        }
        write(&mut first, "a", "off");
        write(&mut second, "b", "off");
        first.commit().await.unwrap();
        assert_eq!(second.commit().await, Err(StoreFault::Conflict));
        assert_eq!(body(&store, &data("b")).await.unwrap(), "on call");
    }

    #[tokio::test]
    async fn a_key_that_was_absent_and_appears_is_a_conflict() {
        let scratch = Scratch::new();
        let store = scratch.open().await;
        let mut unit = store.begin();
        assert!(unit.get(&data("taken")).await.unwrap().is_none());
        put(&store, data("taken"), "by another").await;
        write(&mut unit, "mine", "because the other was absent");
        assert_eq!(unit.commit().await, Err(StoreFault::Conflict));
        assert_eq!(body(&store, &data("mine")).await, None);
    }

    #[tokio::test]
    async fn a_key_that_was_read_and_vanishes_is_a_conflict_also_when_it_comes_back_the_same() {
        let scratch = Scratch::new();
        let store = scratch.open().await;
        put(&store, data("role"), "x").await;
        let (mut gone, mut back) = (store.begin(), store.begin());
        for unit in [&mut gone, &mut back] {
            unit.get(&data("role")).await.unwrap();
            write(unit, "other", "y");
        }
        let mut removal = store.begin();
        removal.delete(data("role"));
        removal.commit().await.unwrap();
        assert_eq!(gone.commit().await, Err(StoreFault::Conflict));
        put(&store, data("role"), "x").await;
        assert_eq!(back.commit().await, Err(StoreFault::Conflict));
    }

    #[tokio::test]
    async fn a_key_that_appears_in_or_vanishes_from_a_listed_range_is_a_conflict() {
        let scratch = Scratch::new();
        let store = scratch.open().await;
        put(&store, data("roles/b"), "x").await;
        let (mut grown, mut shrunk) = (store.begin(), store.begin());
        assert_eq!(listed(&mut grown, "roles/", "", 10).await, ["roles/b"]);
        put(&store, data("roles/a"), "x").await;
        assert_eq!(listed(&mut shrunk, "roles/", "", 10).await, ["roles/a", "roles/b"]);
        write(&mut grown, "count", "1");
        write(&mut shrunk, "count", "2");
        assert_eq!(grown.commit().await, Err(StoreFault::Conflict));
        let mut removal = store.begin();
        removal.delete(data("roles/b"));
        removal.commit().await.unwrap();
        assert_eq!(shrunk.commit().await, Err(StoreFault::Conflict));
    }

    #[tokio::test]
    async fn what_changes_outside_of_a_listed_page_is_no_conflict() {
        let scratch = Scratch::new();
        let store = scratch.open().await;
        for key in ["roles/a", "roles/b"] {
            put(&store, data(key), "x").await;
        }
        let mut unit = store.begin();
        assert_eq!(listed(&mut unit, "roles/", "", 2).await, ["roles/a", "roles/b"]);
        put(&store, data("roles/c"), "after the page").await;
        put(&store, data("roles/a"), "another body under a listed key").await;
        write(&mut unit, "count", "2");
        unit.commit().await.unwrap();
    }

    #[tokio::test]
    async fn a_unit_that_only_read_two_changing_keys_is_refused_and_one_key_is_not() {
        let scratch = Scratch::new();
        let store = scratch.open().await;
        put(&store, data("a"), "1").await;
        put(&store, data("b"), "1").await;
        let (mut two, mut one) = (store.begin(), store.begin());
        two.get(&data("a")).await.unwrap();
        two.get(&data("b")).await.unwrap();
        one.get(&data("a")).await.unwrap();
        put(&store, data("a"), "2").await;
        let flushes = store.flushes();
        assert_eq!(two.commit().await, Err(StoreFault::Conflict));
        one.commit().await.unwrap();
        assert_eq!(store.flushes(), flushes);
    }

    #[tokio::test]
    async fn a_unit_that_read_an_unchanged_state_commits_without_a_flush() {
        let scratch = Scratch::new();
        let store = scratch.open().await;
        put(&store, data("a"), "1").await;
        let flushes = store.flushes();
        let mut unit = store.begin();
        unit.get(&data("a")).await.unwrap();
        unit.get(&data("absent")).await.unwrap();
        listed(&mut unit, "", "", 10).await;
        unit.commit().await.unwrap();
        assert_eq!(store.flushes(), flushes);
    }

    #[tokio::test]
    async fn reading_one_key_in_two_states_is_a_conflict_that_going_on_cannot_undo() {
        let scratch = Scratch::new();
        let store = scratch.open().await;
        put(&store, data("a"), "1").await;
        let mut unit = store.begin();
        unit.get(&data("a")).await.unwrap();
        put(&store, data("a"), "2").await;
        assert_eq!(unit.get(&data("a")).await.err(), Some(StoreFault::Conflict));
        assert_eq!(unit.get(&data("a")).await.err(), Some(StoreFault::Conflict));
        write(&mut unit, "b", "from two states");
        assert_eq!(unit.commit().await, Err(StoreFault::Conflict));
        assert_eq!(body(&store, &data("b")).await, None);
    }

    #[tokio::test]
    async fn a_unit_sees_its_own_writes_and_nobody_else_does_before_the_commit() {
        let scratch = Scratch::new();
        let store = scratch.open().await;
        for key in ["roles/a", "roles/b", "roles/d"] {
            put(&store, data(key), "old").await;
        }
        let mut unit = store.begin();
        write(&mut unit, "roles/c", "new");
        unit.delete(data("roles/a"));
        assert_eq!(unit.get(&data("roles/c")).await.unwrap().unwrap().body.as_slice(), b"new");
        assert!(unit.get(&data("roles/a")).await.unwrap().is_none());
        assert_eq!(listed(&mut unit, "roles/", "", 2).await, ["roles/b", "roles/c"]);
        assert_eq!(listed(&mut unit, "roles/", "roles/c", 2).await, ["roles/d"]);
        assert_eq!(body(&store, &data("roles/c")).await, None);
        unit.commit().await.unwrap();
        assert_eq!(
            listed(&mut store.begin(), "roles/", "", 9).await,
            ["roles/b", "roles/c", "roles/d"]
        );
    }

    #[tokio::test]
    async fn a_page_is_full_although_the_unit_deleted_from_it() {
        let scratch = Scratch::new();
        let store = scratch.open().await;
        for key in ["a", "b", "c", "d"] {
            put(&store, data(key), "x").await;
        }
        let mut unit = store.begin();
        unit.delete(data("a"));
        unit.delete(data("b"));
        unit.delete(data("never there"));
        assert_eq!(listed(&mut unit, "", "", 2).await, ["c", "d"]);
        assert!(listed(&mut unit, "", "", 0).await.is_empty());
        unit.commit().await.unwrap();
    }

    #[tokio::test]
    async fn a_checkpoint_stores_what_is_buffered_and_forgets_what_was_read() {
        let scratch = Scratch::new();
        let store = scratch.open().await;
        put(&store, data("role"), "1").await;
        let mut unit = store.begin();
        unit.get(&data("role")).await.unwrap();
        assert!(!unit.wrote());
        write(&mut unit, "intent", "candidate");
        unit.checkpoint().await.unwrap();
        assert_eq!((unit.checkpoints(), unit.wrote()), (1, true));
        assert_eq!(body(&store, &data("intent")).await.unwrap(), "candidate");
        put(&store, data("role"), "2").await;
        unit.delete(data("intent"));
        unit.commit().await.unwrap();
        assert_eq!(body(&store, &data("intent")).await, None);
    }

    #[tokio::test]
    async fn what_a_unit_wrote_before_a_checkpoint_can_conflict_after_it() {
        let scratch = Scratch::new();
        let store = scratch.open().await;
        let mut unit = store.begin();
        write(&mut unit, "intent", "mine");
        unit.checkpoint().await.unwrap();
        assert_eq!(unit.get(&data("intent")).await.unwrap().unwrap().body.as_slice(), b"mine");
        put(&store, data("intent"), "somebody else's").await;
        unit.delete(data("intent"));
        assert_eq!(unit.commit().await, Err(StoreFault::Conflict));
        assert_eq!(body(&store, &data("intent")).await.unwrap(), "somebody else's");
    }

    #[tokio::test]
    async fn a_unit_whose_checkpoint_failed_stores_nothing_more() {
        let scratch = Scratch::new();
        let store = scratch.open().await;
        let mut unit = store.begin();
        unit.get(&data("a")).await.unwrap();
        put(&store, data("a"), "meanwhile").await;
        write(&mut unit, "b", "from an old state");
        assert_eq!(unit.checkpoint().await, Err(StoreFault::Conflict));
        assert_eq!(unit.checkpoints(), 0);
        assert_eq!(unit.checkpoint().await, Err(StoreFault::Conflict));
        assert_eq!(unit.commit().await, Err(StoreFault::Conflict));
        assert_eq!(body(&store, &data("b")).await, None);
    }

    #[tokio::test]
    async fn a_unit_whose_checkpoint_was_dropped_cannot_commit_unchecked() {
        let scratch = Scratch::new();
        let store = scratch.open().await;
        let mut unit = store.begin();
        write(&mut unit, "a", "1");
        {
            let mut checkpoint = Box::pin(unit.checkpoint());
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            assert!(checkpoint.as_mut().poll(&mut context).is_pending());
        }
        assert!(matches!(unit.commit().await, Err(StoreFault::Unavailable(_))));
    }

    #[tokio::test]
    async fn an_empty_checkpoint_is_no_checkpoint() {
        let scratch = Scratch::new();
        let store = scratch.open().await;
        let mut unit = store.begin();
        unit.get(&data("a")).await.unwrap();
        let flushes = store.flushes();
        unit.checkpoint().await.unwrap();
        assert_eq!((unit.checkpoints(), store.flushes()), (0, flushes));
    }

    #[tokio::test]
    async fn a_conflict_in_the_hosts_part_alone_runs_that_part_again() {
        let scratch = Scratch::new();
        let store = scratch.open().await;
        put(&store, data("role"), "r").await;
        put(&store, data("token"), "1").await;
        let mut unit = store.begin();
        unit.get(&data("role")).await.unwrap();
        write(&mut unit, "made", "outside");
        let mut finish = unit.finish();
        for (turn, seen) in ["1", "2"].into_iter().enumerate() {
            let part = finish.restart_host_part();
            assert_eq!(
                part.get(&data("token")).await.unwrap().unwrap().body.as_slice(),
                seen.as_bytes()
            );
            write(part, "lease", seen);
            if turn == 0 {
                write(part, "of the first turn", "x");
                put(&store, data("token"), "2").await;
            }
            assert_eq!(finish.try_commit().await.unwrap(), turn == 1);
        }
        assert_eq!(body(&store, &data("lease")).await.unwrap(), "2");
        assert_eq!(body(&store, &data("made")).await.unwrap(), "outside");
        assert_eq!(body(&store, &data("of the first turn")).await, None);
    }

    #[tokio::test]
    async fn a_conflict_in_the_work_is_not_the_hosts_to_mend() {
        let scratch = Scratch::new();
        let store = scratch.open().await;
        put(&store, data("role"), "1").await;
        let mut unit = store.begin();
        unit.get(&data("role")).await.unwrap();
        put(&store, data("role"), "2").await;
        let mut finish = unit.finish();
        write(finish.restart_host_part(), "lease", "x");
        assert_eq!(finish.try_commit().await, Err(StoreFault::Conflict));
        assert_eq!(body(&store, &data("lease")).await, None);
    }

    #[tokio::test]
    async fn a_record_that_changed_between_the_work_and_the_hosts_part_is_a_conflict() {
        let scratch = Scratch::new();
        let store = scratch.open().await;
        put(&store, data("role"), "1").await;
        let mut unit = store.begin();
        unit.get(&data("role")).await.unwrap();
        put(&store, data("role"), "2").await;
        let mut finish = unit.finish();
        let part = finish.restart_host_part();
        assert_eq!(part.get(&data("role")).await.unwrap().unwrap().body.as_slice(), b"2");
        write(part, "lease", "from two states");
        assert_eq!(finish.try_commit().await, Err(StoreFault::Conflict));
        assert_eq!(body(&store, &data("lease")).await, None);
    }

    #[tokio::test]
    async fn a_host_that_goes_away_stores_nothing_and_sees_what_the_work_wrote() {
        let scratch = Scratch::new();
        let store = scratch.open().await;
        let mut unit = store.begin();
        write(&mut unit, "made", "1");
        let mut finish = unit.finish();
        let part = finish.restart_host_part();
        assert_eq!(part.get(&data("made")).await.unwrap().unwrap().body.as_slice(), b"1");
        assert_eq!(listed(part, "", "", 9).await, ["made"]);
        part.delete(data("made"));
        assert!(part.get(&data("made")).await.unwrap().is_none());
        drop(finish);
        assert_eq!(body(&store, &data("made")).await, None);
    }

    #[tokio::test]
    async fn a_host_that_never_meets_a_quiet_moment_gives_up_in_the_end() {
        let scratch = Scratch::new();
        let store = scratch.open().await;
        let mut finish = store.begin().finish();
        let mut turns = 0;
        let outcome = loop {
            turns += 1;
            let part = finish.restart_host_part();
            part.get(&data("token")).await.unwrap();
            write(part, "lease", "x");
            put(&store, data("token"), &turns.to_string()).await;
            match finish.try_commit().await {
                Ok(false) => {}
                ended => break ended,
            }
        };
        assert_eq!((outcome, turns), (Err(StoreFault::Conflict), HOST_TURNS));
    }

    #[tokio::test]
    async fn a_dropped_unit_leaves_nothing() {
        let scratch = Scratch::new();
        let store = scratch.open().await;
        let mut unit = store.begin();
        write(&mut unit, "a", "1");
        drop(unit);
        assert_eq!(body(&store, &data("a")).await, None);
    }

    #[tokio::test]
    async fn a_unit_of_thousands_of_records_commits_whole_or_not_at_all() {
        let scratch = Scratch::new();
        let store = scratch.open().await;
        let keys: Vec<String> = (0..1_234).map(|number| format!("many/{number:05}")).collect();
        let mut unit = store.begin();
        for key in &keys {
            write(&mut unit, key, key);
        }
        let flushes = store.flushes();
        unit.commit().await.unwrap();
        assert_eq!(store.flushes(), flushes + 1);
        let (mut removal, mut late) = (store.begin(), store.begin());
        for key in &keys {
            assert_eq!(
                removal.get(&data(key)).await.unwrap().unwrap().body.as_slice(),
                key.as_bytes()
            );
            late.get(&data(key)).await.unwrap();
            removal.delete(data(key));
        }
        removal.delete(Address::new(Space::Timer, "never there"));
        removal.commit().await.unwrap();
        assert!(listed(&mut store.begin(), "", "", 9).await.is_empty());
        write(&mut late, "late", "x");
        assert_eq!(late.commit().await, Err(StoreFault::Conflict));
    }

    #[tokio::test]
    async fn keys_of_any_characters_and_empty_bodies_are_kept_as_they_are() {
        let scratch = Scratch::new();
        let store = scratch.open().await;
        let keys = ["", "a\0b", "a\0c", "';DROP TABLE record;--", "%", "\u{10ffff}", "ü/日本"];
        for key in keys {
            put(&store, data(key), "").await;
        }
        let mut unit = store.begin();
        for key in keys {
            assert_eq!(
                unit.get(&data(key)).await.unwrap().unwrap().body.as_slice(),
                b"",
                "{key:?}"
            );
        }
        assert_eq!(listed(&mut unit, "a\0", "", 9).await, ["a\0b", "a\0c"]);
        assert_eq!(listed(&mut unit, "", "", 99).await.len(), keys.len());
        unit.commit().await.unwrap();
    }

    #[tokio::test]
    async fn the_same_key_in_two_spaces_is_two_records() {
        let scratch = Scratch::new();
        let store = scratch.open().await;
        let (lease, token) = (Address::new(Space::Lease, "k"), Address::new(Space::Token, "k"));
        put(&store, lease.clone(), "lease").await;
        put(&store, token.clone(), "token").await;
        let mut unit = store.begin();
        unit.delete(lease.clone());
        unit.commit().await.unwrap();
        assert_eq!(body(&store, &lease).await, None);
        assert_eq!(body(&store, &token).await.unwrap(), "token");
    }

    #[tokio::test]
    async fn an_index_comes_back_as_it_was_put() {
        let scratch = Scratch::new();
        let store = scratch.open().await;
        for due in [None, Some(0), Some(1_700_000_000_000), Some(i64::MAX as u64)] {
            let index = Index { due, lane: "orders".into(), owner: "mount".into() };
            crate::testing::put_indexed(&store, data("a"), "x", index.clone()).await;
            assert_eq!(store.begin().get(&data("a")).await.unwrap().unwrap().index, index);
        }
        let never = Index { due: Some(u64::MAX), ..Index::default() };
        crate::testing::put_indexed(&store, data("a"), "x", never).await;
        assert_eq!(
            store.begin().get(&data("a")).await.unwrap().unwrap().index.due,
            Some(i64::MAX as u64)
        );
    }
}

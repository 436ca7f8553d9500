//! Batches of a round: what a table lacks is fetched, and what the authoritative region lacks is
//! removed, as far as the limits of a run allow.
//!
//! This file prevents an older state from replacing a newer one: in the commit of a batch, the
//! configuration and the mark of each record are read again, so that a change meanwhile is a
//! conflict.

use super::listing::ListingIndex;
use super::{ANSWER_TIMEOUT_MS, APPLIED, ReplicationRound};
use crate::index::RecordTable;
use crate::region_config::RegionConfig;
use crate::replica::ForwardedMark;
use bulkhead_sdk::wire::call_limits::{COMMIT_BYTES, COMMIT_RECORDS};
use bulkhead_sdk::{Failure, FailureKind};
use std::collections::BTreeSet;

/// Maximum number of records and bytes of one batch.
const BATCH_RECORDS: usize = 300;
const BATCH_BYTES: usize = 1 << 20;
/// Maximum bytes of a stored record.
const LARGEST_RECORD: usize = 1 << 20;
/// Bytes that a record counts for, besides its own: its keys, index entries and timers.
const RECORD_OVERHEAD: usize = 1 << 10;

/// Maximum number of keys that a record takes in a commit.
const RECORD_KEYS: usize = 6;

const _: () = assert!(BATCH_RECORDS * RECORD_KEYS < COMMIT_RECORDS);
const _: () = assert!(BATCH_BYTES + LARGEST_RECORD < COMMIT_BYTES);

/// The end of a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RoundProgress {
    /// All differences are applied.
    Complete,
    /// The limits of the run allowed no more.
    Stopped {
        /// Identifier of the last handled record.
        after: String,
    },
}

/// The differences of a table from the authoritative region's list.
pub(crate) struct TableDifferences {
    /// Identifiers of records that the region has and this table lacks, sorted.
    pub(crate) wanted: Vec<String>,
    /// Identifiers of local records that the list lacks.
    pub(crate) gone: Vec<String>,
    /// Number of all local records.
    pub(crate) local: usize,
    /// Keys of marks and copies that have no use any more.
    pub(crate) spent: Vec<String>,
}

/// Identifiers of records that a forwarded write stored after a listing was made.
pub(crate) struct ForwardedWrites {
    ahead: BTreeSet<String>,
    /// Keys of expired marks.
    expired: Vec<String>,
}

impl ForwardedWrites {
    pub(crate) fn contains(&self, id: &str) -> bool {
        self.ahead.contains(id)
    }
}

impl TableDifferences {
    /// Creates the comparison of an empty table with an empty list.
    pub(crate) fn new(forwarded: &ForwardedWrites) -> Self {
        let spent = forwarded.expired.clone();
        Self { wanted: Vec::new(), gone: Vec::new(), local: 0, spent }
    }
}

/// A record of the authoritative region, and its size.
pub(crate) struct RemoteRecord<T> {
    pub(crate) record: T,
    pub(crate) bytes: usize,
}

/// Records that are committed together.
struct RecordBatch<T> {
    records: Vec<(String, T)>,
    bytes: usize,
}

impl<T> RecordBatch<T> {
    const fn new() -> Self {
        Self { records: Vec::new(), bytes: 0 }
    }

    fn add(&mut self, id: &str, RemoteRecord { record, bytes }: RemoteRecord<T>) {
        self.records.push((id.to_owned(), record));
        self.bytes = self.bytes.saturating_add(bytes).saturating_add(RECORD_OVERHEAD);
    }

    fn is_full(&self) -> bool {
        self.records.len() >= BATCH_RECORDS || self.bytes >= BATCH_BYTES
    }
}

impl ReplicationRound<'_> {
    /// Applies the differences: first the removals, then the records that the table lacks. `obtain`
    /// returns the region's record, or `None` if the record was deleted meanwhile. `apply` stores
    /// or removes a record without a commit.
    ///
    /// # Errors
    /// Unreachable for failures of the authoritative region, after all obtained records are
    /// committed. Failures of the store.
    pub(crate) fn apply<T>(
        &self,
        differences: &TableDifferences,
        listing: &ListingIndex,
        obtain: impl FnMut(&str) -> Result<Option<RemoteRecord<T>>, Failure>,
        apply: impl Fn(&str, Option<&T>) -> Result<(), Failure>,
    ) -> Result<RoundProgress, Failure> {
        let TableDifferences { wanted, gone, local, spent } = differences;
        // Ends the segment of the comparison, which wrote nothing: a later write of another record
        // causes no conflict, and a commit does not check all compared records.
        self.host.storage().checkpoint()?;
        self.permit_deletions(gone.len(), *local, listing)?;
        self.forget(spent)?;
        let progress = self.remove(gone, listing, &apply)?;
        match progress {
            RoundProgress::Complete => self.place(wanted, listing, obtain, &apply),
            stopped @ RoundProgress::Stopped { .. } => Ok(stopped),
        }
    }

    /// Removes records that the list lacks.
    fn remove<T>(
        &self,
        gone: &[String],
        listing: &ListingIndex,
        apply: &impl Fn(&str, Option<&T>) -> Result<(), Failure>,
    ) -> Result<RoundProgress, Failure> {
        let mut confirmed = Vec::new();
        let mut is_complete = true;
        for id in gone {
            if !listing.is_steady {
                if !self.budget.may_request(ANSWER_TIMEOUT_MS) {
                    is_complete = false;
                    break;
                }
                if self.fetch_record(id)?.is_some() {
                    continue;
                }
            }
            confirmed.push(id.clone());
        }
        for ids in confirmed.chunks(BATCH_RECORDS) {
            if !self.budget.may_write(ids.len()) {
                is_complete = false;
                break;
            }
            let removals = ids.iter().map(|id| (id.as_str(), None));
            self.commit(removals, ids.len() * RECORD_OVERHEAD, listing, apply)?;
        }
        match is_complete {
            true => Ok(RoundProgress::Complete),
            false => self.stopped(self.resumed_after()),
        }
    }

    /// Returns the end of a round that handled the records up to `after`.
    ///
    /// # Errors
    /// Unreachable if the round handled nothing: such rounds would repeat for ever.
    fn stopped(&self, after: &str) -> Result<RoundProgress, Failure> {
        match after == self.resumed_after() && !self.budget.has_written() {
            true => Err(self.budget.too_small()),
            false => Ok(RoundProgress::Stopped { after: after.to_owned() }),
        }
    }

    /// Obtains and stores the records that the table lacks.
    fn place<T>(
        &self,
        wanted: &[String],
        listing: &ListingIndex,
        mut obtain: impl FnMut(&str) -> Result<Option<RemoteRecord<T>>, Failure>,
        apply: &impl Fn(&str, Option<&T>) -> Result<(), Failure>,
    ) -> Result<RoundProgress, Failure> {
        let (mut batch, mut after) = (RecordBatch::new(), self.resumed_after());
        let begin = wanted.partition_point(|id| id.as_str() <= after);
        let mut ended = Ok(RoundProgress::Complete);
        for id in wanted.iter().skip(begin) {
            if !self.may_obtain(&batch) {
                ended = self.stopped(after);
                break;
            }
            match obtain(id) {
                Ok(record) => record.into_iter().for_each(|record| batch.add(id, record)),
                Err(why) => {
                    ended = Err(why);
                    break;
                }
            }
            after = id;
            if batch.is_full() {
                self.commit_batch(
                    &std::mem::replace(&mut batch, RecordBatch::new()),
                    listing,
                    apply,
                )?;
            }
        }
        self.commit_batch(&batch, listing, apply)?;
        ended
    }

    fn may_obtain<T>(&self, batch: &RecordBatch<T>) -> bool {
        // A list of roles contains each role completely.
        let may_ask =
            self.table == RecordTable::Roles || self.budget.may_request(ANSWER_TIMEOUT_MS);
        may_ask && self.budget.may_write(batch.records.len() + 1)
    }

    fn commit_batch<T>(
        &self,
        batch: &RecordBatch<T>,
        listing: &ListingIndex,
        apply: &impl Fn(&str, Option<&T>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let records = batch.records.iter().map(|(id, record)| (id.as_str(), Some(record)));
        self.commit(records, batch.bytes, listing, apply)
    }

    /// Applies and commits some records, except records that a forwarded write stored after the
    /// listing.
    fn commit<'r, T: 'r>(
        &self,
        records: impl ExactSizeIterator<Item = (&'r str, Option<&'r T>)>,
        bytes: usize,
        listing: &ListingIndex,
        apply: &impl Fn(&str, Option<&T>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        if records.len() == 0 {
            return Ok(());
        }
        self.check_config()?;
        self.budget.count_batch(records.len(), bytes);
        let (storage, mut applied) = (self.host.storage(), 0);
        for (id, record) in records {
            if !self.is_ahead(id, listing)? {
                apply(id, record)?;
                applied += 1;
            }
        }
        self.table.touch(storage)?;
        storage.checkpoint()?;
        self.host.metrics().count(&APPLIED, self.table.name(), applied);
        Ok(())
    }

    /// Checks that the configuration is that of the round.
    ///
    /// # Errors
    /// Conflict if not: the host runs the round again.
    fn check_config(&self) -> Result<(), Failure> {
        match RegionConfig::stored(self.host)? == *self.config {
            true => Ok(()),
            false => {
                let text = "the configuration changed during a round of replication";
                Err(Failure::new(FailureKind::Conflict, text))
            }
        }
    }

    /// Returns true if a forwarded write stored the record `id` after the listing.
    fn is_ahead(&self, id: &str, listing: &ListingIndex) -> Result<bool, Failure> {
        let key = format!("{}{id}", ForwardedMark::folder(self.table));
        let mark = self.host.storage().get::<ForwardedMark>(&key)?;
        let now = self.host.clock().now();
        Ok(mark.is_some_and(|mark| mark.is_ahead_of(listing.index, now)))
    }

    /// Deletes marks and copies without a use; the next round deletes what is above a batch.
    fn forget(&self, spent: &[String]) -> Result<(), Failure> {
        let storage = self.host.storage();
        spent.iter().take(BATCH_RECORDS).try_for_each(|key| storage.delete(key))?;
        if spent.is_empty() { Ok(()) } else { storage.checkpoint().map(drop) }
    }

    /// Reads the marks of forwarded writes.
    pub(crate) fn forwarded(&self, listing: &ListingIndex) -> Result<ForwardedWrites, Failure> {
        let (folder, now) = (ForwardedMark::folder(self.table), self.host.clock().now());
        let mut found = ForwardedWrites { ahead: BTreeSet::new(), expired: Vec::new() };
        self.host.storage().scan::<ForwardedMark>(folder, |id, entry| {
            if entry.value.is_ahead_of(listing.index, now) {
                found.ahead.insert(id.to_owned());
            } else {
                found.expired.push(format!("{folder}{id}"));
            }
            Ok(())
        })?;
        Ok(found)
    }
}

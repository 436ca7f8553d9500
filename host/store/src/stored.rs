//! The bytes that each mount stores, and that the host stores for each caller, and the check
//! against their limits.
//!
//! This file prevents a component or a caller from filling the disk under everybody else. A unit of
//! work is refused if a counter would exceed its limit; other units of the same group are not
//! affected. A unit that adds nothing, such as a deletion, is always stored.
//!
//! The database updates the counts within each commit. Memory holds an upper bound for each
//! counter, so that a commit to a counter with room needs no query.
//!
//! Other nodes of a shared database store bytes that this process does not count. A bound is then
//! used for a second, and a sixteenth of the limit stays in reserve: a commit that would use the
//! reserve asks in its transaction, and is exact. A counter exceeds its limit only by as much as
//! the other nodes store beyond the reserve in that second.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::mem;
use std::sync::Mutex;

use bulkhead_wire::sync;

use crate::work::CommitRequest;
use bulkhead_place::steady_clock::steady_milliseconds;
use bulkhead_record::committed_state::{CommittedState, StateQuestions};
use bulkhead_record::fault::StoreFault;
use bulkhead_record::record::Address;
use bulkhead_record::stored_limit::counters_of;

/// Maximum number of counters with an upper bound in memory. Beyond the maximum, all bounds are
/// read again.
const MOST_COUNTERS: usize = 4_096;

/// Milliseconds for which a bound is used if other nodes may store bytes.
const SHARED_TIME_MS: u64 = 1_000;
/// The part of a limit that only exact counts use if other nodes may store bytes.
const RESERVED_PART: u64 = 16;

/// Upper bounds of the bytes of counters.
pub(crate) struct StoredBytes {
    at_most: Mutex<HashMap<String, StoredBound>>,
    /// Other nodes may store bytes.
    is_shared: bool,
}

/// An upper bound of the bytes of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StoredBound {
    bytes: u64,
    /// Reading of the steady clock after the database was asked, in milliseconds.
    asked: u64,
}

impl StoredBytes {
    /// Creates an empty set of bounds. `is_shared` if other nodes may store bytes.
    pub(crate) fn new(is_shared: bool) -> StoredBytes {
        StoredBytes { at_most: Mutex::default(), is_shared }
    }

    /// Returns `true` if the counter has room for `more` bytes: certainly, or as far as this node
    /// knows of the writes of other nodes.
    pub(crate) fn has_room(&self, counter: &str, more: u64, most: u64) -> bool {
        let Some(bound) = sync::lock(&self.at_most).get(counter).copied() else { return false };
        let after = bound.bytes.saturating_add(more);
        match self.is_shared {
            false => after <= most,
            true => {
                let age = steady_milliseconds().saturating_sub(bound.asked);
                age < SHARED_TIME_MS && after <= most - most / RESERVED_PART
            }
        }
    }

    /// Updates the bounds after a commit: sets a bound to the count if the count was read, and
    /// otherwise adds the bytes put.
    pub(crate) fn note<'a>(
        &self,
        stored: &StoredTotals<'_>,
        committed: impl Iterator<Item = &'a CommitRequest>,
    ) {
        let mut at_most = sync::lock(&self.at_most);
        for (address, size) in committed.flat_map(CommitRequest::sizes) {
            for counter in counters_of(address) {
                if let Some(bound) = at_most.get_mut(counter) {
                    bound.bytes = bound.bytes.saturating_add(size);
                }
            }
        }
        if at_most.len() + stored.totals.len() > MOST_COUNTERS {
            at_most.clear();
        }
        let bound = |bytes| StoredBound { bytes, asked: stored.asked };
        let bounds = stored.totals.iter().map(|(name, bytes)| ((*name).to_owned(), bound(*bytes)));
        at_most.extend(bounds);
    }

    /// Forgets all bounds, after a commit with an unknown outcome.
    pub(crate) fn forget(&self) {
        sync::lock(&self.at_most).clear();
    }
}

/// Asks for the counts that may reach their limit by these units, and for the sizes of the rows
/// that the units replace. Other counters need no query.
pub(crate) fn ask<'a>(
    questions: &mut StateQuestions<'a>,
    works: &'a [CommitRequest],
    stored_bytes: &StoredBytes,
) {
    let short = counters_near_limit(works, stored_bytes);
    let written = works.iter().flat_map(CommitRequest::addresses);
    let counted =
        written.filter(|address| counters_of(address).any(|counter| short.contains(counter)));
    questions.sizes.extend(counted);
    questions.counters.extend(short);
}

/// Returns the counters without certain room for everything that these units put.
fn counters_near_limit<'a>(
    works: &'a [CommitRequest],
    stored_bytes: &StoredBytes,
) -> BTreeSet<&'a str> {
    let mut puts: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for (work, limit) in works.iter().flat_map(|work| work.limits.iter().map(move |it| (work, it)))
    {
        let counts =
            |address: &Address| counters_of(address).any(|counter| counter == limit.counter);
        let sizes = work.sizes().filter(|(address, _)| counts(address));
        let more: u64 = sizes.map(|(_, size)| size).sum();
        if more > 0 {
            let (all, most) = puts.entry(&limit.counter).or_insert((0, limit.most));
            *all = all.saturating_add(more);
            *most = limit.most.min(*most);
        }
    }
    let is_short = |(counter, (more, most)): &(&'a str, (u64, u64))| {
        !stored_bytes.has_room(counter, *more, *most)
    };
    puts.into_iter().filter(is_short).map(|(counter, _)| counter).collect()
}

/// The counts of the queried counters, after the units so far.
#[derive(Default)]
pub(crate) struct StoredTotals<'a> {
    totals: BTreeMap<&'a str, u64>,
    sizes: BTreeMap<&'a Address, u64>,
    /// Reading of the steady clock after the query, in milliseconds.
    asked: u64,
}

impl<'a> StoredTotals<'a> {
    /// Takes the counts and sizes from the committed state.
    pub(crate) fn of(committed: &mut CommittedState<'a>) -> Self {
        let totals = mem::take(&mut committed.counters);
        let (sizes, asked) = (mem::take(&mut committed.sizes), steady_milliseconds());
        StoredTotals { totals, sizes, asked }
    }

    /// Adds the writes of a unit to the counts.
    ///
    /// # Errors
    /// [`StoreFault::OverLimit`] if a counter would be higher than before and than its limit.
    pub(crate) fn admit(&mut self, work: &'a CommitRequest) -> Result<(), StoreFault> {
        let mut after = self.totals.clone();
        for (address, size) in work.sizes() {
            let before = self.sizes.get(address).copied().unwrap_or_default();
            for counter in counters_of(address) {
                if let Some(bytes) = after.get_mut(counter) {
                    *bytes = bytes.saturating_add(size).saturating_sub(before);
                }
            }
        }
        for limit in &work.limits {
            let counter = limit.counter.as_str();
            if let Some((before, after)) = self.totals.get(counter).zip(after.get(counter))
                && after > before
                && *after > limit.most
            {
                return Err(limit.refusal(*before, after - before));
            }
        }
        self.totals = after;
        if !self.totals.is_empty() {
            self.sizes.extend(work.sizes());
        }
        Ok(())
    }
}

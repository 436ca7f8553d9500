//! The bytes that each mount stores, and that the host stores for each caller, and the check
//! against their limits.
//!
//! This file prevents a component or a caller from filling the disk under everybody else. A unit of
//! work is refused if a counter would exceed its limit; other units of the same group are not
//! affected. A unit that adds nothing, such as a deletion, is always stored.
//!
//! The database updates the counts within each commit. Memory holds an upper bound for each
//! counter, so that a commit to a counter with room needs no query.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::mem;
use std::sync::Mutex;

use bulkhead_wire::sync;

use crate::work::CommitRequest;
use bulkhead_record::committed_state::{CommittedState, StateQuestions};
use bulkhead_record::fault::StoreFault;
use bulkhead_record::record::Address;
use bulkhead_record::stored_limit::counters_of;

/// Maximum number of counters with an upper bound in memory. Beyond the maximum, all bounds are
/// read again.
const MOST_COUNTERS: usize = 4_096;

/// Upper bounds of the bytes of counters.
#[derive(Default)]
pub(crate) struct StoredBytes {
    at_most: Mutex<HashMap<String, u64>>,
}

impl StoredBytes {
    /// Returns `true` if the counter certainly has room for `more` bytes.
    pub(crate) fn has_room(&self, counter: &str, more: u64, most: u64) -> bool {
        let at_most = sync::lock(&self.at_most);
        at_most.get(counter).is_some_and(|stored| stored.saturating_add(more) <= most)
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
                if let Some(bytes) = at_most.get_mut(counter) {
                    *bytes = bytes.saturating_add(size);
                }
            }
        }
        if at_most.len() + stored.totals.len() > MOST_COUNTERS {
            at_most.clear();
        }
        at_most.extend(stored.totals.iter().map(|(name, bytes)| ((*name).to_owned(), *bytes)));
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
}

impl<'a> StoredTotals<'a> {
    /// Takes the counts and sizes from the committed state.
    pub(crate) fn of(committed: &mut CommittedState<'a>) -> Self {
        let totals = mem::take(&mut committed.counters);
        StoredTotals { totals, sizes: mem::take(&mut committed.sizes) }
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

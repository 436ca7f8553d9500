//! The bytes that each mount stores, and the check against the mount's limit.
//!
//! Prevents a component from filling the disk under all mounts. A unit of work is refused if the
//! mount would exceed the limit; other units of the same group are not affected. A unit that adds
//! nothing, such as a deletion, is always stored.
//!
//! Triggers update the count in the database within each commit (`schema/0004.sql`). Memory holds
//! an upper bound for each mount, so that a commit to a mount with room needs no query.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Mutex;

use bulkhead_wire::sync;
use sqlx::Row as _;

use crate::fault::StoreFault;
use crate::record::Address;
use crate::script::{BatchRows, StatementBatch};
use crate::statements::AddressQuery;
use crate::stored_limit::mount_of;
use crate::work::CommitRequest;

/// Maximum number of mounts with an upper bound in memory. Beyond the maximum, all bounds are read
/// again.
const MOST_MOUNTS: usize = 4_096;

/// Upper bounds of the bytes that mounts store.
#[derive(Default)]
pub(crate) struct StoredBytes {
    at_most: Mutex<HashMap<String, u64>>,
}

impl StoredBytes {
    /// Returns `true` if the mount certainly has room for `more` bytes.
    fn has_room(&self, mount: &str, more: u64, most: u64) -> bool {
        let at_most = sync::lock(&self.at_most);
        at_most.get(mount).is_some_and(|stored| stored.saturating_add(more) <= most)
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
            if let Some(bytes) = mount_of(address).and_then(|mount| at_most.get_mut(mount)) {
                *bytes = bytes.saturating_add(size);
            }
        }
        if at_most.len() + stored.totals.len() > MOST_MOUNTS {
            at_most.clear();
        }
        at_most.extend(stored.totals.iter().map(|(mount, bytes)| ((*mount).to_owned(), *bytes)));
    }

    /// Forgets all bounds, after a commit with an unknown outcome.
    pub(crate) fn forget(&self) {
        sync::lock(&self.at_most).clear();
    }
}

/// The queries about mounts that may lack room.
pub(crate) struct AskedStored<'a> {
    /// Each mount with the index of the count among the answers.
    totals: Vec<(&'a str, usize)>,
    sizes: AddressQuery<'a>,
}

impl<'a> AskedStored<'a> {
    /// Asks for the counts of mounts that may reach their limit by these units, and for the sizes
    /// of the rows that the units replace. Other mounts need no query.
    ///
    /// # Errors
    /// As [`StatementBatch::bind`].
    pub(crate) fn of(
        script: &mut StatementBatch,
        works: &'a [CommitRequest],
        known: &StoredBytes,
    ) -> Result<Self, sqlx::Error> {
        let short = mounts_near_limit(works, known);
        let mut totals = Vec::with_capacity(short.len());
        for mount in &short {
            totals.push((*mount, script.len()));
            script.add("SELECT bytes FROM stored WHERE mount = ?");
            script.bind(*mount)?;
        }
        let written = works.iter().flat_map(CommitRequest::addresses);
        let counted =
            written.filter(|address| mount_of(address).is_some_and(|it| short.contains(it)));
        Ok(AskedStored { totals, sizes: AddressQuery::sizes(script, counted)? })
    }

    /// Returns the counts and sizes from the answers.
    ///
    /// # Errors
    /// The error of SQLite.
    pub(crate) fn stored(&self, answers: &BatchRows) -> Result<StoredTotals<'a>, sqlx::Error> {
        let mut totals = BTreeMap::new();
        for (mount, place) in &self.totals {
            let row = answers.get(*place).and_then(|rows| rows.first());
            let bytes: i64 = row.map_or(Ok(0), |row| row.try_get("bytes"))?;
            totals.insert(*mount, u64::try_from(bytes).unwrap_or_default());
        }
        Ok(StoredTotals { totals, sizes: self.sizes.numbers(answers)? })
    }
}

/// Returns the mounts without certain room for everything that these units put.
fn mounts_near_limit<'a>(works: &'a [CommitRequest], known: &StoredBytes) -> BTreeSet<&'a str> {
    let mut puts: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for work in works {
        let Some(limit) = &work.limit else { continue };
        let sizes = work.sizes().filter(|(address, _)| mount_of(address) == Some(&limit.mount));
        let more: u64 = sizes.map(|(_, size)| size).sum();
        if more > 0 {
            let (all, most) = puts.entry(&limit.mount).or_insert((0, limit.most));
            *all = all.saturating_add(more);
            *most = limit.most.min(*most);
        }
    }
    let is_short =
        |(mount, (more, most)): &(&'a str, (u64, u64))| !known.has_room(mount, *more, *most);
    puts.into_iter().filter(is_short).map(|(mount, _)| mount).collect()
}

/// The counts of the queried mounts, after the units so far.
#[derive(Default)]
pub(crate) struct StoredTotals<'a> {
    totals: BTreeMap<&'a str, u64>,
    sizes: BTreeMap<&'a Address, u64>,
}

impl<'a> StoredTotals<'a> {
    /// Adds the writes of a unit to the counts.
    ///
    /// # Errors
    /// [`StoreFault::OverLimit`] if the mount would store more than before and more than its limit.
    pub(crate) fn admit(&mut self, work: &'a CommitRequest) -> Result<(), StoreFault> {
        let mut after = self.totals.clone();
        for (address, size) in work.sizes() {
            if let Some(bytes) = mount_of(address).and_then(|mount| after.get_mut(mount)) {
                let before = self.sizes.get(address).copied().unwrap_or_default();
                *bytes = bytes.saturating_add(size).saturating_sub(before);
            }
        }
        if let Some(limit) = &work.limit
            && let Some((before, after)) =
                self.totals.get(limit.mount.as_str()).zip(after.get(limit.mount.as_str()))
            && after > before
            && *after > limit.most
        {
            return Err(limit.refusal(*before, after - before));
        }
        self.totals = after;
        if !self.totals.is_empty() {
            self.sizes.extend(work.sizes());
        }
        Ok(())
    }
}

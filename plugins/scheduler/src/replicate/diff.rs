//! The difference between a table and the authoritative region's list.

use crate::authority::unfit;
use bulkhead_sdk::Failure;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of records and bytes of one batch. A record needs up to four keys, and a commit
/// may write 2,048 keys and 3 MiB.
const BATCH_RECORDS: usize = 300;
const BATCH_BYTES: usize = 1 << 20;

/// Splits changes into batches that fit into a commit. `bytes` returns the size of a change.
pub(super) fn batches<T>(changes: Vec<T>, bytes: impl Fn(&T) -> usize) -> Vec<Vec<T>> {
    let (mut batches, mut batch, mut filled) = (Vec::new(), Vec::new(), 0_usize);
    for change in changes {
        let size = bytes(&change);
        let is_full = batch.len() == BATCH_RECORDS || filled.saturating_add(size) > BATCH_BYTES;
        if is_full && !batch.is_empty() {
            batches.push(std::mem::take(&mut batch));
            filled = 0;
        }
        filled = filled.saturating_add(size);
        batch.push(change);
    }
    if !batch.is_empty() {
        batches.push(batch);
    }
    batches
}

/// A change of the record `id`: a new state or a removal.
pub(super) struct RecordChange<T> {
    pub(super) id: String,
    /// `None` deletes the record.
    pub(super) record: Option<T>,
}

/// Returns the identifiers of local records that are missing from the list, except records that a
/// forwarded write stored after the listing.
pub(super) fn missing<L, R>(
    local: &BTreeMap<String, L>,
    remote: &BTreeMap<String, R>,
    ahead: &BTreeSet<String>,
) -> Vec<String> {
    let ids = local.keys().filter(|id| !remote.contains_key(*id) && !ahead.contains(*id));
    ids.cloned().collect()
}

/// Combines removals and new states; the removals come first.
pub(super) fn changes<T>(gone: Vec<String>, put: Vec<(String, T)>) -> Vec<RecordChange<T>> {
    let removals = gone.into_iter().map(|id| RecordChange { id, record: None });
    let puts = put.into_iter().map(|(id, record)| RecordChange { id, record: Some(record) });
    removals.chain(puts).collect()
}

/// Indexes the records by identifier.
///
/// # Errors
/// Unreachable if an identifier occurs twice, because no region has such a list.
pub(super) fn by_id<R>(
    records: impl IntoIterator<Item = Result<(String, R), Failure>>,
) -> Result<BTreeMap<String, R>, Failure> {
    let mut found = BTreeMap::new();
    for record in records {
        let (id, record) = record?;
        if found.insert(id.clone(), record).is_some() {
            return Err(unfit(format!("the authoritative region lists {id} twice")));
        }
    }
    Ok(found)
}

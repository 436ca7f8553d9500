//! The mount's records in memory, with the uncommitted writes of the running call.

use crate::host::{Entry, RecordPage};
use bulkhead_wire::failure::Failure;
use std::collections::BTreeMap;

/// Committed records, and the writes of the running call.
#[derive(Default)]
pub(super) struct Records {
    committed: BTreeMap<String, Entry<Vec<u8>>>,
    /// Writes by key; `None` deletes.
    buffered: BTreeMap<String, Option<Vec<u8>>>,
    /// Number of commits that wrote something; `None` if the engine is not indexed.
    index: Option<u64>,
    /// Revision of each folder that was asked for.
    revisions: BTreeMap<String, u64>,
    last_revision: u64,
}

impl Records {
    /// Begins to number commits.
    pub(super) fn number_commits(&mut self) {
        self.index = Some(0);
    }

    /// Returns the record under `key` as the call sees the record.
    pub(super) fn get(&self, key: &str) -> Option<Entry<Vec<u8>>> {
        match self.buffered.get(key) {
            Some(own) => own.clone().map(|value| Entry { value, created: 0, modified: 0 }),
            None => self.committed.get(key).cloned(),
        }
    }

    /// Buffers a write, or a deletion for `None`.
    pub(super) fn put(&mut self, key: &str, value: Option<Vec<u8>>) {
        self.buffered.insert(key.to_owned(), value);
    }

    /// Returns the keys below `prefix` and after `after` as the call sees them, without the prefix.
    pub(super) fn keys(&self, prefix: &str, after: &str, limit: u32) -> Vec<String> {
        let mut seen: BTreeMap<&str, bool> =
            self.committed.keys().map(|key| (key.as_str(), true)).collect();
        seen.extend(self.buffered.iter().map(|(key, value)| (key.as_str(), value.is_some())));
        let keys = seen.into_iter().filter_map(|(key, exists)| exists.then_some(key));
        let names = keys.filter_map(|key| key.strip_prefix(prefix)).filter(|name| *name > after);
        names.take(limit as usize).map(str::to_owned).collect()
    }

    /// Returns the records below `prefix` and after `after` as the call sees them, with their keys.
    pub(super) fn scan(&self, prefix: &str, after: &str, limit: u32) -> RecordPage {
        let names = self.keys(prefix, after, limit).into_iter();
        names
            .filter_map(|name| Some((name.clone(), self.get(&format!("{prefix}{name}"))?)))
            .collect()
    }

    /// Returns the revision of the committed records below `prefix`; a new number if the call wrote
    /// there.
    ///
    /// # Errors
    /// Invalid request if the prefix ends in the middle of a name.
    pub(super) fn revision(&mut self, prefix: &str) -> Result<u64, Failure> {
        if !prefix.is_empty() && !prefix.ends_with('/') {
            return Err(Failure::invalid(format!(
                "{prefix:?} is not a folder: it does not end in a slash"
            )));
        }
        self.last_revision += 1;
        if self.buffered.keys().any(|key| key.starts_with(prefix)) {
            return Ok(self.last_revision);
        }
        Ok(*self.revisions.entry(prefix.to_owned()).or_insert(self.last_revision))
    }

    /// Commits and returns the index of the commit; 0 if nothing was written or commits are not
    /// numbered.
    pub(super) fn commit(&mut self) -> u64 {
        let buffered = std::mem::take(&mut self.buffered);
        let is_changed = |folder: &str| buffered.keys().any(|key| key.starts_with(folder));
        self.revisions.retain(|folder, _| !is_changed(folder));
        let modified = match &mut self.index {
            Some(index) if !buffered.is_empty() => {
                *index += 1;
                *index
            }
            _ => 0,
        };
        for (key, value) in buffered {
            match value {
                Some(value) => {
                    let created = self.committed.get(&key).map_or(modified, |was| was.created);
                    self.committed.insert(key, Entry { value, created, modified })
                }
                None => self.committed.remove(&key),
            };
        }
        modified
    }

    /// Returns the number and the bytes of the uncommitted writes.
    pub(super) fn count_buffered(&self) -> (usize, usize) {
        let bytes = self.buffered.values().flatten().map(Vec::len).sum();
        (self.buffered.len(), bytes)
    }

    pub(super) fn roll_back(&mut self) {
        self.buffered.clear();
    }

    /// Returns the committed bytes under `key`.
    pub(super) fn committed(&self, key: &str) -> Option<&[u8]> {
        self.committed.get(key).map(|entry| entry.value.as_slice())
    }
}

//! The mount's records in memory, with what the call wrote and has not committed.

use crate::host::{Entry, Page};
use bulkhead_wire::failure::Failure;
use std::collections::BTreeMap;

/// What is committed, and the call's own writes over it.
#[derive(Default)]
pub(super) struct Records {
    committed: BTreeMap<String, Entry<Vec<u8>>>,
    /// `None` removes.
    buffered: BTreeMap<String, Option<Vec<u8>>>,
    /// How many commits wrote something; `None` for an engine that is not indexed.
    index: Option<u64>,
    /// The number of each folder that was asked for, and the last number that was given.
    revisions: BTreeMap<String, u64>,
    last_revision: u64,
}

impl Records {
    /// Numbers commits from now on.
    pub(super) fn number_commits(&mut self) {
        self.index = Some(0);
    }

    /// The record under `key` as the call sees it.
    pub(super) fn get(&self, key: &str) -> Option<Entry<Vec<u8>>> {
        match self.buffered.get(key) {
            Some(own) => own.clone().map(|value| Entry { value, created: 0, modified: 0 }),
            None => self.committed.get(key).cloned(),
        }
    }

    /// Buffers a write, or a removal.
    pub(super) fn put(&mut self, key: &str, value: Option<Vec<u8>>) {
        self.buffered.insert(key.to_owned(), value);
    }

    /// Keys below `prefix` and after `after` as the call sees them, without the prefix.
    pub(super) fn keys(&self, prefix: &str, after: &str, limit: u32) -> Vec<String> {
        let mut seen: BTreeMap<&str, bool> =
            self.committed.keys().map(|key| (key.as_str(), true)).collect();
        seen.extend(self.buffered.iter().map(|(key, value)| (key.as_str(), value.is_some())));
        let keys = seen.into_iter().filter_map(|(key, exists)| exists.then_some(key));
        let names = keys.filter_map(|key| key.strip_prefix(prefix)).filter(|name| *name > after);
        names.take(limit as usize).map(str::to_owned).collect()
    }

    /// Records below `prefix` and after `after` as the call sees them, with their keys.
    pub(super) fn scan(&self, prefix: &str, after: &str, limit: u32) -> Page {
        let names = self.keys(prefix, after, limit).into_iter();
        names
            .filter_map(|name| Some((name.clone(), self.get(&format!("{prefix}{name}"))?)))
            .collect()
    }

    /// The number of what is committed below `prefix`; one of its own where the call wrote there.
    ///
    /// # Errors
    /// Invalid request for a prefix that ends in the middle of a name.
    pub(super) fn revision(&mut self, prefix: &str) -> Result<u64, Failure> {
        if !prefix.is_empty() && !prefix.ends_with('/') {
            return Err(Failure::invalid(format!("{prefix:?} is no folder: it ends in no slash")));
        }
        self.last_revision += 1;
        if self.buffered.keys().any(|key| key.starts_with(prefix)) {
            return Ok(self.last_revision);
        }
        Ok(*self.revisions.entry(prefix.to_owned()).or_insert(self.last_revision))
    }

    /// Commits, and gives the index of the commit; 0 where nothing was written, or nothing is
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

    pub(super) fn roll_back(&mut self) {
        self.buffered.clear();
    }

    /// The committed bytes under `key`.
    pub(super) fn committed(&self, key: &str) -> Option<&[u8]> {
        self.committed.get(key).map(|entry| entry.value.as_slice())
    }
}

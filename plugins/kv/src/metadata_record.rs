//! The stored metadata of a secret: its versions and its rules.
//!
//! This file prevents a lost version. Every change of a secret writes this record, so two changes
//! at the same time conflict, and the later one runs again with the result of the earlier.

use crate::config::Config;
use crate::lifetime::DeleteAfter;
use crate::secret_path::SecretPath;
use crate::timestamp::{timestamp, timestamp_or_empty};
use bulkhead_sdk::database_plugin::StoreTime;
use bulkhead_sdk::wire::call_limits::COMMIT_RECORDS;
use bulkhead_sdk::{Failure, Host, stored};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Maximum number of versions that are removed in one commit, which writes a record for each.
const REMOVED_VERSIONS: usize = 1_000;

const _: () = assert!(REMOVED_VERSIONS < COMMIT_RECORDS);

/// The metadata of a secret.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Metadata {
    pub(crate) created: StoreTime,
    pub(crate) updated: StoreTime,
    /// Number of the latest version; 0 if there is none.
    pub(crate) current: u64,
    /// Number of the oldest version that is kept; 0 while no version had to go.
    pub(crate) oldest: u64,
    pub(crate) versions: BTreeMap<u64, Version>,
    /// 0 leaves the number to the configuration.
    pub(crate) max_versions: u32,
    pub(crate) cas_required: bool,
    pub(crate) delete_version_after: DeleteAfter,
    pub(crate) custom: Option<BTreeMap<String, String>>,
}

stored!(Metadata, "metadata", reads_stored_metadata);

/// A version of a secret.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct Version {
    pub(crate) created: StoreTime,
    /// Time at which the version is or was deleted.
    pub(crate) deleted: Option<StoreTime>,
    /// The data were removed for good.
    pub(crate) destroyed: bool,
}

impl Version {
    /// Returns whether the data can be read at `now`.
    pub(crate) fn is_present(&self, now: StoreTime) -> bool {
        !self.destroyed && self.deleted.is_none_or(|at| at > now)
    }

    /// Deletes the version at `now`, unless the data cannot be read anyway.
    pub(crate) fn delete(&mut self, now: StoreTime) {
        if self.is_present(now) {
            self.deleted = Some(now);
        }
    }

    /// Returns the version as the metadata list it.
    pub(crate) fn show(&self) -> Value {
        json!({
            "created_time": timestamp(self.created),
            "deletion_time": timestamp_or_empty(self.deleted),
            "destroyed": self.destroyed,
        })
    }
}

impl Metadata {
    /// Returns the metadata of the secret, if there are any.
    pub(crate) fn read(host: &dyn Host, path: &SecretPath<'_>) -> Result<Option<Self>, Failure> {
        host.storage().get(&path.metadata())
    }

    /// Creates the metadata of a new secret.
    pub(crate) fn new(now: StoreTime) -> Self {
        Self { created: now, updated: now, ..Self::default() }
    }

    /// Stores the metadata.
    pub(crate) fn put(
        &mut self,
        host: &dyn Host,
        path: &SecretPath<'_>,
        now: StoreTime,
    ) -> Result<(), Failure> {
        self.updated = now;
        host.storage().put(&path.metadata(), self)
    }

    /// Returns the number of the asked version, or of the latest, with the version; `None` if there
    /// is no such version.
    pub(crate) fn version(&self, asked: Option<u64>) -> Option<(u64, &Version)> {
        let number = asked.unwrap_or(self.current);
        self.versions.get(&number).map(|version| (number, version))
    }

    /// Adds a version and returns the numbers of versions to remove: the oldest, as far as the
    /// secret keeps too many.
    pub(crate) fn add_version(&mut self, config: &Config, now: StoreTime) -> Vec<u64> {
        let life = config.delete_version_after.shorter(self.delete_version_after);
        let deleted = life.map(|seconds| now.saturating_add(seconds.saturating_mul(1_000)));
        self.current = self.current.saturating_add(1);
        self.versions.insert(self.current, Version { created: now, deleted, destroyed: false });
        self.prune(config.versions_kept(self.max_versions))
    }

    /// Removes versions before `end`, the oldest first and at most [`REMOVED_VERSIONS`], and
    /// returns their numbers.
    pub(crate) fn take_before(&mut self, end: u64) -> Vec<u64> {
        let before = self.versions.range(..end).take(REMOVED_VERSIONS);
        let taken: Vec<u64> = before.map(|(number, _)| *number).collect();
        for number in &taken {
            self.versions.remove(number);
        }
        taken
    }

    fn prune(&mut self, kept: u64) -> Vec<u64> {
        if self.current.saturating_sub(self.oldest) < kept {
            return Vec::new();
        }
        let oldest = self.current.saturating_sub(kept).saturating_add(1);
        let gone = self.take_before(oldest);
        // The next writes remove the rest.
        let first = self.versions.keys().next().copied();
        self.oldest = first.map_or(oldest, |first| first.min(oldest));
        gone
    }

    /// Returns the facts about a version that accompany its data.
    pub(crate) fn show_version(&self, number: u64, version: &Version) -> Map<String, Value> {
        let mut shown = Map::new();
        if let Value::Object(members) = version.show() {
            shown.extend(members);
        }
        shown.insert("version".to_owned(), json!(number));
        shown.insert("custom_metadata".to_owned(), json!(self.custom));
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(versions: u64, kept: u32) -> (Metadata, Vec<u64>) {
        let config = Config { max_versions: kept, ..Config::default() };
        let mut metadata = Metadata::new(1);
        let gone = (0..versions).flat_map(|_| metadata.add_version(&config, 1)).collect();
        (metadata, gone)
    }

    #[test]
    fn oldest_versions_beyond_limit_are_removed() {
        for (versions, kept, oldest, gone) in [
            (9, 0, 0, vec![]),
            (10, 0, 1, vec![]),
            (11, 0, 2, vec![1]),
            (5, 2, 4, vec![1, 2, 3]),
            (3, 1, 3, vec![1, 2]),
        ] {
            let (metadata, removed) = with(versions, kept);
            assert_eq!((metadata.oldest, removed), (oldest, gone), "{versions} {kept}");
            assert_eq!(metadata.current, versions);
        }
    }

    #[test]
    fn lower_limit_removes_several_versions_at_next_write() {
        let (mut metadata, _) = with(8, 0);
        metadata.max_versions = 2;
        assert_eq!(metadata.add_version(&Config::default(), 1), [1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(metadata.versions.keys().copied().collect::<Vec<_>>(), [8, 9]);
    }

    #[test]
    fn thousands_of_versions_go_in_several_writes() {
        let (mut metadata, _) = with(2_500, 5_000);
        let config = Config { max_versions: 1, ..Config::default() };
        let gone: Vec<usize> = (0..4).map(|_| metadata.add_version(&config, 1).len()).collect();
        assert_eq!(gone, [1_000, 1_000, 502, 1]);
        assert_eq!((metadata.oldest, metadata.versions.len()), (2_504, 1));
    }

    #[test]
    fn version_with_end_is_present_until_end() {
        let version = Version { created: 1, deleted: Some(10), destroyed: false };
        assert!(version.is_present(9) && !version.is_present(10));
        assert!(!Version { destroyed: true, ..Version::default() }.is_present(1));
    }
}

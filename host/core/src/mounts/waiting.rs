//! The unavailable mounts in the table of mounts, which wait for a version that can serve them.

use super::record::MountRecord;
use super::table::{Mounts, key};
use super::unavailable::UnavailableMount;
use crate::catalog::PluginType;
use std::sync::Arc;
use std::time::Instant;

impl Mounts {
    /// Marks a mount as unavailable.
    pub(crate) fn set_unavailable(&self, record: MountRecord, why: String) {
        let mut table = self.write();
        if let Some(mount) = table.by_uuid.get(&record.uuid).map(Arc::clone) {
            table.remove(&mount);
        }
        let before = table.unavailable.get(key(&record.path));
        let since = before.map_or_else(Instant::now, |before| before.since);
        table
            .unavailable
            .insert(key(&record.path).to_owned(), UnavailableMount { record, why, since });
    }

    /// Marks the mount of `record` as unavailable, with its newest record.
    pub(crate) fn set_unavailable_now(&self, record: &MountRecord, why: String) {
        let newest = self.record_of(&record.uuid).unwrap_or_else(|| record.clone());
        self.set_unavailable(newest, why);
    }

    /// Changes the reason of an unavailable mount. Does nothing if the mount serves by now.
    pub(crate) fn set_reason(&self, uuid: &str, why: String) {
        let mut table = self.write();
        let found = table.unavailable.values_mut().find(|mount| mount.record.uuid == uuid);
        if let Some(mount) = found {
            mount.why = why;
        }
    }

    /// Returns every unavailable mount, in the order of paths.
    pub fn list_unavailable(&self) -> Vec<UnavailableMount> {
        self.read().unavailable.values().cloned().collect()
    }

    /// Returns the unavailable mount `uuid`.
    pub(crate) fn unavailable_by_uuid(&self, uuid: &str) -> Option<UnavailableMount> {
        self.read().unavailable.values().find(|mount| mount.record.uuid == uuid).cloned()
    }

    /// Returns the unavailable mounts of a plugin.
    pub(crate) fn unavailable_of(&self, kind: PluginType, name: &str) -> Vec<UnavailableMount> {
        self.list_unavailable().into_iter().filter(|mount| mount.record.is_of(kind, name)).collect()
    }
}

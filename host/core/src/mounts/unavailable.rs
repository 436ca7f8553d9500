//! Mounts with an unavailable plugin. Such a mount answers every request with that fact, keeps its
//! path, rows and leases, and serves again when the plugin is registered again or when the operator
//! chooses another version. An unavailable mount can be disabled.
//!
//! Prevents a single plugin that does not load from blocking the opening of the whole service.

use super::record::MountRecord;
use super::table::{Mounts, key};
use crate::catalog::PluginType;
use bulkhead_wire::failure::{Failure, Kind};
use std::sync::Arc;

/// A mount without its plugin, and the reason.
#[derive(Clone)]
pub(crate) struct UnavailableMount {
    pub(crate) record: MountRecord,
    pub(crate) why: String,
}

impl UnavailableMount {
    /// Returns the failure of requests to the mount.
    pub(crate) fn failure(&self) -> Failure {
        let MountRecord { path, kind, .. } = &self.record;
        let why = &self.why;
        let message = format!("plugin {kind} of mount {path} is not available: {why}");
        Failure { retry_after: Some(60_000), ..Failure::new(Kind::Unavailable, message) }
    }
}

impl Mounts {
    /// Marks a mount as unavailable.
    pub(crate) fn set_unavailable(&self, record: MountRecord, why: String) {
        let mut table = self.write();
        if let Some(mount) = table.by_uuid.get(&record.uuid).map(Arc::clone) {
            table.remove(&mount);
        }
        table.unavailable.insert(key(&record.path).to_owned(), UnavailableMount { record, why });
    }

    /// Returns every unavailable mount, in the order of paths.
    pub(crate) fn unavailable(&self) -> Vec<UnavailableMount> {
        self.read().unavailable.values().cloned().collect()
    }

    /// Returns the unavailable mount `uuid`.
    pub(crate) fn unavailable_by_uuid(&self, uuid: &str) -> Option<UnavailableMount> {
        self.read().unavailable.values().find(|mount| mount.record.uuid == uuid).cloned()
    }

    /// Returns the unavailable mounts of a plugin.
    pub(crate) fn unavailable_of(&self, kind: PluginType, name: &str) -> Vec<UnavailableMount> {
        self.unavailable().into_iter().filter(|mount| mount.record.is_of(kind, name)).collect()
    }
}

//! Whose leases are at a path: those of a mount are its own whether its plugin is there or not.

use super::record::MountRecord;
use super::table::{Mounts, key};
use super::unavailable::UnavailableMount;
use crate::catalog::PluginType;
use bulkhead_wire::failure::Failure;
use std::sync::Arc;

/// A mount as the book of leases knows it: its leases are its own whether its plugin is there or
/// not.
pub(crate) struct Holder {
    /// With the slash at its end.
    pub(crate) path: String,
    pub(crate) uuid: String,
}

impl Holder {
    fn of(record: &MountRecord) -> Self {
        Self { path: record.path.to_string(), uuid: record.uuid.clone() }
    }
}

impl Mounts {
    /// Who holds the leases at `path`, and the rest of the path below it.
    pub(crate) fn holder<'p>(&self, path: &'p str) -> Option<(Holder, &'p str)> {
        if let Some((mount, rest)) = self.owner(path) {
            return Some((Holder::of(&mount.record), rest));
        }
        let table = self.read();
        let mut unavailable = table.unavailable.iter();
        unavailable.find_map(|(mount, one)| Some((Holder::of(&one.record), below(path, mount)?)))
    }

    /// Everyone who may hold leases, in the order of their paths.
    pub(crate) fn holders(&self) -> Vec<Holder> {
        let table = self.read();
        let unavailable = table.unavailable.values().map(|one| &one.record);
        let records = table.by_path.values().map(|mount| &mount.record).chain(unavailable);
        let mut holders: Vec<Holder> = records.map(Holder::of).collect();
        holders.sort_by(|one, other| one.path.cmp(&other.path));
        holders
    }

    /// Leaves a mount out that cannot be served.
    pub(crate) fn set_unavailable(&self, record: MountRecord, why: String) {
        let mut table = self.write();
        if let Some(mount) = table.by_uuid.get(&record.uuid).map(Arc::clone) {
            table.remove(&mount);
        }
        table.unavailable.insert(key(&record.path).to_owned(), UnavailableMount { record, why });
    }

    /// Why nothing below `path` is served, where a mount there waits for its plugin.
    pub(crate) fn unavailable_at(&self, path: &str) -> Option<Failure> {
        let table = self.read();
        let mut unavailable = table.unavailable.iter();
        unavailable
            .find(|(mount, _)| below(path, mount).is_some())
            .map(|(_, mount)| mount.failure())
    }

    /// Why the mount `uuid` is not there: it waits for its plugin, which may pass, or there is
    /// none.
    pub(crate) fn missing(&self, uuid: &str) -> Failure {
        self.waits(uuid)
            .unwrap_or_else(|| Failure::internal("the lease's mount does not exist any more"))
    }

    /// What the mount `uuid` waits for; `None` where it does not wait.
    pub(crate) fn waits(&self, uuid: &str) -> Option<Failure> {
        let table = self.read();
        table
            .unavailable
            .values()
            .find(|mount| mount.record.uuid == uuid)
            .map(UnavailableMount::failure)
    }

    /// Takes out the mounts that wait for that plugin.
    pub(crate) fn take_unavailable(&self, kind: PluginType, name: &str) -> Vec<MountRecord> {
        let mut table = self.write();
        let found: Vec<String> = table
            .unavailable
            .iter()
            .filter(|(_, one)| one.record.is_of(kind, name))
            .map(|(path, _)| path.clone())
            .collect();
        found
            .iter()
            .filter_map(|path| table.unavailable.remove(path))
            .map(|one| one.record)
            .collect()
    }
}

/// The rest of `path` below the mount at `mount`.
fn below<'p>(path: &'p str, mount: &str) -> Option<&'p str> {
    let rest = path.strip_prefix(mount)?;
    (rest.is_empty() || rest.starts_with('/')).then(|| rest.trim_start_matches('/'))
}

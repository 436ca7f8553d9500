//! Holders of leases: a mount holds the leases below its path, whether its plugin is available or
//! not.

use super::record::MountRecord;
use super::table::Mounts;
use super::unavailable::UnavailableMount;
use bulkhead_wire::failure::Failure;

/// A mount as the holder of leases, whether its plugin is available or not.
pub(crate) struct Holder {
    /// The mount's path, with a slash at the end.
    pub(crate) path: String,
    pub(crate) uuid: String,
}

impl Holder {
    fn of(record: &MountRecord) -> Self {
        Self { path: record.path.to_string(), uuid: record.uuid.clone() }
    }
}

impl Mounts {
    /// Returns the holder of the leases at `path`, and the rest of the path below the holder.
    pub(crate) fn holder<'p>(&self, path: &'p str) -> Option<(Holder, &'p str)> {
        if let Some((mount, rest)) = self.owner(path) {
            return Some((Holder::of(&mount.record), rest));
        }
        let table = self.read();
        let mut unavailable = table.unavailable.iter();
        unavailable.find_map(|(mount, one)| Some((Holder::of(&one.record), below(path, mount)?)))
    }

    /// Returns every mount that may hold leases, in the order of paths.
    pub(crate) fn holders(&self) -> Vec<Holder> {
        let table = self.read();
        let unavailable = table.unavailable.values().map(|one| &one.record);
        let records = table.by_path.values().map(|mount| &mount.record).chain(unavailable);
        let mut holders: Vec<Holder> = records.map(Holder::of).collect();
        holders.sort_by(|one, other| one.path.cmp(&other.path));
        holders
    }

    /// Returns the failure of requests below `path`, if the mount at the path is unavailable.
    pub(crate) fn unavailable_at(&self, path: &str) -> Option<Failure> {
        let table = self.read();
        let mut unavailable = table.unavailable.iter();
        unavailable
            .find(|(mount, _)| below(path, mount).is_some())
            .map(|(_, mount)| mount.failure())
    }

    /// Returns the reason why the mount `uuid` is missing: the mount is unavailable, which may
    /// pass, or does not exist.
    pub(crate) fn missing(&self, uuid: &str) -> Failure {
        self.waits(uuid)
            .unwrap_or_else(|| Failure::internal("the lease's mount does not exist any more"))
    }

    /// Returns the failure of the unavailable mount `uuid`; `None` if the mount is not unavailable.
    pub(crate) fn waits(&self, uuid: &str) -> Option<Failure> {
        let table = self.read();
        table
            .unavailable
            .values()
            .find(|mount| mount.record.uuid == uuid)
            .map(UnavailableMount::failure)
    }
}

/// Returns the rest of `path` below the mount at `mount`.
fn below<'p>(path: &'p str, mount: &str) -> Option<&'p str> {
    let rest = path.strip_prefix(mount)?;
    (rest.is_empty() || rest.starts_with('/')).then(|| rest.trim_start_matches('/'))
}

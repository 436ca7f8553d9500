//! Holders of leases: a mount holds the leases below its path, whether its plugin is available or
//! not.

use super::record::MountRecord;
use super::table::Mounts;
use super::unavailable::UnavailableMount;
use bulkhead_wire::failure::Failure;

/// A mount as the holder of leases, whether its plugin is available or not.
pub struct LeaseHolder {
    /// The mount's path, with a slash at the end.
    pub path: String,
    /// First segment of the keys of the mount's leases; stays the same when the mount moves.
    pub uuid: String,
}

impl LeaseHolder {
    fn of(record: &MountRecord) -> Self {
        Self { path: record.path.to_string(), uuid: record.uuid.clone() }
    }
}

impl Mounts {
    /// Returns the holder of the leases at `path`, and the rest of the path below the holder.
    pub fn holder<'p>(&self, path: &'p str) -> Option<(LeaseHolder, &'p str)> {
        if let Some((mount, rest)) = self.find_owner(path) {
            return Some((LeaseHolder::of(&mount.record), rest));
        }
        let table = self.read();
        let mut unavailable = table.unavailable.iter();
        unavailable.find_map(|(mount, one)| {
            Some((LeaseHolder::of(&one.record), strip_mount(path, mount)?))
        })
    }

    /// Returns every mount that may hold leases, in the order of paths.
    pub fn holders(&self) -> Vec<LeaseHolder> {
        let table = self.read();
        let unavailable = table.unavailable.values().map(|one| &one.record);
        let records = table.by_path.values().map(|mount| &mount.record).chain(unavailable);
        let mut holders: Vec<LeaseHolder> = records.map(LeaseHolder::of).collect();
        holders.sort_by(|one, other| one.path.cmp(&other.path));
        holders
    }

    /// Returns the failure of requests below `path`, if the mount at the path is unavailable.
    pub fn unavailable_at(&self, path: &str) -> Option<Failure> {
        let table = self.read();
        let mut unavailable = table.unavailable.iter();
        unavailable
            .find(|(mount, _)| strip_mount(path, mount).is_some())
            .map(|(_, mount)| mount.failure())
    }

    /// Returns the record of the unavailable mount at `path` whose data are being migrated, or were
    /// when a migration stopped.
    pub(crate) fn migrating_at(&self, path: &str) -> Option<MountRecord> {
        let table = self.read();
        let mut unavailable = table.unavailable.iter();
        let (_, found) = unavailable.find(|(mount, _)| strip_mount(path, mount).is_some())?;
        found.record.migration.is_some().then(|| found.record.clone())
    }

    /// Returns the reason why the mount `uuid` is missing: the mount is unavailable, which may
    /// pass, or does not exist.
    pub(crate) fn missing_failure(&self, uuid: &str) -> Failure {
        self.unavailable_failure(uuid)
            .unwrap_or_else(|| Failure::internal("the lease's mount does not exist any more"))
    }

    /// Returns the failure of the unavailable mount `uuid`; `None` if the mount is not unavailable.
    pub(crate) fn unavailable_failure(&self, uuid: &str) -> Option<Failure> {
        let table = self.read();
        table
            .unavailable
            .values()
            .find(|mount| mount.record.uuid == uuid)
            .map(UnavailableMount::failure)
    }
}

/// Returns the rest of `path` below the mount at `mount`.
fn strip_mount<'p>(path: &'p str, mount: &str) -> Option<&'p str> {
    let rest = path.strip_prefix(mount)?;
    (rest.is_empty() || rest.starts_with('/')).then(|| rest.trim_start_matches('/'))
}

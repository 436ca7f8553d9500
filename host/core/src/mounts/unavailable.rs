//! Mounts whose plugin is not available: they answer that, keep their path, rows and leases, and
//! serve again when the plugin is registered anew.
//!
//! The fault this file stops: one plugin that does not load, and a whole service that does not
//! open.

use super::{MountRecord, Mounts, key};
use crate::core::Core;
use crate::migrate;
use bulkhead_wire::failure::{Failure, Kind};
use std::sync::Arc;

/// A mount without its plugin, and why it has none.
#[derive(Clone)]
pub(super) struct UnavailableMount {
    record: MountRecord,
    why: String,
}

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
        let mut stranded = table.stranded.iter();
        stranded.find_map(|(mount, one)| Some((Holder::of(&one.record), below(path, mount)?)))
    }

    /// Everyone who may hold leases, in the order of their paths.
    pub(crate) fn holders(&self) -> Vec<Holder> {
        let table = self.read();
        let stranded = table.stranded.values().map(|one| &one.record);
        let records = table.by_path.values().map(|mount| &mount.record).chain(stranded);
        let mut holders: Vec<Holder> = records.map(Holder::of).collect();
        holders.sort_by(|one, other| one.path.cmp(&other.path));
        holders
    }

    /// Leaves a mount out that cannot be served.
    pub(crate) fn strand(&self, record: MountRecord, why: String) {
        let mut table = self.write();
        if let Some(mount) = table.by_uuid.get(&record.uuid).map(Arc::clone) {
            table.remove(&mount);
        }
        table.stranded.insert(key(&record.path).to_owned(), UnavailableMount { record, why });
    }

    /// Why nothing below `path` is served, where a mount there waits for its plugin.
    pub(crate) fn stranded_at(&self, path: &str) -> Option<Failure> {
        let table = self.read();
        let mut stranded = table.stranded.iter();
        stranded
            .find(|(mount, _)| below(path, mount).is_some())
            .map(|(_, stranded)| stranded.failure())
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
            .stranded
            .values()
            .find(|stranded| stranded.record.uuid == uuid)
            .map(UnavailableMount::failure)
    }

    fn take_stranded(&self, kind: &str) -> Vec<MountRecord> {
        let mut table = self.write();
        let found: Vec<String> = table
            .stranded
            .iter()
            .filter(|(_, one)| one.record.kind == kind)
            .map(|(path, _)| path.clone())
            .collect();
        found.iter().filter_map(|path| table.stranded.remove(path)).map(|one| one.record).collect()
    }
}

/// The rest of `path` below the mount at `mount`.
fn below<'p>(path: &'p str, mount: &str) -> Option<&'p str> {
    let rest = path.strip_prefix(mount)?;
    (rest.is_empty() || rest.starts_with('/')).then(|| rest.trim_start_matches('/'))
}

impl UnavailableMount {
    fn failure(&self) -> Failure {
        let MountRecord { path, kind, .. } = &self.record;
        let why = &self.why;
        let message = format!("plugin {kind} of mount {path} is not available: {why}");
        Failure { retry_after: Some(60_000), ..Failure::new(Kind::Unavailable, message) }
    }
}

/// Serves the mounts that waited for the engine `kind`, each once its data are migrated. One that
/// cannot be goes on waiting.
pub(crate) async fn revive(core: &Arc<Core>, kind: &str) {
    for record in core.mounts.take_stranded(kind) {
        let path = record.path.to_string();
        let served = core.mounts.serve(record.clone(), &core.catalog);
        let migrated = match served.map(|()| core.mounts.by_uuid(&record.uuid)) {
            Ok(Some(mount)) => migrate::run(core, &mount).await,
            Ok(None) => Ok(()),
            Err(failure) => Err(failure),
        };
        match migrated {
            Ok(()) => core.log.line("info", "mount-has-its-plugin", &[("mount", path)]),
            Err(failure) => {
                core.log.line(
                    "error",
                    "mount-without-plugin",
                    &[("mount", path), ("cause", failure.message.clone())],
                );
                core.mounts.strand(record, failure.message);
            }
        }
    }
}

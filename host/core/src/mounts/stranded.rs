//! Mounts whose plugin is not available: they answer that, keep their path, rows and leases, and serve again when the
//! plugin is registered anew.
//!
//! The fault this file stops: one plugin that does not load, and a whole service that does not open.

use super::{MountRecord, Mounts, key};
use crate::core::Core;
use crate::migrate;
use bulkhead_wire::failure::{Failure, Kind};
use std::sync::Arc;

/// A mount without its plugin, and why it has none.
#[derive(Clone)]
pub(super) struct Stranded {
    record: MountRecord,
    why: String,
}

impl Mounts {
    /// Leaves a mount out that cannot be served.
    pub(crate) fn strand(&self, record: MountRecord, why: String) {
        let mut table = self.write();
        if let Some(mount) = table.by_uuid.get(&record.uuid).map(Arc::clone) {
            table.remove(&mount);
        }
        table.stranded.insert(key(&record.path).to_owned(), Stranded { record, why });
    }

    /// Why nothing below `path` is served, where a mount there waits for its plugin.
    pub(crate) fn stranded_at(&self, path: &str) -> Option<Failure> {
        let table = self.read();
        let below = |mount: &str| path.strip_prefix(mount).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        table.stranded.iter().find(|(mount, _)| below(mount)).map(|(_, stranded)| stranded.failure())
    }

    /// Why the mount `uuid` is not there: it waits for its plugin, which may pass, or there is none.
    pub(crate) fn missing(&self, uuid: &str) -> Failure {
        let table = self.read();
        let stranded = table.stranded.values().find(|stranded| stranded.record.uuid == uuid);
        let gone = || Failure::internal("the lease's mount does not exist any more");
        stranded.map_or_else(gone, Stranded::failure)
    }

    fn take_stranded(&self, kind: &str) -> Vec<MountRecord> {
        let mut table = self.write();
        let found: Vec<String> =
            table.stranded.iter().filter(|(_, one)| one.record.kind == kind).map(|(path, _)| path.clone()).collect();
        found.iter().filter_map(|path| table.stranded.remove(path)).map(|one| one.record).collect()
    }
}

impl Stranded {
    fn failure(&self) -> Failure {
        let MountRecord { path, kind, .. } = &self.record;
        let why = &self.why;
        let message = format!("plugin {kind} of mount {path} is not available: {why}");
        Failure { retry_after: Some(60_000), ..Failure::new(Kind::Unavailable, message) }
    }
}

/// Serves the mounts that waited for the engine `kind`, each once its data are migrated. One that cannot be goes on
/// waiting.
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
                core.log.line("error", "mount-without-plugin", &[("mount", path), ("cause", failure.message.clone())]);
                core.mounts.strand(record, failure.message);
            }
        }
    }
}

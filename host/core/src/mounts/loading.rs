//! Reading the mount table from the store: at the opening, and after a change by another node that
//! shares the database.
//!
//! This file prevents a node that serves a mount which another node disabled, regranted or swapped.
//! A record replaces a mount in memory only if the record has a higher revision, so that a reading
//! that crosses a change of this node does no harm.

use super::builtin::BuiltinMount;
use super::mount::Mount;
use super::record::{self, MountRecord};
use super::table::Mounts;
use super::unavailable::UnavailableMount;
use crate::catalog::{Catalog, PluginType};
use bulkhead_access::log::{Log, cause};
use bulkhead_store::{Space, Store, StoreFault};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::log_level::LogLevel;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What the table follows: the store, and the plugins that serve mounts.
#[derive(Clone, Copy)]
pub(crate) struct MountSources<'a> {
    pub(crate) store: &'a Arc<Store>,
    pub(crate) catalog: &'a Catalog,
    pub(crate) log: &'a Arc<dyn Log>,
}

/// A check of a mount before it serves.
type DataCheck = fn(&Mount) -> Result<(), Failure>;

impl Mounts {
    /// Reads the mount table.
    ///
    /// # Errors
    /// 500 for a record that does not parse, 503 if the store cannot be read.
    pub(crate) async fn load(sources: MountSources<'_>) -> Result<Self, Failure> {
        let mounts = Self::of_builtins(BuiltinMount::load(sources.store).await?);
        mounts.read_records(sources, |_| Ok(())).await?;
        Ok(mounts)
    }

    /// Applies the catalog's new entries of a plugin to its mounts. A mount whose plugin is gone
    /// becomes unavailable; an unavailable mount that needs no migration serves again.
    pub(crate) fn renew_all(&self, kind: PluginType, name: &str, sources: MountSources<'_>) {
        for mount in self.of_plugin(kind, name) {
            let renewed = self.renew_one(&mount, sources.catalog);
            self.note_unserved(&mount.record, renewed, sources.log);
        }
        for UnavailableMount { record, .. } in self.unavailable_of(kind, name) {
            let served = self.serve_checked(&record, sources.catalog, Mount::check_data);
            self.note_unserved(&record, served, sources.log);
        }
    }

    /// Makes a mount unavailable that cannot be served, and logs the reason.
    fn note_unserved(&self, record: &MountRecord, served: Result<(), Failure>, log: &Arc<dyn Log>) {
        let Err(failure) = served else { return };
        // The plugin was uploaded: the engines of this binary are all available, or loading would
        // have failed earlier.
        let pairs = [("mount", record.path.to_string()), cause(&failure)];
        log.line(LogLevel::Error, "mount-without-plugin", &pairs);
        self.set_unavailable(record.clone(), failure.message);
    }

    /// Reads the mount table again. Returns the mounts, as they were before, with outdated
    /// sessions: the mount is gone, or has other grants or another version by now.
    ///
    /// # Errors
    /// As [`Mounts::load`].
    pub(crate) async fn reload(
        &self,
        sources: MountSources<'_>,
    ) -> Result<Vec<Arc<Mount>>, Failure> {
        // Before the records: a mount that this node enables meanwhile is not in the list.
        let before = self.all();
        let unavailable = self.list_unavailable();
        for (which, record) in
            BuiltinMount::ALL.iter().zip(BuiltinMount::load(sources.store).await?)
        {
            self.update_builtin(*which, (*record).clone());
        }
        let stored = self.read_records(sources, Mount::check_data).await?;
        let is_gone = |record: &MountRecord| !stored.contains(&record.uuid);
        for record in before.iter().map(|mount| &mount.record) {
            if is_gone(record) {
                self.forget(record);
            }
        }
        for mount in unavailable.iter().filter(|mount| is_gone(&mount.record)) {
            self.forget(&mount.record);
        }
        let is_outdated = |mount: &&Arc<Mount>| {
            self.by_uuid(&mount.record.uuid).is_none_or(|now| !now.keeps_sessions_of(mount))
        };
        Ok(before.iter().filter(is_outdated).cloned().collect())
    }

    /// Takes over the stored records that are newer than the mounts in memory. Returns the uuids of
    /// all records, and of those that cannot be read.
    async fn read_records(
        &self,
        sources: MountSources<'_>,
        check: DataCheck,
    ) -> Result<BTreeSet<String>, Failure> {
        let MountSources { store, log, .. } = sources;
        let (mut stored, mut scan) = (BTreeSet::new(), store.scan(Space::Core, record::PREFIX));
        while let Some(page) = scan.page().await? {
            for address in page {
                let path = address.key.strip_prefix(record::PREFIX).unwrap_or_default();
                let found = match store.begin().get(&address).await {
                    Err(damaged @ StoreFault::Damaged(_)) => {
                        // Requests below this path find no mount; all other mounts serve.
                        log.line(LogLevel::Error, "mount-unreadable", &[cause(&damaged)]);
                        stored.extend(self.uuid_at(path));
                        continue;
                    }
                    found => found?,
                };
                // Another process may have removed the mount meanwhile.
                let Some(found) = found else { continue };
                let record = MountRecord::parse(&found, path)?;
                stored.insert(record.uuid.clone());
                self.take_over(record, sources, check);
            }
        }
        Ok(stored)
    }

    /// Serves a record that is newer than the mount in memory. During a migration, the mount in
    /// memory stays, and its fence refuses requests.
    fn take_over(&self, record: MountRecord, sources: MountSources<'_>, check: DataCheck) {
        let before = self.record_of(&record.uuid);
        let is_newer = before.is_none_or(|before| before.revision < record.revision);
        let is_migrated = record.migration.is_some() && self.by_uuid(&record.uuid).is_some();
        if is_newer && !is_migrated {
            let served = self.serve_checked(&record, sources.catalog, check);
            self.note_unserved(&record, served, sources.log);
        }
    }

    /// Serves a record, in place of the mount in memory if there is one.
    fn serve_checked(
        &self,
        record: &MountRecord,
        catalog: &Catalog,
        check: DataCheck,
    ) -> Result<(), Failure> {
        check(&*Self::prepare(record.clone(), catalog)?)?;
        match self.by_uuid(&record.uuid) {
            Some(_) => self.update(record.clone(), catalog),
            None => self.serve(record.clone(), catalog),
        }
    }

    fn uuid_at(&self, path: &str) -> Option<String> {
        let table = self.read();
        let mount = table.by_path.get(path.trim_end_matches('/'))?;
        Some(mount.record.uuid.clone())
    }
}

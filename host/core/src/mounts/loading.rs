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
use crate::catalog::Catalog;
use bulkhead_access::log::{Log, cause};
use bulkhead_store::{Space, Store, StoreFault};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::log_level::LogLevel;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The sources of the mount table: the store, and the plugins that serve mounts.
#[derive(Clone, Copy)]
pub(crate) struct MountSources<'a> {
    pub(crate) store: &'a Arc<Store>,
    pub(crate) catalog: &'a Catalog,
    pub(crate) log: &'a Arc<dyn Log>,
}

/// The records of the mount table.
struct StoredMounts {
    records: Vec<MountRecord>,
    /// The uuids of all records, also of those that cannot be read, as far as known.
    uuids: BTreeSet<String>,
}

impl Mounts {
    /// Reads the mount table.
    ///
    /// # Errors
    /// 500 for a record that does not parse, 503 if the store cannot be read.
    pub(crate) async fn load(sources: MountSources<'_>) -> Result<Self, Failure> {
        let mounts = Self::of_builtins(BuiltinMount::load(sources.store).await?);
        let unparsed = |failure| Err(failure);
        for record in mounts.read_records(sources, unparsed).await?.records {
            let served = mounts.serve(record.clone(), sources.catalog);
            mounts.note_unserved(&record, served, sources.log);
        }
        Ok(mounts)
    }

    /// Applies the catalog's new entries to their mounts. A mount whose plugin is gone becomes
    /// unavailable; an unavailable mount that needs no migration serves again.
    pub(crate) fn renew_outdated(&self, sources: MountSources<'_>) {
        for mount in self.all() {
            if !mount.is_up_to_date(sources.catalog) {
                let renewed = self.renew_one(&mount, sources.catalog);
                self.note_unserved(&mount.record, renewed, sources.log);
            }
        }
        for UnavailableMount { record, .. } in self.list_unavailable() {
            if let Err(failure) = self.serve_checked(&record, sources.catalog) {
                self.set_reason(&record.uuid, failure.message);
            }
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
    /// sessions: the mount is gone, or has other grants or another version by now. A failure
    /// changes nothing.
    ///
    /// # Errors
    /// 503 if the store cannot be read.
    pub(crate) async fn reload(
        &self,
        sources: MountSources<'_>,
    ) -> Result<Vec<Arc<Mount>>, Failure> {
        // Before the records: a mount that this node enables meanwhile is not in the list.
        let before = self.all();
        let unavailable = self.list_unavailable();
        let builtins = BuiltinMount::load(sources.store).await?;
        let keep_mount = |failure: Failure| {
            sources.log.line(LogLevel::Error, "mount-unreadable", &[cause(&failure)]);
            Ok(())
        };
        let mut stored = self.read_records(sources, keep_mount).await?;
        let all = || {
            before
                .iter()
                .map(|mount| &mount.record)
                .chain(unavailable.iter().map(|mount| &mount.record))
        };
        if !all().all(|record| stored.uuids.contains(&record.uuid)) {
            // A mount that moved during the reading was perhaps behind and then before the reading.
            let again = self.read_records(sources, keep_mount).await?;
            stored.uuids.extend(again.uuids);
            stored.records.extend(again.records);
        }
        for (which, record) in BuiltinMount::ALL.iter().zip(builtins) {
            self.update_builtin(*which, (*record).clone());
        }
        stored.records.into_iter().for_each(|record| self.take_over(record, sources));
        for record in all().filter(|record| !stored.uuids.contains(&record.uuid)) {
            self.forget(record);
        }
        let is_outdated = |mount: &&Arc<Mount>| {
            self.by_uuid(&mount.record.uuid).is_none_or(|now| !now.keeps_sessions_of(mount))
        };
        Ok(before.iter().filter(is_outdated).cloned().collect())
    }

    /// Reads all records. A record that does not parse is left to `unparsed`.
    async fn read_records(
        &self,
        sources: MountSources<'_>,
        unparsed: impl Fn(Failure) -> Result<(), Failure>,
    ) -> Result<StoredMounts, Failure> {
        let MountSources { store, log, .. } = sources;
        let mut stored = StoredMounts { records: Vec::new(), uuids: BTreeSet::new() };
        let mut scan = store.scan(Space::Core, record::PREFIX);
        while let Some(page) = scan.page().await? {
            for address in page {
                let path = address.key.strip_prefix(record::PREFIX).unwrap_or_default();
                let found = match store.begin().get(&address).await {
                    Err(damaged @ StoreFault::Damaged(_)) => {
                        // Requests below this path find no mount; all other mounts serve.
                        log.line(LogLevel::Error, "mount-unreadable", &[cause(&damaged)]);
                        stored.uuids.extend(self.uuid_at(path));
                        continue;
                    }
                    found => found?,
                };
                // Another process may have removed the mount meanwhile.
                let Some(found) = found else { continue };
                match MountRecord::parse(&found, path) {
                    Ok(record) => {
                        stored.uuids.insert(record.uuid.clone());
                        stored.records.push(record);
                    }
                    Err(failure) => {
                        unparsed(failure)?;
                        stored.uuids.extend(self.uuid_at(path));
                    }
                }
            }
        }
        Ok(stored)
    }

    /// Serves a record that is newer than the mount in memory. A mount whose data another node
    /// migrates becomes unavailable.
    fn take_over(&self, record: MountRecord, sources: MountSources<'_>) {
        let before = self.record_of(&record.uuid);
        if before.is_some_and(|before| before.revision >= record.revision) {
            return;
        }
        let serving = self.by_uuid(&record.uuid);
        if record.migration.is_none() || serving.is_none() {
            let served = self.serve_checked(&record, sources.catalog);
            self.note_unserved(&record, served, sources.log);
        } else if serving.is_some_and(|mount| !mount.is_paused()) {
            let why = "the mount's data are being migrated by another node".to_owned();
            self.set_unavailable(record, why);
        }
    }

    /// Serves a record whose data need no migration, in place of the mount in memory if there is
    /// one.
    fn serve_checked(&self, record: &MountRecord, catalog: &Catalog) -> Result<(), Failure> {
        Self::prepare(record.clone(), catalog)?.check_data()?;
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

//! The table of all mounts, and the only access to a component.

use super::api_version;
use super::builtin::BuiltinMount;
use super::gate::GateEntry;
use super::migration::UnfinishedMigration;
use super::mount::{Mount, OpenedMount};
use super::record::{MountPhase, MountRecord};
use super::unavailable::UnavailableMount;
use crate::catalog::{Catalog, PluginType};
use crate::permit::Permit;
use bulkhead_wire::description::{Route, Verb};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::name::MountPath;
use bulkhead_wire::route::RouteMatch;
use bulkhead_wire::sync;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

/// The outcome of a request's attempt to enter a mount.
pub enum MountEntryOutcome {
    /// The mount is served by the plugin that the request found, until the guard is dropped.
    Inside(GateEntry),
    /// Another version of the plugin serves the mount by now.
    Replaced,
    /// The mount was disabled or moved, or its plugin became unavailable.
    Gone,
    /// The data of the mount are still being migrated.
    Late,
}

/// Maximum time that a request waits for another version of the plugin.
pub(crate) const SWAP_WAIT_TIMEOUT: Duration = Duration::from_secs(10);

/// The mount is being erased with all its rows.
pub(crate) struct ErasedMount;

/// All mounts: the serving mounts, the mounts being removed or moved, and the built-in mounts.
pub struct Mounts {
    table: RwLock<MountTable>,
    builtins: RwLock<[Arc<MountRecord>; 4]>,
}

#[derive(Default)]
pub(super) struct MountTable {
    /// Mounts by path without the slash at the end.
    pub(super) by_path: BTreeMap<String, Arc<Mount>>,
    pub(super) by_uuid: HashMap<String, Arc<Mount>>,
    /// Mounts with an unavailable plugin, by path.
    pub(super) unavailable: BTreeMap<String, UnavailableMount>,
}

impl Mounts {
    /// Creates a table with the built-in mounts alone.
    pub(super) fn of_builtins(builtins: [Arc<MountRecord>; 4]) -> Self {
        Self { table: RwLock::default(), builtins: RwLock::new(builtins) }
    }

    /// Returns the serving mount with the longest prefix of `path`, and the rest of the path below
    /// the mount.
    pub fn route<'p>(&self, path: &'p str) -> Option<(Arc<Mount>, &'p str)> {
        self.find_owner(path).filter(|(mount, _)| mount.record.phase == MountPhase::Serving)
    }

    /// Does the same as [`Mounts::route`], but also returns a mount that answers no requests
    /// because it is being removed or moved: such a mount still has leases.
    pub(crate) fn find_owner<'p>(&self, path: &'p str) -> Option<(Arc<Mount>, &'p str)> {
        let table = self.read();
        let mut end = path.len();
        loop {
            let candidate = path.get(..end)?;
            if let Some(mount) = table.by_path.get(candidate) {
                return Some((Arc::clone(mount), path.get(end..)?.trim_start_matches('/')));
            }
            end = candidate.rfind('/')?;
        }
    }

    /// Returns the route that the request would reach, if the route needs no token.
    pub fn open_row(&self, verb: Verb, path: &str) -> Option<Route> {
        let (mount, below) = self.route(path)?;
        let RouteMatch::Row { route, .. } = mount.table.find(verb, below) else { return None };
        route.needs_no_token().then(|| route.clone())
    }

    /// Returns the mount at `path`, in any phase.
    pub fn at(&self, path: &MountPath) -> Option<Arc<Mount>> {
        self.read().by_path.get(key(path)).map(Arc::clone)
    }

    /// Returns the mount with rows that begin with `uuid`, in any phase.
    pub fn by_uuid(&self, uuid: &str) -> Option<Arc<Mount>> {
        self.read().by_uuid.get(uuid).map(Arc::clone)
    }

    /// Returns every mount, in any phase, in the order of paths.
    pub fn all(&self) -> Vec<Arc<Mount>> {
        self.read().by_path.values().map(Arc::clone).collect()
    }

    /// Returns the record of the mount `uuid`, whether its plugin is available or not.
    pub fn record_of(&self, uuid: &str) -> Option<MountRecord> {
        let serving = self.by_uuid(uuid).map(|mount| mount.record.clone());
        serving.or_else(|| self.unavailable_by_uuid(uuid).map(|mount| mount.record))
    }

    /// Returns the record of the mount at exactly that path, whether its plugin is available or
    /// not.
    pub fn record_at(&self, path: &MountPath) -> Option<MountRecord> {
        let table = self.read();
        let serving = table.by_path.get(key(path)).map(|mount| &mount.record);
        let unavailable = || table.unavailable.get(key(path)).map(|mount| &mount.record);
        serving.or_else(unavailable).cloned()
    }

    /// Returns every mount of a plugin, in the order of paths and in any phase.
    pub fn of_plugin(&self, kind: PluginType, name: &str) -> Vec<Arc<Mount>> {
        self.all().into_iter().filter(|mount| mount.record.is_of(kind, name)).collect()
    }

    /// Returns the record of a built-in mount.
    pub fn builtin(&self, which: BuiltinMount) -> Arc<MountRecord> {
        let [system, token, identity, cubbyhole] = &*sync::read(&self.builtins);
        Arc::clone(match which {
            BuiltinMount::System => system,
            BuiltinMount::Token => token,
            BuiltinMount::Identity => identity,
            BuiltinMount::Cubbyhole => cubbyhole,
        })
    }

    /// Enters a mount that a request found. Waits while the version of its plugin changes, at most
    /// [`SWAP_WAIT_TIMEOUT`].
    pub async fn enter(&self, found: &Arc<Mount>) -> MountEntryOutcome {
        let Ok(entered) = found.requests.enter_within(SWAP_WAIT_TIMEOUT).await else {
            return MountEntryOutcome::Late;
        };
        let Some(inside) = entered else { return MountEntryOutcome::Gone };
        match self.by_uuid(&found.record.uuid) {
            Some(now) if now.serves_as(found) => MountEntryOutcome::Inside(inside),
            Some(_) => MountEntryOutcome::Replaced,
            None => MountEntryOutcome::Gone,
        }
    }

    /// Enters the mount with that uuid in the version that serves the mount now. Returns `None` if
    /// the mount was disabled or moved, or is unavailable.
    pub async fn enter_by_uuid(&self, uuid: &str) -> Option<(Arc<Mount>, GateEntry)> {
        loop {
            let mount = self.by_uuid(uuid)?;
            match self.enter(&mount).await {
                MountEntryOutcome::Inside(inside) => return Some((mount, inside)),
                MountEntryOutcome::Replaced | MountEntryOutcome::Late => {}
                MountEntryOutcome::Gone => return None,
            }
        }
    }

    /// Opens a mount: the only access to a component.
    pub fn open<'a>(&self, mount: &'a Mount, permit: &Permit) -> OpenedMount<'a> {
        let (grants, compartment) = (Arc::clone(&mount.grants), Arc::clone(&mount.compartment));
        let engine = mount.plugin.callable(permit);
        OpenedMount { engine, grants, compartment, reuse: mount.reuse.clone() }
    }

    /// Enters the gate of due work for the row `key`. The first segment of the key is the mount's
    /// uuid. Returns `None` if there is no such mount.
    ///
    /// # Errors
    /// [`ErasedMount`] if the row was being deleted with its mount; the deletion is over then.
    pub(crate) async fn enter_work(&self, key: &str) -> Result<Option<GateEntry>, ErasedMount> {
        let uuid = key.split('/').next().unwrap_or_default();
        let Some(mount) = self.by_uuid(uuid) else { return Ok(None) };
        mount.work.enter_or_outwait().await.map(Some).ok_or(ErasedMount)
    }

    /// Adds a mount to the table, after its record was committed.
    pub(crate) fn serve(&self, record: MountRecord, catalog: &Catalog) -> Result<(), Failure> {
        let mount = Mount::new(record, catalog, None)?;
        let mut table = self.write();
        table.remove_unavailable(&mount.record);
        table.insert(mount);
        Ok(())
    }

    /// Replaces a mount by a newer record. A removed mount does not come back.
    pub(crate) fn update(&self, record: MountRecord, catalog: &Catalog) -> Result<(), Failure> {
        let mut table = self.write();
        let Some(before) = table.by_uuid.get(&record.uuid).map(Arc::clone) else {
            table.update_unavailable(record);
            return Ok(());
        };
        if before.record.revision < record.revision {
            let mount = Mount::new(record, catalog, Some(&before))?;
            table.remove(&before);
            table.insert(mount);
        }
        Ok(())
    }

    /// Returns the mount as `version` of its plugin would serve it.
    ///
    /// # Errors
    /// 400 if the catalog has no such version, 503 if the version could not be loaded.
    pub(crate) fn with_version(
        before: &Arc<Mount>,
        version: &str,
        catalog: &Catalog,
    ) -> Result<Arc<Mount>, Failure> {
        let record = MountRecord { version: version.to_owned(), ..before.record.clone() };
        Mount::new(record, catalog, Some(before))
    }

    /// Returns the mount as it serves `version` of its plugin's API, with the records of an earlier
    /// version.
    ///
    /// # Errors
    /// As [`Catalog::select`].
    pub(crate) fn with_api_version(
        before: &Arc<Mount>,
        version: u64,
        catalog: &Catalog,
    ) -> Result<Arc<Mount>, Failure> {
        let mut record = before.record.clone();
        api_version::choose(&mut record.settings.options, version);
        record.migration = Some(UnfinishedMigration::to_api_version(version, record.schema));
        Mount::new(record, catalog, Some(before))
    }

    /// Returns the mount of `record`, which requests do not reach yet.
    ///
    /// # Errors
    /// As [`Catalog::select`].
    pub(crate) fn prepare(record: MountRecord, catalog: &Catalog) -> Result<Arc<Mount>, Failure> {
        Mount::new(record, catalog, None)
    }

    /// Applies the plugin's new catalog entry to all its mounts.
    pub(crate) fn renew(
        &self,
        kind: PluginType,
        name: &str,
        catalog: &Catalog,
    ) -> Result<(), Failure> {
        let mut table = self.write();
        let of_kind = table.by_path.values().filter(|mount| mount.record.is_of(kind, name));
        for before in of_kind.map(Arc::clone).collect::<Vec<_>>() {
            table.insert(Mount::new(before.record.clone(), catalog, Some(&before))?);
        }
        Ok(())
    }

    /// Applies the plugin's new catalog entry to a mount.
    pub(super) fn renew_one(&self, before: &Arc<Mount>, catalog: &Catalog) -> Result<(), Failure> {
        let mut table = self.write();
        // The mount may have been swapped, disabled or moved meanwhile.
        let now = table.by_uuid.get(&before.record.uuid).map(Arc::clone);
        let Some(now) = now else { return Ok(()) };
        let renewed = Mount::new(now.record.clone(), catalog, Some(&now))?;
        table.insert(renewed);
        Ok(())
    }

    /// Removes a mount from the table, after its record was deleted.
    pub(crate) fn forget(&self, record: &MountRecord) {
        let mut table = self.write();
        table.remove_at(record);
        table.by_uuid.remove(&record.uuid);
        table.remove_unavailable(record);
    }

    pub(crate) fn update_builtin(&self, which: BuiltinMount, record: MountRecord) {
        let [system, token, identity, cubbyhole] = &mut *sync::write(&self.builtins);
        let slot = match which {
            BuiltinMount::System => system,
            BuiltinMount::Token => token,
            BuiltinMount::Identity => identity,
            BuiltinMount::Cubbyhole => cubbyhole,
        };
        if slot.revision < record.revision {
            *slot = Arc::new(record);
        }
    }

    pub(super) fn read(&self) -> RwLockReadGuard<'_, MountTable> {
        sync::read(&self.table)
    }

    pub(super) fn write(&self) -> RwLockWriteGuard<'_, MountTable> {
        sync::write(&self.table)
    }
}

impl MountTable {
    fn insert(&mut self, mount: Arc<Mount>) {
        self.by_path.insert(key(&mount.record.path).to_owned(), Arc::clone(&mount));
        self.by_uuid.insert(mount.record.uuid.clone(), mount);
    }

    /// Replaces the record of an unavailable mount by a newer record, which may name another path.
    fn update_unavailable(&mut self, record: MountRecord) {
        let found = self.unavailable.iter().find(|(_, mount)| mount.record.uuid == record.uuid);
        let Some((path, mount)) = found else { return };
        if mount.record.revision < record.revision {
            let (path, why, since) = (path.clone(), mount.why.clone(), mount.since);
            self.unavailable.remove(&path);
            let at = key(&record.path).to_owned();
            self.unavailable.insert(at, UnavailableMount { record, why, since });
        }
    }

    /// Forgets an unavailable mount.
    fn remove_unavailable(&mut self, record: &MountRecord) {
        self.unavailable.retain(|_, mount| mount.record.uuid != record.uuid);
    }

    pub(super) fn remove(&mut self, mount: &Mount) {
        self.remove_at(&mount.record);
        self.by_uuid.remove(&mount.record.uuid);
    }

    /// Removes the mount at the path of `record`, unless another mount serves there by now.
    fn remove_at(&mut self, record: &MountRecord) {
        let path = key(&record.path);
        if self.by_path.get(path).is_some_and(|mount| mount.record.uuid == record.uuid) {
            self.by_path.remove(path);
        }
    }
}

/// Returns the path without the slash at the end.
pub(super) fn key(path: &MountPath) -> &str {
    path.as_str().trim_end_matches('/')
}

//! Mounts: which engine serves which path, and the only door to a component.

mod breaker;
mod builtin;
mod disable;
mod enable;
mod ending;
mod erase;
mod gate;
mod record;
pub(crate) mod remount;
mod rights;
mod settings;
mod unavailable;

pub(crate) use breaker::Pass;
pub(crate) use builtin::Builtin;
pub(crate) use disable::disable;
pub(crate) use enable::NewMount;
pub(crate) use ending::resume;
pub(crate) use gate::Inside;
pub(crate) use record::{Marks, MountRecord, Phase, stored_of_kind, stored_uuids};
pub(crate) use rights::usual;
pub(crate) use settings::{Lifetimes, Settings, TokenType, Visibility};
pub(crate) use unavailable::{Holder, revive};

use crate::catalog::{Catalog, EnginePlugin};
use crate::core::Core;
use crate::instance_reuse;
use crate::log::Log;
use crate::permit::Permit;
use breaker::Breaker;
use bulkhead_sandbox::contract;
use bulkhead_sandbox::{Ask, Compartment, Engine, Grant, Grants, Reuse};
use bulkhead_store::{Space, Store, StoreFault, Unit};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::name::MountPath;
use bulkhead_wire::sync;
use gate::Gate;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};
use unavailable::UnavailableMount;

/// The two kinds of mount, which are listed apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Secrets engines, and `sys/`.
    Secret,
    /// Auth methods, all below `auth/`.
    Auth,
}

impl Class {
    pub(crate) fn of(path: &MountPath) -> Self {
        if path.is_auth() { Self::Auth } else { Self::Secret }
    }
}

/// A mount with its component.
pub(crate) struct Mount {
    pub(crate) record: MountRecord,
    pub(crate) plugin: Arc<EnginePlugin>,
    grants: Arc<Grants>,
    /// What its calls share.
    pub(crate) compartment: Arc<Compartment>,
    breaker: Arc<Breaker>,
    /// What it is granted while its record says nothing.
    usual: Vec<Grant>,
    reuse: Reuse,
    /// Requests that are served.
    requests: Arc<Gate>,
    /// Due work. Open longer than the other: leases are ended by it too.
    work: Arc<Gate>,
}

/// A mount opened by a permit: its component may be called.
pub(crate) struct Opened<'a> {
    pub(crate) plugin: &'a EnginePlugin,
    pub(crate) grants: Arc<Grants>,
    pub(crate) compartment: Arc<Compartment>,
    pub(crate) reuse: Reuse,
}

/// What runs behind a mount.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Running<'a> {
    /// Semantic version.
    pub(crate) version: &'a str,
    /// SHA-256 of the component in hexadecimal; empty for the server itself.
    pub(crate) digest: &'a str,
    /// What a mount of it is granted while its record says nothing.
    pub(crate) usual: &'a [Grant],
    /// What a mount of it may be granted at most; `None`: what it asks for.
    pub(crate) ceiling: Option<&'a [Ask]>,
}

/// The mount is being erased, and all its rows with it.
pub(crate) struct Erased;

/// What a commit changed, to take effect in this process.
pub(crate) enum Change {
    /// A new mount.
    Enabled(Box<MountRecord>),
    /// Other settings.
    Tuned(Box<MountRecord>),
    /// Other settings of a part of the server.
    TunedBuiltin(Builtin, Box<MountRecord>),
    /// On its way to another path.
    Moving(Box<MountRecord>),
}

/// All mounts: those that serve, those on their way out, and the parts of the server.
pub(crate) struct Mounts {
    table: RwLock<Table>,
    builtins: RwLock<[Arc<MountRecord>; 2]>,
}

#[derive(Default)]
struct Table {
    /// Paths without the slash at their end.
    by_path: BTreeMap<String, Arc<Mount>>,
    by_uuid: HashMap<String, Arc<Mount>>,
    /// Those whose plugin is not available, by their paths.
    stranded: BTreeMap<String, UnavailableMount>,
}

impl Mounts {
    /// Reads the mount table.
    pub(crate) async fn load(
        store: &Arc<Store>,
        catalog: &Catalog,
        log: &Arc<dyn Log>,
    ) -> Result<Self, Failure> {
        let builtins = RwLock::new(Builtin::load(store).await?);
        let mounts = Self { table: RwLock::default(), builtins };
        let mut scan = store.scan(Space::Core, record::PREFIX);
        while let Some(page) = scan.page().await? {
            for address in page {
                let path = address.key.strip_prefix(record::PREFIX).unwrap_or_default().to_owned();
                let found = match store.begin().get(&address).await {
                    Err(damaged @ StoreFault::Damaged(_)) => {
                        // Its requests find nothing there; the other mounts serve.
                        log.line("error", "mount-unreadable", &[("cause", damaged.to_string())]);
                        continue;
                    }
                    found => found?,
                };
                let vanished =
                    || Failure::internal(format!("mount {path} vanished while it was read"));
                let record = MountRecord::parse(&found.ok_or_else(vanished)?, &path)?;
                if let Err(failure) = mounts.serve(record.clone(), catalog) {
                    // It is no engine of this binary: those are all there, or nothing would be
                    // loaded.
                    let pairs = [("mount", path), ("cause", failure.message.clone())];
                    log.line("error", "mount-without-plugin", &pairs);
                    mounts.strand(record, failure.message);
                }
            }
        }
        Ok(mounts)
    }

    /// Longest prefix first: the mount that serves `path`, and the rest of the path below it.
    pub(crate) fn route<'p>(&self, path: &'p str) -> Option<(Arc<Mount>, &'p str)> {
        self.owner(path).filter(|(mount, _)| mount.record.phase == Phase::Serving)
    }

    /// As [`Mounts::route`], also where the mount answers no requests because it is on its way out:
    /// it has its leases still.
    pub(crate) fn owner<'p>(&self, path: &'p str) -> Option<(Arc<Mount>, &'p str)> {
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

    /// The mount at `path`, in whatever phase.
    pub(crate) fn at(&self, path: &MountPath) -> Option<Arc<Mount>> {
        self.read().by_path.get(key(path)).map(Arc::clone)
    }

    /// The mount whose rows begin with `uuid`, in whatever phase.
    pub(crate) fn by_uuid(&self, uuid: &str) -> Option<Arc<Mount>> {
        self.read().by_uuid.get(uuid).map(Arc::clone)
    }

    /// Every mount, in the order of paths and in whatever phase.
    pub(crate) fn all(&self) -> Vec<Arc<Mount>> {
        self.read().by_path.values().map(Arc::clone).collect()
    }

    /// The part of the server that looks like a mount.
    pub(crate) fn builtin(&self, which: Builtin) -> Arc<MountRecord> {
        let [system, token] = &*sync::read(&self.builtins);
        Arc::clone(match which {
            Builtin::System => system,
            Builtin::Token => token,
        })
    }

    /// The only door to a component.
    pub(crate) fn open<'a>(&self, mount: &'a Mount, _permit: &Permit) -> Opened<'a> {
        let (grants, compartment) = (Arc::clone(&mount.grants), Arc::clone(&mount.compartment));
        Opened { plugin: &mount.plugin, grants, compartment, reuse: mount.reuse.clone() }
    }

    /// The right to do due work on the row `key`, whose first segment is its mount's uuid. Of a row
    /// without a mount it says nothing.
    ///
    /// # Errors
    /// When the row is being deleted with its mount, which was waited for.
    pub(crate) async fn enter_work(&self, key: &str) -> Result<Option<Inside>, Erased> {
        let uuid = key.split('/').next().unwrap_or_default();
        let Some(mount) = self.by_uuid(uuid) else { return Ok(None) };
        mount.work.enter_or_outwait().await.map(Some).ok_or(Erased)
    }

    /// Serves a mount, after its record was committed.
    pub(crate) fn serve(&self, record: MountRecord, catalog: &Catalog) -> Result<(), Failure> {
        let mount = Mount::new(record, catalog, None)?;
        self.write().insert(mount);
        Ok(())
    }

    /// Lets a newer record take the place of the one that it was made from. Of a mount that is gone
    /// nothing comes back.
    pub(crate) fn update(&self, record: MountRecord, catalog: &Catalog) -> Result<(), Failure> {
        let mut table = self.write();
        let Some(before) = table.by_uuid.get(&record.uuid).map(Arc::clone) else { return Ok(()) };
        if before.record.revision < record.revision {
            let mount = Mount::new(record, catalog, Some(&before))?;
            table.remove(&before);
            table.insert(mount);
        }
        Ok(())
    }

    /// Lets the plugin's new entry in the catalog hold for its mounts.
    pub(crate) fn renew(&self, kind: &str, catalog: &Catalog) -> Result<(), Failure> {
        let mut table = self.write();
        let of_kind = table.by_path.values().filter(|mount| mount.record.kind == kind);
        for before in of_kind.map(Arc::clone).collect::<Vec<_>>() {
            table.insert(Mount::new(before.record.clone(), catalog, Some(&before))?);
        }
        Ok(())
    }

    /// Forgets a mount, after its record was deleted.
    fn forget(&self, mount: &Mount) {
        self.write().remove(mount);
    }

    fn update_builtin(&self, which: Builtin, record: MountRecord) {
        let [system, token] = &mut *sync::write(&self.builtins);
        let slot = match which {
            Builtin::System => system,
            Builtin::Token => token,
        };
        if slot.revision < record.revision {
            *slot = Arc::new(record);
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Table> {
        sync::read(&self.table)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Table> {
        sync::write(&self.table)
    }
}

impl Table {
    fn insert(&mut self, mount: Arc<Mount>) {
        self.by_path.insert(key(&mount.record.path).to_owned(), Arc::clone(&mount));
        self.by_uuid.insert(mount.record.uuid.clone(), mount);
    }

    fn remove(&mut self, mount: &Mount) {
        self.by_path.remove(key(&mount.record.path));
        self.by_uuid.remove(&mount.record.uuid);
    }
}

fn key(path: &MountPath) -> &str {
    path.as_str().trim_end_matches('/')
}

/// Lets a committed change take effect.
pub(crate) fn after_commit(core: &Arc<Core>, change: Change) -> Result<(), Failure> {
    match change {
        Change::Enabled(record) => core.mounts.serve(*record, &core.catalog),
        Change::Tuned(record) => {
            let uuid = record.uuid.clone();
            let before =
                core.mounts.by_uuid(&uuid).map(|mount| mount.record.settings.grants.clone());
            let regranted = before.is_some_and(|before| before != record.settings.grants);
            core.mounts.update(*record, &core.catalog)?;
            if regranted {
                // They were opened by what the mount was granted before.
                core.sandbox.close_mount(&uuid);
            }
            Ok(())
        }
        Change::TunedBuiltin(which, record) => {
            core.mounts.update_builtin(which, *record);
            Ok(())
        }
        Change::Moving(record) => {
            let uuid = record.uuid.clone();
            core.mounts.update(*record, &core.catalog)?;
            remount::carry_out(core, &uuid);
            Ok(())
        }
    }
}

impl<'a> Running<'a> {
    /// That engine behind a mount; `usual` is what it is granted unsaid.
    pub(crate) fn of(engine: &'a Engine, usual: &'a [Grant]) -> Self {
        let identity = engine.identity();
        Self {
            version: &identity.version,
            digest: &identity.digest,
            usual,
            ceiling: engine.ceiling(),
        }
    }
}

impl Mount {
    /// The mount of `record`, with the gates of the one before. Requests that came to a gate before
    /// it was closed do not get in when the mount serves again: it may serve elsewhere.
    fn new(
        record: MountRecord,
        catalog: &Catalog,
        before: Option<&Arc<Self>>,
    ) -> Result<Arc<Self>, Failure> {
        let plugin = catalog.engine(&record.kind)?;
        let (grants, limits) = rights::rights(&record, &plugin);
        let usual = usual(&plugin.engine);
        let compartment = match before {
            Some(before) => before.compartment.under(limits),
            None => Compartment::new(&record.uuid, limits),
        };
        let digest = &plugin.engine.identity().digest;
        let breaker = match before {
            Some(before) if before.breaker.is_of(digest) => Arc::clone(&before.breaker),
            _ => Arc::new(Breaker::new(digest)),
        };
        let reuse = instance_reuse::of(&record, &plugin.engine);
        let serves = record.phase == Phase::Serving;
        let requests = match before {
            Some(before) if before.requests.is_open() || !serves => Arc::clone(&before.requests),
            _ if serves => Arc::default(),
            _ => Arc::new(Gate::closed()),
        };
        let work = before.map(|before| Arc::clone(&before.work)).unwrap_or_default();
        Ok(Arc::new(Self {
            record,
            plugin,
            grants,
            compartment,
            breaker,
            usual,
            reuse,
            requests,
            work,
        }))
    }

    /// The right to serve a request, until it is dropped. `None` when the mount is on its way out.
    pub(crate) fn enter(&self) -> Option<Inside> {
        self.requests.enter()
    }

    /// What runs behind it.
    pub(crate) fn running(&self) -> Running<'_> {
        Running::of(&self.plugin.engine, &self.usual)
    }

    /// Begins the unit of work of a call into the mount's component. Its commits are numbered where
    /// the component asks for that.
    pub(crate) fn begin(&self, store: &Arc<Store>) -> Unit {
        if self.plugin.engine.description().indexed {
            return store.begin_revised(&self.record.uuid);
        }
        store.begin()
    }

    /// The mount as its plugin sees it. `system` are the system's default and longest lifetime;
    /// `longest` is the longest lease for this very call.
    pub(crate) fn seen(&self, system: Lifetimes, longest: Option<u64>) -> contract::Mount {
        let lifetimes = self.lifetimes(system);
        contract::Mount {
            path: self.record.path.as_str().to_owned(),
            accessor: self.record.accessor.clone(),
            kind: self.record.kind.clone(),
            default_ttl: lifetimes.default,
            max_ttl: lifetimes.max,
            longest_lease: longest.map_or(lifetimes.max, |longest| longest.min(lifetimes.max)),
            options: self.record.settings.options.clone().into_iter().collect(),
        }
    }

    /// Its lifetimes, the system's where it has none of its own.
    pub(crate) fn lifetimes(&self, system: Lifetimes) -> Lifetimes {
        self.record.settings.lifetimes(system)
    }
}

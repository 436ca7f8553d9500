//! Mounts: which engine serves which path, and the only door to a component.

use crate::catalog::{Catalog, EnginePlugin};
use crate::log::Log;
use crate::permit::Permit;
use crate::random;
use bulkhead_sandbox::contract;
use bulkhead_sandbox::{Grants, Limits};
use bulkhead_store::{Address, Index, Record, Space, Store, StoreFault, Unit};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::name::MountPath;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

const PREFIX: &str = "mount/";
/// Mounts read at a time at start.
const PAGE: u32 = 500;

/// A mount as it is stored. Lifetimes are in seconds; 0 means the system's.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct MountRecord {
    pub(crate) path: MountPath,
    /// The prefix of its rows; stays when the mount moves.
    pub(crate) uuid: String,
    pub(crate) accessor: String,
    /// The type as it was enabled.
    pub(crate) kind: String,
    pub(crate) description: String,
    pub(crate) default_ttl: u64,
    pub(crate) max_ttl: u64,
    pub(crate) options: BTreeMap<String, String>,
    /// Version of the stored data's shape.
    pub(crate) schema: u32,
}

impl MountRecord {
    pub(crate) fn address(&self) -> Address {
        address(self.path.as_str())
    }

    /// Writes the record into the unit.
    pub(crate) fn put(&self, unit: &mut Unit) -> Result<(), Failure> {
        let body = serde_json::to_vec(self).map_err(|error| Failure::internal(error.to_string()))?;
        unit.put(self.address(), body, Index::default());
        Ok(())
    }
}

/// A mount that serves.
pub(crate) struct Mount {
    pub(crate) record: MountRecord,
    pub(crate) plugin: Arc<EnginePlugin>,
    grants: Arc<Grants>,
}

/// A mount opened by a permit: its component may be called.
pub(crate) struct Opened<'a> {
    pub(crate) plugin: &'a EnginePlugin,
    pub(crate) grants: Arc<Grants>,
    pub(crate) limits: Limits,
}

/// All mounts, by path.
#[derive(Default)]
pub(crate) struct Mounts {
    by_path: RwLock<BTreeMap<String, Arc<Mount>>>,
}

impl Mounts {
    /// Reads the mount table.
    pub(crate) async fn load(store: &Arc<Store>, catalog: &Catalog, log: &Arc<dyn Log>) -> Result<Self, Failure> {
        let mounts = Self::default();
        let mut after = String::new();
        loop {
            let paths = store.begin().keys(Space::Core, PREFIX, &after, PAGE).await?;
            let Some(last) = paths.last() else { return Ok(mounts) };
            after.clone_from(last);
            for path in paths.iter().filter_map(|key| key.strip_prefix(PREFIX)) {
                let found = match store.begin().get(&address(path)).await {
                    Err(damaged @ StoreFault::Damaged(_)) => {
                        // Its requests find nothing there; the other mounts serve.
                        log.line("error", "mount-unreadable", &[("cause", damaged.to_string())]);
                        continue;
                    }
                    found => found?,
                };
                mounts.serve(parse(found, path)?, catalog)?;
            }
        }
    }

    /// Longest prefix first: the mount that serves `path`, and the rest of the path below it.
    pub(crate) fn route(&self, path: &str) -> Option<(Arc<Mount>, String)> {
        let by_path = self.by_path.read().unwrap_or_else(PoisonError::into_inner);
        let mut end = path.len();
        loop {
            let candidate = path.get(..end)?;
            if let Some(mount) = by_path.get(candidate) {
                let rest = path.get(end..).unwrap_or_default().trim_start_matches('/');
                return Some((Arc::clone(mount), rest.to_owned()));
            }
            end = candidate.rfind('/')?;
        }
    }

    /// The mount whose rows begin with `uuid`.
    pub(crate) fn by_uuid(&self, uuid: &str) -> Option<Arc<Mount>> {
        let by_path = self.by_path.read().unwrap_or_else(PoisonError::into_inner);
        by_path.values().find(|mount| mount.record.uuid == uuid).map(Arc::clone)
    }

    /// Every mount, in the order of paths.
    pub(crate) fn all(&self) -> Vec<Arc<Mount>> {
        self.by_path.read().unwrap_or_else(PoisonError::into_inner).values().map(Arc::clone).collect()
    }

    /// The only door to a component.
    pub(crate) fn open<'a>(&self, mount: &'a Mount, _permit: &Permit) -> Opened<'a> {
        Opened { plugin: &mount.plugin, grants: Arc::clone(&mount.grants), limits: Limits::default() }
    }

    /// Writes a new mount into the unit.
    ///
    /// # Errors
    /// 400 when the path is taken, is above or below another mount, or there is no such engine.
    pub(crate) async fn enable(
        &self,
        unit: &mut Unit,
        catalog: &Catalog,
        new: NewMount,
    ) -> Result<MountRecord, Failure> {
        let plugin = catalog.engine(&new.kind)?;
        if let Some(other) = self.in_the_way(new.path.as_str()) {
            return Err(Failure::invalid(format!("path is already in use at {other}; choose another path")));
        }
        let record = MountRecord {
            uuid: random::uuid()?,
            accessor: format!("{}_{}", new.kind, random::hex::<4>()?),
            kind: new.kind,
            description: new.description,
            default_ttl: new.default_ttl,
            max_ttl: new.max_ttl,
            options: BTreeMap::new(),
            schema: plugin.engine.description().schema,
            path: new.path,
        };
        // Remembered by the unit: of two enablings at once, the later one runs again and sees the earlier, also when
        // that does not serve yet.
        let stored = unit.keys(Space::Core, PREFIX, "", u32::MAX).await?;
        let mut stored = stored.iter().filter_map(|key| key.strip_prefix(PREFIX));
        if let Some(other) = stored.find(|other| overlap(other, record.path.as_str())) {
            return Err(Failure::invalid(format!("path is already in use at {other}; choose another path")));
        }
        record.put(unit)?;
        Ok(record)
    }

    /// Serves a mount, after its record was committed.
    pub(crate) fn serve(&self, record: MountRecord, catalog: &Catalog) -> Result<(), Failure> {
        let plugin = catalog.engine(&record.kind)?;
        let path = record.path.as_str().trim_end_matches('/').to_owned();
        let grants = Arc::new(Grants::official(record.path.as_str()));
        let mount = Arc::new(Mount { record, plugin, grants });
        self.by_path.write().unwrap_or_else(PoisonError::into_inner).insert(path, mount);
        Ok(())
    }

    fn in_the_way(&self, path: &str) -> Option<String> {
        let by_path = self.by_path.read().unwrap_or_else(PoisonError::into_inner);
        let mut others = by_path.values().map(|mount| mount.record.path.as_str());
        others.find(|other| overlap(other, path)).map(str::to_owned)
    }
}

/// Is one of two mounts above the other, or both the same?
fn overlap(one: &str, other: &str) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

/// What enabling a mount takes. Lifetimes are in seconds; 0 means the system's.
pub(crate) struct NewMount {
    pub(crate) path: MountPath,
    pub(crate) kind: String,
    pub(crate) description: String,
    pub(crate) default_ttl: u64,
    pub(crate) max_ttl: u64,
}

impl Mount {
    /// Begins the unit of work of a call into the mount's component. Its commits are numbered where the component asks
    /// for that.
    pub(crate) fn begin(&self, store: &Arc<Store>) -> Unit {
        if self.plugin.engine.description().indexed {
            return store.begin_indexed(&self.record.uuid);
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
            options: self.record.options.clone().into_iter().collect(),
        }
    }

    /// Its lifetimes, the system's where it has none of its own.
    pub(crate) fn lifetimes(&self, system: Lifetimes) -> Lifetimes {
        let or = |own: u64, system: u64| if own == 0 { system } else { own };
        let max = or(self.record.max_ttl, system.max);
        Lifetimes { default: or(self.record.default_ttl, system.default).min(max), max }
    }
}

/// Default and longest lifetime, in seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lifetimes {
    pub(crate) default: u64,
    pub(crate) max: u64,
}

fn parse(record: Option<Record>, path: &str) -> Result<MountRecord, Failure> {
    let record = record.ok_or_else(|| Failure::internal(format!("mount {path} vanished while it was read")))?;
    serde_json::from_slice(&record.body)
        .map_err(|_| Failure::internal(format!("the record of mount {path} does not parse")))
}

fn address(path: &str) -> Address {
    Address::new(Space::Core, format!("{PREFIX}{path}"))
}

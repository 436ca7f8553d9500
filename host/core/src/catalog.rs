//! The catalog: which plugins there are, by type and name.
//!
//! Those of this binary, and those that somebody uploaded. A component's description is asked once,
//! when its digest is first seen, and stored; later starts read it and run no plugin code. An
//! uploaded plugin that cannot be loaded is known with the reason, and keeps nobody else from
//! starting.

mod bytes;
mod entry;
mod listing;
mod registration;
mod rules;
mod uploaded;

pub(crate) use entry::PluginType;
pub(crate) use listing::Listed;
pub(crate) use registration::{Registered, Upload, deregister, register};

use crate::core::Core;
use crate::mounts;
use crate::service::Settings;
use bulkhead_sandbox::compile::Compiler;
use bulkhead_sandbox::component::Identity;
use bulkhead_sandbox::{Artefact, DatabasePlugin, Engine, Maker, Sandbox};
use bulkhead_store::{Address, Index, Space, Store, StoreFault, Unit};
use bulkhead_wire::failure::{Failure, Kind, quoted};
use bulkhead_wire::route::Table;
use bulkhead_wire::stored::Stored;
use bulkhead_wire::sync;
use entry::Entry;
use std::collections::BTreeMap;
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// A component that is part of this binary.
#[derive(Clone, Copy)]
pub struct Official {
    /// The component.
    pub wasm: &'static [u8],
    /// The code that it was compiled to during the build.
    pub compiled: &'static [u8],
}

/// A secrets engine with its route table.
pub(crate) struct EnginePlugin {
    pub(crate) engine: Engine,
    pub(crate) table: Table,
}

/// A plugin that can be called.
pub(crate) enum Plugin {
    Engine(Arc<EnginePlugin>),
    Database(Arc<DatabasePlugin>),
}

/// What a commit changed in the catalog.
pub(crate) enum Change {
    /// A plugin is there.
    Registered(Plugin),
    /// The plugin of that type and name is not there any more.
    Removed(PluginType, String),
}

/// What the store and the sandbox make of bytes: what loading a plugin takes.
#[derive(Clone, Copy)]
pub(crate) struct PluginLoader<'a> {
    pub(crate) store: &'a Arc<Store>,
    pub(crate) sandbox: &'a Arc<Sandbox>,
    pub(crate) compiler: &'a Compiler,
}

/// All plugins.
#[derive(Default)]
pub(crate) struct Catalog {
    plugins: RwLock<Plugins>,
}

#[derive(Default)]
struct Plugins {
    engines: BTreeMap<String, Arc<EnginePlugin>>,
    database_plugins: BTreeMap<String, Arc<DatabasePlugin>>,
    /// Those that could not be loaded, and why.
    left_out: BTreeMap<(PluginType, String), (Entry, String)>,
}

impl Catalog {
    /// Loads the components of this binary and those that were uploaded.
    ///
    /// # Errors
    /// When a component of this binary does not load, or the store cannot be read.
    pub(crate) async fn load(
        loader: PluginLoader<'_>,
        settings: &Settings,
    ) -> Result<Self, Failure> {
        let catalog = Self::default();
        for official in &settings.officials {
            catalog.add(loader, *official).await?;
        }
        uploaded::load_all(&catalog, loader, &settings.log).await?;
        Ok(catalog)
    }

    async fn add(&self, loader: PluginLoader<'_>, official: Official) -> Result<(), Failure> {
        let PluginLoader { store, sandbox, .. } = loader;
        let artefact =
            Artefact::Official { wasm: official.wasm, compiled: Some(official.compiled) };
        let digest = bulkhead_sandbox::component::digest(official.wasm);
        let not_an_engine =
            match Engine::load(sandbox, artefact, known(store, &digest).await?).await {
                Ok(engine) => {
                    let plugin = EnginePlugin::new(engine).map_err(Failure::internal)?;
                    remember(store, &digest, plugin.engine.description()).await?;
                    self.insert(Plugin::Engine(Arc::new(plugin)));
                    return Ok(());
                }
                Err(why) => why,
            };
        match DatabasePlugin::load(sandbox, artefact, known(store, &digest).await?).await {
            Ok(plugin) => {
                remember(store, &digest, plugin.description()).await?;
                self.insert(Plugin::Database(Arc::new(plugin)));
                Ok(())
            }
            Err(why) => Err(Failure::internal(format!(
                "the component {digest} is neither an engine ({not_an_engine}) nor a database plugin ({why})"
            ))),
        }
    }

    /// Lets a plugin be found, in the place of what was known under its name.
    fn insert(&self, plugin: Plugin) {
        let mut plugins = self.write();
        plugins.left_out.remove(&(plugin.kind(), plugin.identity().name.clone()));
        match plugin {
            Plugin::Engine(engine) => {
                plugins.engines.insert(engine.engine.identity().name.clone(), engine);
            }
            Plugin::Database(plugin) => {
                let description = plugin.description();
                for name in description.aliases.iter().chain([&description.name]) {
                    plugins.database_plugins.insert(name.clone(), Arc::clone(&plugin));
                }
            }
        }
    }

    fn leave_out(&self, entry: Entry, why: String) {
        self.write().left_out.insert((entry.kind, entry.name.clone()), (entry, why));
    }

    fn remove(&self, kind: PluginType, name: &str) {
        let mut plugins = self.write();
        plugins.left_out.remove(&(kind, name.to_owned()));
        match kind {
            PluginType::Secret => {
                plugins.engines.remove(name);
            }
            PluginType::Database => {
                plugins.database_plugins.retain(|_, plugin| plugin.identity().name != name)
            }
        }
    }

    /// Types that can be mounted.
    pub(crate) fn engines(&self) -> Vec<String> {
        self.read().engines.keys().cloned().collect()
    }

    /// Types of this binary that can be mounted.
    pub(crate) fn official_engines(&self) -> Vec<String> {
        let engines = self.all_engines();
        let officials = engines
            .iter()
            .map(|one| one.engine.identity())
            .filter(|one| one.maker == Maker::Official);
        officials.map(|identity| identity.name.clone()).collect()
    }

    /// Every engine, in the order of their names.
    pub(crate) fn all_engines(&self) -> Vec<Arc<EnginePlugin>> {
        self.read().engines.values().map(Arc::clone).collect()
    }

    /// Every database plugin, once, whatever other names it has.
    pub(crate) fn all_database_plugins(&self) -> Vec<Arc<DatabasePlugin>> {
        let plugins = self.read();
        let named = plugins
            .database_plugins
            .iter()
            .filter(|(name, plugin)| plugin.identity().name == **name);
        named.map(|(_, plugin)| Arc::clone(plugin)).collect()
    }

    /// The engine that is mounted as `kind`.
    pub(crate) fn engine(&self, kind: &str) -> Result<Arc<EnginePlugin>, Failure> {
        let plugins = self.read();
        if let Some(plugin) = plugins.engines.get(kind) {
            return Ok(Arc::clone(plugin));
        }
        if let Some((_, why)) = plugins.left_out.get(&(PluginType::Secret, kind.to_owned())) {
            return Err(Failure::new(
                Kind::Unavailable,
                format!("plugin {kind} is not available: {why}"),
            ));
        }
        let names: Vec<&str> = plugins.engines.keys().map(String::as_str).collect();
        let (kind, names) = (quoted(kind), names.join(", "));
        Err(Failure::invalid(format!(
            "plugin not found in the catalog: there is no secrets engine {kind}; there are: {names}"
        )))
    }

    /// As [`Catalog::engine`], for a mount that `unit` makes: an engine that is removed meanwhile
    /// is a conflict.
    pub(crate) async fn engine_to_mount(
        &self,
        unit: &mut Unit,
        kind: &str,
    ) -> Result<Arc<EnginePlugin>, Failure> {
        let plugin = self.engine(kind)?;
        let is_uploaded = plugin.engine.identity().maker == Maker::Uploaded;
        if is_uploaded && unit.get(&entry::address(PluginType::Secret, kind)).await?.is_none() {
            return Err(Failure::invalid(format!(
                "plugin not found in the catalog: {kind} is being removed"
            )));
        }
        Ok(plugin)
    }

    /// The database plugin `name`, in `version` or, where that is empty, in the one there is.
    pub(crate) fn database_plugin(
        &self,
        name: &str,
        version: &str,
    ) -> Result<Arc<DatabasePlugin>, Failure> {
        let plugins = self.read();
        let Some(plugin) = plugins.database_plugins.get(name) else {
            if let Some((_, why)) = plugins.left_out.get(&(PluginType::Database, name.to_owned())) {
                return Err(Failure::new(
                    Kind::Unavailable,
                    format!("plugin {name} is not available: {why}"),
                ));
            }
            let names: Vec<&str> = plugins.database_plugins.keys().map(String::as_str).collect();
            let message =
                format!("there is no database plugin {name:?}; there are: {}", names.join(", "));
            return Err(Failure::new(Kind::NotFound, message));
        };
        let running = &plugin.identity().version;
        if version.is_empty() || version.trim_start_matches('v') == running {
            return Ok(Arc::clone(plugin));
        }
        let message =
            format!("database plugin {name:?} has no version {version:?}; there is {running}");
        Err(Failure::new(Kind::NotFound, message))
    }

    /// Whether the name, or another name of the same plugin, is that of a plugin of this binary.
    fn is_official(&self, kind: PluginType, name: &str) -> bool {
        let plugins = self.read();
        let maker = match kind {
            PluginType::Secret => {
                plugins.engines.get(name).map(|plugin| plugin.engine.identity().maker)
            }
            PluginType::Database => {
                plugins.database_plugins.get(name).map(|plugin| plugin.identity().maker)
            }
        };
        maker == Some(Maker::Official)
    }

    /// The plugin of this type that answers to `name`, by its own name.
    fn owner_of(&self, kind: PluginType, name: &str) -> Option<String> {
        let plugins = self.read();
        match kind {
            PluginType::Secret => {
                plugins.engines.get(name).map(|plugin| plugin.engine.identity().name.clone())
            }
            PluginType::Database => {
                plugins.database_plugins.get(name).map(|plugin| plugin.identity().name.clone())
            }
        }
    }

    fn is_left_out(&self, kind: PluginType, name: &str) -> bool {
        self.read().left_out.contains_key(&(kind, name.to_owned()))
    }

    fn read(&self) -> RwLockReadGuard<'_, Plugins> {
        sync::read(&self.plugins)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Plugins> {
        sync::write(&self.plugins)
    }
}

impl EnginePlugin {
    fn new(engine: Engine) -> Result<Self, String> {
        let routes = engine.description().routes.clone();
        let table =
            Table::new(routes).map_err(|why| format!("{}: {why}", engine.identity().title()))?;
        Ok(Self { engine, table })
    }
}

impl Plugin {
    fn kind(&self) -> PluginType {
        match self {
            Self::Engine(_) => PluginType::Secret,
            Self::Database(_) => PluginType::Database,
        }
    }

    /// What it asks for, in lines.
    fn asks(&self) -> &[String] {
        match self {
            Self::Engine(plugin) => &plugin.engine.description().asks,
            Self::Database(plugin) => &plugin.description().asks,
        }
    }

    fn identity(&self) -> &Identity {
        match self {
            Self::Engine(plugin) => plugin.engine.identity(),
            Self::Database(plugin) => plugin.identity(),
        }
    }
}

/// Lets a committed change take effect. Mounts that waited for the plugin serve again, and those
/// that have it go by its ceiling.
///
/// # Errors
/// When a mount cannot be made anew.
pub(crate) async fn after_commit(core: &Arc<Core>, change: Change) -> Result<(), Failure> {
    match change {
        Change::Registered(plugin) => {
            let (kind, name) = (plugin.kind(), plugin.identity().name.clone());
            core.catalog.insert(plugin);
            if kind == PluginType::Secret {
                core.mounts.renew(&name, &core.catalog)?;
                mounts::revive(core, &name).await;
            }
        }
        Change::Removed(kind, name) => core.catalog.remove(kind, &name),
    }
    Ok(())
}

fn address(digest: &str) -> Address {
    Address::new(Space::Core, format!("description/{digest}"))
}

/// The stored description, where this digest was described before and the document is of that kind.
/// One that does not open is as good as none: the component is asked again.
async fn known<T: Stored>(store: &Arc<Store>, digest: &str) -> Result<Option<T>, Failure> {
    let record = match store.begin().get(&address(digest)).await {
        Err(StoreFault::Damaged(_)) => None,
        found => found?,
    };
    Ok(record.and_then(|record| T::from_bytes(&record.body).ok()))
}

async fn remember<T: Stored>(
    store: &Arc<Store>,
    digest: &str,
    description: &T,
) -> Result<(), Failure> {
    let mut unit = store.begin();
    match unit.get(&address(digest)).await {
        Ok(Some(_)) => return Ok(()),
        Ok(None) | Err(StoreFault::Damaged(_)) => {}
        Err(fault) => return Err(fault.into()),
    }
    unit.put(address(digest), description.to_bytes()?, Index::default());
    unit.commit().await?;
    Ok(())
}

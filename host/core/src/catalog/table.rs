//! All plugins, by type and name.

use super::entry::{self, Entry, PluginType};
use super::plugin::{EnginePlugin, Plugin};
use bulkhead_sandbox::{DatabasePlugin, Maker};
use bulkhead_store::Unit;
use bulkhead_wire::failure::{Failure, Kind, quoted};
use bulkhead_wire::sync;
use std::collections::BTreeMap;
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// All plugins.
#[derive(Default)]
pub(crate) struct Catalog {
    plugins: RwLock<Plugins>,
}

#[derive(Default)]
pub(super) struct Plugins {
    pub(super) engines: BTreeMap<String, Arc<EnginePlugin>>,
    pub(super) database_plugins: BTreeMap<String, Arc<DatabasePlugin>>,
    /// Those that could not be loaded, and why.
    pub(super) left_out: BTreeMap<(PluginType, String), (Entry, String)>,
}

impl Catalog {
    /// Lets a plugin be found, in the place of what was known under its name.
    pub(crate) fn insert(&self, plugin: Plugin) {
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

    pub(super) fn leave_out(&self, entry: Entry, why: String) {
        self.write().left_out.insert((entry.kind, entry.name.clone()), (entry, why));
    }

    pub(crate) fn remove(&self, kind: PluginType, name: &str) {
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

    /// Every database plugin, once, although it may have other names.
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
    pub(crate) fn is_official(&self, kind: PluginType, name: &str) -> bool {
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
    pub(super) fn owner_of(&self, kind: PluginType, name: &str) -> Option<String> {
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

    pub(super) fn is_left_out(&self, kind: PluginType, name: &str) -> bool {
        self.read().left_out.contains_key(&(kind, name.to_owned()))
    }

    pub(super) fn read(&self) -> RwLockReadGuard<'_, Plugins> {
        sync::read(&self.plugins)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Plugins> {
        sync::write(&self.plugins)
    }
}

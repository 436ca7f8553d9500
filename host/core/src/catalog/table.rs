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
    /// What can be mounted: secrets engines and auth methods, which may have the same names.
    pub(super) mountable: BTreeMap<(PluginType, String), Arc<EnginePlugin>>,
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
                let name = engine.engine.identity().name.clone();
                plugins.mountable.insert((engine.kind(), name), engine);
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
            PluginType::Auth | PluginType::Secret => {
                plugins.mountable.remove(&(kind, name.to_owned()));
            }
            PluginType::Database => {
                plugins.database_plugins.retain(|_, plugin| plugin.identity().name != name)
            }
        }
    }

    /// Types of this binary that can be mounted.
    pub(crate) fn official_mountable(&self) -> Vec<(PluginType, String)> {
        let plugins = self.read();
        let officials = plugins
            .mountable
            .iter()
            .filter(|(_, plugin)| plugin.engine.identity().maker == Maker::Official);
        officials.map(|(named, _)| named.clone()).collect()
    }

    /// Everything that can be mounted, in the order of types and names.
    pub(crate) fn all_mountable(&self) -> Vec<Arc<EnginePlugin>> {
        self.read().mountable.values().map(Arc::clone).collect()
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

    /// The secrets engine, or the auth method, that is mounted under the name.
    ///
    /// # Errors
    /// 400 where there is none of that type, also where there is one of the other; 503 where it is
    /// known and cannot be used.
    pub(crate) fn mountable(
        &self,
        kind: PluginType,
        name: &str,
    ) -> Result<Arc<EnginePlugin>, Failure> {
        let (plugins, named) = (self.read(), (kind, name.to_owned()));
        if let Some(plugin) = plugins.mountable.get(&named).or_else(|| plugins.called(kind, name)) {
            return Ok(Arc::clone(plugin));
        }
        if let Some((_, why)) = plugins.left_out.get(&named) {
            return Err(Failure::new(
                Kind::Unavailable,
                format!("plugin {name} is not available: {why}"),
            ));
        }
        Err(plugins.not_found(kind, name))
    }

    /// As [`Catalog::mountable`], for a mount that `unit` makes: a plugin that is removed meanwhile
    /// is a conflict.
    pub(crate) async fn mountable_for(
        &self,
        unit: &mut Unit,
        kind: PluginType,
        name: &str,
    ) -> Result<Arc<EnginePlugin>, Failure> {
        let plugin = self.mountable(kind, name)?;
        let is_uploaded = plugin.engine.identity().maker == Maker::Uploaded;
        if is_uploaded && unit.get(&entry::address(kind, name)).await?.is_none() {
            return Err(Failure::invalid(format!(
                "plugin not found in the catalog: {name} is being removed"
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
            PluginType::Auth | PluginType::Secret => {
                let found = plugins.mountable.get(&(kind, name.to_owned()));
                found.map(|plugin| plugin.engine.identity().maker)
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
            PluginType::Auth | PluginType::Secret => {
                let found = plugins.mountable.get(&(kind, name.to_owned()));
                found.map(|plugin| plugin.engine.identity().name.clone())
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

impl Plugins {
    /// The plugin that is not named so, and can be mounted under the name all the same.
    fn called(&self, kind: PluginType, alias: &str) -> Option<&Arc<EnginePlugin>> {
        let mut of_kind = self.mountable.iter().filter(|((known, _), _)| *known == kind);
        let is_called = |plugin: &EnginePlugin| {
            plugin.engine.description().aliases.iter().any(|name| name == alias)
        };
        of_kind.find(|(_, plugin)| is_called(plugin)).map(|(_, plugin)| plugin)
    }

    /// 400: nothing of that type is mounted under the name, with what there is.
    fn not_found(&self, kind: PluginType, name: &str) -> Failure {
        let (title, quoted) = (kind.title(), quoted(name));
        let other = |(known, one): &&(PluginType, String)| *known != kind && one == name;
        if let Some((other, _)) = self.mountable.keys().find(other) {
            let (other, home) = match other {
                PluginType::Auth => (other.title(), "sys/auth"),
                _ => (other.title(), "sys/mounts"),
            };
            return Failure::invalid(format!(
                "plugin not found in the catalog: {quoted} is a kind of {other} and not of \
                 {title}; mount it with {home}"
            ));
        }
        let names = self.mountable.keys().filter(|(known, _)| *known == kind);
        let names: Vec<&str> = names.map(|(_, name)| name.as_str()).collect();
        let there_are = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        Failure::invalid(format!(
            "plugin not found in the catalog: there is no {title} {quoted}; there are: {there_are}"
        ))
    }
}

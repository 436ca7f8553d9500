//! The table of all plugins, by type and name.

use super::entry::{self, PluginRecord, PluginType};
use super::missing::MissingCode;
use super::origin::ComponentOrigin;
use super::pin::{PinTable, VersionChoice};
use super::plugin::{EnginePlugin, Plugin};
use super::versions::PluginVersions;
use bulkhead_sandbox::component::ComponentIdentity;
use bulkhead_sandbox::{DatabasePlugin, GrantPattern, Publisher};
use bulkhead_store::Unit;
use bulkhead_wire::failure::{Failure, FailureKind, quoted};
use bulkhead_wire::sync;
use std::collections::BTreeMap;
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The table of all plugins.
#[derive(Default)]
pub struct Catalog {
    plugins: RwLock<PluginTable>,
    pub(super) pins: PinTable,
    pub(super) missing: MissingCode,
}

#[derive(Default)]
pub(super) struct PluginTable {
    /// Secrets engines and auth methods. The two types may have equal names.
    pub(super) mountable: BTreeMap<(PluginType, String), PluginVersions<EnginePlugin>>,
    /// Database plugins, by own name.
    pub(super) databases: BTreeMap<String, PluginVersions<DatabasePlugin>>,
    /// Versions that failed to load, by type, name and version, with the reason.
    pub(super) left_out: BTreeMap<(PluginType, String, String), (PluginRecord, String)>,
    /// Origins of registered versions, by type, name and version.
    pub(super) origins: BTreeMap<(PluginType, String, String), ComponentOrigin>,
}

impl Catalog {
    /// Adds a plugin, or replaces the plugin with the same type, name and version.
    pub(crate) fn insert(&self, plugin: Plugin) {
        let mut plugins = self.write();
        let ComponentIdentity { name, version, .. } = plugin.identity().clone();
        plugins.left_out.remove(&(plugin.kind(), name.clone(), version));
        match plugin {
            Plugin::Engine(engine) => {
                plugins.mountable.entry((engine.kind(), name)).or_default().insert(engine);
            }
            Plugin::Database(plugin) => {
                plugins.databases.entry(name).or_default().insert(plugin);
            }
        }
    }

    /// Adds a registered plugin, as [`Catalog::insert`].
    pub(crate) fn insert_registered(&self, plugin: Plugin, origin: ComponentOrigin) {
        let ComponentIdentity { name, version, .. } = plugin.identity().clone();
        self.write().origins.insert((plugin.kind(), name, version), origin);
        self.insert(plugin);
    }

    pub(super) fn leave_out(&self, entry: PluginRecord, why: String) {
        let named = (entry.kind, entry.name.clone(), entry.version.clone());
        self.write().left_out.insert(named, (entry, why));
    }

    pub(crate) fn remove(&self, kind: PluginType, name: &str, version: &str) {
        let mut plugins = self.write();
        let named = (kind, name.to_owned(), version.to_owned());
        plugins.left_out.remove(&named);
        plugins.origins.remove(&named);
        match kind {
            PluginType::Auth | PluginType::Secret => {
                let named = (kind, name.to_owned());
                let versions = plugins.mountable.get_mut(&named);
                if versions.is_some_and(|versions| versions.remove(version)) {
                    plugins.mountable.remove(&named);
                }
            }
            PluginType::Database => {
                let versions = plugins.databases.get_mut(name);
                if versions.is_some_and(|versions| versions.remove(version)) {
                    plugins.databases.remove(name);
                }
            }
        }
    }

    /// Returns the secrets engines and auth methods of this binary, by type and name.
    pub(crate) fn official_mountable(&self) -> Vec<(PluginType, String)> {
        let plugins = self.read();
        let officials = plugins
            .mountable
            .iter()
            .filter(|(_, one)| one.publisher() == Some(Publisher::Official));
        officials.map(|(named, _)| named.clone()).collect()
    }

    /// Returns all versions of secrets engines and auth methods, ordered by type, name and version.
    pub fn all_mountable(&self) -> Vec<Arc<EnginePlugin>> {
        self.read().mountable.values().flat_map(PluginVersions::all).map(Arc::clone).collect()
    }

    /// Returns all versions of database plugins, ordered by name and version.
    pub(crate) fn all_database_plugins(&self) -> Vec<Arc<DatabasePlugin>> {
        self.read().databases.values().flat_map(PluginVersions::all).map(Arc::clone).collect()
    }

    /// Returns the secrets engine or auth method `name`, which may be an alias, in `version`, or in
    /// its newest version if `version` is empty.
    ///
    /// # Errors
    /// 400 if no plugin of that type has the name or the version; 503 if the plugin is registered
    /// and could not be loaded.
    pub(crate) fn select(
        &self,
        kind: PluginType,
        name: &str,
        version: &str,
    ) -> Result<Arc<EnginePlugin>, Failure> {
        let plugins = self.read();
        let versions = plugins.find_named(kind, name);
        if let Some(plugin) = versions.and_then(|versions| versions.select(version)) {
            return Ok(Arc::clone(plugin));
        }
        let number = version.trim_start_matches('v');
        let is_asked = |(left_kind, left_name, left_version): &(PluginType, String, String)| {
            *left_kind == kind && left_name == name && (number.is_empty() || left_version == number)
        };
        if let Some((_, (_, why))) = plugins.left_out.iter().find(|(named, _)| is_asked(named)) {
            let message = format!("plugin {name} is not available: {why}");
            return Err(Failure::new(FailureKind::Unavailable, message));
        }
        Err(match versions {
            Some(versions) => Failure::invalid(format!(
                "plugin_version {} of {name} is not in the catalog; there is {}: give an existing \
                 version, or leave plugin_version out",
                quoted(version),
                versions.list_numbers()
            )),
            None => plugins.not_found(kind, name),
        })
    }

    /// Chooses like [`Catalog::choose`], for a mount that `unit` writes: a concurrent removal of
    /// the version is a conflict.
    ///
    /// # Errors
    /// As [`Catalog::choose`]; 400 if the version is being removed.
    pub(crate) async fn choose_for(
        &self,
        unit: &mut Unit,
        (kind, name): (PluginType, &str),
        choice: VersionChoice<'_>,
    ) -> Result<Arc<EnginePlugin>, Failure> {
        let plugin = self.choose(kind, name, choice)?;
        assert_registered(unit, kind, plugin.identity()).await?;
        Ok(plugin)
    }

    /// Returns true if `name` is a plugin of this binary or an alias of such a plugin. Otherwise an
    /// upload under the alias would take over the mounts that were enabled under the alias.
    pub fn is_official(&self, kind: PluginType, name: &str) -> bool {
        let plugins = self.read();
        let maker = match kind {
            PluginType::Auth | PluginType::Secret => {
                plugins.find_named(kind, name).and_then(PluginVersions::publisher)
            }
            PluginType::Database => plugins.database(name).and_then(PluginVersions::publisher),
        };
        maker == Some(Publisher::Official)
    }

    /// Returns the own name of the plugin with that name or alias.
    pub(super) fn owner_of(&self, kind: PluginType, name: &str) -> Option<String> {
        let plugins = self.read();
        match kind {
            PluginType::Auth | PluginType::Secret => {
                let newest = plugins.find_named(kind, name).and_then(PluginVersions::newest);
                newest.map(|plugin| plugin.identity().name.clone())
            }
            PluginType::Database => {
                let newest = plugins.database(name).and_then(PluginVersions::newest);
                newest.map(|plugin| plugin.identity().name.clone())
            }
        }
    }

    /// Returns true if the version is registered but could not be loaded.
    pub(super) fn is_left_out(&self, entry: &PluginRecord) -> bool {
        let named = (entry.kind, entry.name.clone(), entry.version.clone());
        self.read().left_out.contains_key(&named)
    }

    /// Returns the type, name and version of every registered plugin, usable or not.
    pub(super) fn all_registered(&self) -> Vec<(PluginType, String, String)> {
        let plugins = self.read();
        plugins.origins.keys().chain(plugins.left_out.keys()).cloned().collect()
    }

    /// Returns true if the table has the registered plugin as the entry describes the plugin.
    pub(super) fn is_up_to_date(&self, entry: &PluginRecord) -> bool {
        let plugins = self.read();
        let named = (entry.kind, entry.name.clone(), entry.version.clone());
        if let Some((known, _)) = plugins.left_out.get(&named) {
            return known == entry;
        }
        let is_same = |digest: &str, ceiling: Option<&[GrantPattern]>| {
            digest == entry.digest && ceiling == entry.ceiling.as_deref()
        };
        let has_component = match entry.kind {
            PluginType::Auth | PluginType::Secret => {
                let versions = plugins.mountable.get(&(entry.kind, entry.name.clone()));
                let plugin = versions.and_then(|versions| versions.select(&entry.version));
                plugin.is_some_and(|plugin| is_same(&plugin.identity().digest, plugin.ceiling()))
            }
            PluginType::Database => {
                let versions = plugins.databases.get(&entry.name);
                let plugin = versions.and_then(|versions| versions.select(&entry.version));
                plugin.is_some_and(|plugin| is_same(&plugin.identity().digest, plugin.ceiling()))
            }
        };
        has_component && plugins.origins.get(&named) == Some(&entry.origin)
    }

    pub(super) fn read(&self) -> RwLockReadGuard<'_, PluginTable> {
        sync::read(&self.plugins)
    }

    fn write(&self) -> RwLockWriteGuard<'_, PluginTable> {
        sync::write(&self.plugins)
    }
}

impl PluginTable {
    /// Returns the plugin that has the name or, if no plugin has the name, the alias.
    fn find_named(&self, kind: PluginType, name: &str) -> Option<&PluginVersions<EnginePlugin>> {
        let own = self.mountable.get(&(kind, name.to_owned()));
        own.or_else(|| self.find_by_alias(kind, name))
    }

    /// Returns the plugin that has the alias.
    fn find_by_alias(
        &self,
        kind: PluginType,
        alias: &str,
    ) -> Option<&PluginVersions<EnginePlugin>> {
        let mut of_kind =
            self.mountable.iter().filter(|((plugin_kind, _), _)| *plugin_kind == kind);
        let is_called = |versions: &PluginVersions<EnginePlugin>| {
            let newest = versions.newest();
            newest
                .is_some_and(|plugin| plugin.description().aliases.iter().any(|name| name == alias))
        };
        of_kind.find(|(_, versions)| is_called(versions)).map(|(_, versions)| versions)
    }

    /// Returns the error 400 for an unknown plugin, with the known names.
    fn not_found(&self, kind: PluginType, name: &str) -> Failure {
        let (title, quoted) = (kind.title(), quoted(name));
        let other =
            |(plugin_kind, one): &&(PluginType, String)| *plugin_kind != kind && one == name;
        if let Some((other, _)) = self.mountable.keys().find(other) {
            let (other, home) = match other {
                PluginType::Auth => (other.title(), "sys/auth"),
                _ => (other.title(), "sys/mounts"),
            };
            return Failure::invalid(format!(
                "plugin not found in the catalog: {quoted} is a kind of {other} and not of \
                 {title}; mount the plugin with {home}"
            ));
        }
        let names = self.mountable.keys().filter(|(plugin_kind, _)| *plugin_kind == kind);
        let names: Vec<&str> = names.map(|(_, name)| name.as_str()).collect();
        let there_are = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        let advice = replacement_advice(kind, name);
        Failure::invalid(format!(
            "plugin not found in the catalog: there is no {title} {quoted}; there are: \
             {there_are}{advice}"
        ))
    }
}

/// Returns the end of a refusal for a type of published servers that another plugin replaces in
/// part; empty for other types.
fn replacement_advice(kind: PluginType, name: &str) -> &'static str {
    match (kind, name) {
        (PluginType::Auth, "oidc") => {
            "; logins in a browser are not part of this version: use jwt, which lets in the tokens \
             of the same issuers"
        }
        _ => "",
    }
}

/// Makes a concurrent removal of an uploaded version a conflict of the unit.
///
/// # Errors
/// 400 if the version is being removed.
pub(super) async fn assert_registered(
    unit: &mut Unit,
    kind: PluginType,
    identity: &ComponentIdentity,
) -> Result<(), Failure> {
    let ComponentIdentity { name, version, maker, .. } = identity;
    if *maker == Publisher::Official
        || unit.get(&entry::address(kind, name, version)).await?.is_some()
    {
        return Ok(());
    }
    Err(Failure::invalid(format!(
        "plugin not found in the catalog: {name} {version} is being removed"
    )))
}

//! Database plugins of the catalog: the version that serves a connection.

use super::connection::ConnectionVersion;
use super::entry::PluginType;
use super::pin::VersionChoice;
use super::table::{Catalog, PluginTable};
use super::versions::PluginVersions;
use bulkhead_sandbox::DatabasePlugin;
use bulkhead_wire::failure::{Failure, FailureKind, quoted};
use semver::Version;
use std::sync::Arc;

impl Catalog {
    /// Returns the version of a database plugin that a connection gets, by the rule of
    /// [`Catalog::choose`]. `name` may be an alias.
    ///
    /// # Errors
    /// 400 for a text that is not a version; 404 for a plugin or version that is not in the
    /// catalog; 503 for a version that could not be loaded.
    pub(super) fn choose_database(
        &self,
        name: &str,
        choice: VersionChoice<'_>,
    ) -> Result<Arc<DatabasePlugin>, Failure> {
        let version = choice.version;
        if !version.is_empty() && Version::parse(version.trim_start_matches('v')).is_err() {
            return Err(Failure::invalid(format!(
                "plugin_version {} is not a semantic version, such as 1.2.3",
                quoted(version)
            )));
        }
        let own = self.own_name(name);
        self.select_database(name, &self.decide_version(PluginType::Database, &own, choice))
    }

    /// Returns the own name of the database plugin with that name or alias.
    pub(super) fn own_name(&self, name: &str) -> String {
        self.owner_of(PluginType::Database, name).unwrap_or_else(|| name.to_owned())
    }

    /// Returns the database plugin that serves a connection. A connection without a recorded
    /// version was stored by an earlier release, which had one version of each database plugin: the
    /// oldest version serves the connection, unless the connection names a version.
    ///
    /// # Errors
    /// 404 for a plugin or version that is not in the catalog; 503 for a version that could not be
    /// loaded.
    pub(crate) fn serving_database(
        &self,
        (name, version): (&str, &str),
        recorded: Option<&ConnectionVersion>,
    ) -> Result<Arc<DatabasePlugin>, Failure> {
        let owner = self.owner_of(PluginType::Database, name);
        let is_same =
            |found: &&ConnectionVersion| owner.as_ref().is_none_or(|owner| *owner == found.plugin);
        if let Some(recorded) = recorded.filter(is_same) {
            return self.select_database(&recorded.plugin, &recorded.version);
        }
        if version.is_empty()
            && let Some(oldest) = self.read().database(name).and_then(PluginVersions::oldest)
        {
            return Ok(Arc::clone(oldest));
        }
        self.select_database(name, version)
    }

    /// Returns the version of the database plugin, or the newest version if `version` is empty.
    fn select_database(&self, name: &str, version: &str) -> Result<Arc<DatabasePlugin>, Failure> {
        let plugins = self.read();
        let versions = plugins.database(name);
        if let Some(plugin) = versions.and_then(|versions| versions.select(version)) {
            return Ok(Arc::clone(plugin));
        }
        let number = version.trim_start_matches('v');
        if let Some(why) = plugins.left_out_database(name, number) {
            let message = format!("plugin {name} is not available: {why}");
            return Err(Failure::new(FailureKind::Unavailable, message));
        }
        let message = match versions {
            Some(versions) => format!(
                "database plugin {name:?} has no version {number:?}; there is {}: give an existing \
                 version as plugin_version, or register version {number:?}",
                versions.list_numbers()
            ),
            None => plugins.no_database(name),
        };
        Err(Failure::new(FailureKind::NotFound, message))
    }
}

impl PluginTable {
    /// Returns the database plugin that has the name or, if no plugin has the name, the alias.
    pub(super) fn database(&self, name: &str) -> Option<&PluginVersions<DatabasePlugin>> {
        let is_called = |versions: &&PluginVersions<DatabasePlugin>| {
            let mut aliases = versions.all().flat_map(|plugin| &plugin.description().aliases);
            aliases.any(|alias| alias == name)
        };
        self.databases.get(name).or_else(|| self.databases.values().find(is_called))
    }

    /// Returns the reason why that version of a database plugin could not be loaded. An empty
    /// version stands for any version.
    fn left_out_database(&self, name: &str, version: &str) -> Option<&str> {
        let is_match = |(kind, plugin, number): &(PluginType, String, String)| {
            *kind == PluginType::Database
                && plugin == name
                && (version.is_empty() || number == version)
        };
        let mut left_out = self.left_out.iter();
        left_out.find(|(named, _)| is_match(named)).map(|(_, (_, why))| why.as_str())
    }

    /// Returns the message about an unknown database plugin, with all names and aliases.
    fn no_database(&self, name: &str) -> String {
        let aliases = self.databases.values().filter_map(PluginVersions::newest);
        let aliases = aliases.flat_map(|plugin| &plugin.description().aliases);
        let mut names: Vec<&str> =
            self.databases.keys().chain(aliases).map(String::as_str).collect();
        names.sort_unstable();
        format!("there is no database plugin {name:?}; there are: {}", names.join(", "))
    }
}

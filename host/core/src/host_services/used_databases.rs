//! The database plugins that a call uses.
//!
//! This file prevents two versions of a plugin in one call: the call keeps using the same version,
//! even if another version is registered or chosen meanwhile.

use crate::catalog::{Catalog, MountConnection};
use crate::core::Core;
use bulkhead_sandbox::DatabasePlugin;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::sync;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

/// The database plugins of one call.
#[derive(Default)]
pub(super) struct UsedDatabases(Mutex<BTreeMap<PluginUse, Arc<DatabasePlugin>>>);

/// A use of a database plugin: for a connection of the mount, or by name and version.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum PluginUse {
    Connection(String),
    Named(String, String),
}

impl UsedDatabases {
    /// Returns the own names of the plugins.
    pub(super) fn names(&self) -> BTreeSet<String> {
        sync::lock(&self.0).values().map(|plugin| plugin.identity().name.clone()).collect()
    }

    /// Returns the plugin with that name and version.
    pub(super) fn find_named(
        &self,
        catalog: &Catalog,
        name: &str,
        version: &str,
    ) -> Result<Arc<DatabasePlugin>, Failure> {
        let plugin_use = PluginUse::Named(name.to_owned(), version.to_owned());
        match self.find(&plugin_use) {
            Some(found) => Ok(found),
            None => {
                Ok(self.record_use(plugin_use, catalog.serving_database((name, version), None)?))
            }
        }
    }

    /// Returns the plugin that serves the connection.
    pub(super) async fn serving(
        &self,
        core: &Core,
        connection: MountConnection,
        name_and_version: (&str, &str),
    ) -> Result<Arc<DatabasePlugin>, Failure> {
        let used = PluginUse::Connection(connection.name.clone());
        if let Some(found) = self.find(&used) {
            return Ok(found);
        }
        // A separate unit of work: a reload during the call is not a conflict of the call.
        let recorded = connection.read(&mut core.store.begin()).await?;
        Ok(self
            .record_use(used, core.catalog.serving_database(name_and_version, recorded.as_ref())?))
    }

    /// Lets the call use the chosen plugin for the connection from now on.
    pub(super) fn note_chosen(
        &self,
        connection: MountConnection,
        plugin: Arc<DatabasePlugin>,
    ) -> Arc<DatabasePlugin> {
        self.record_use(PluginUse::Connection(connection.name), plugin)
    }

    fn find(&self, used: &PluginUse) -> Option<Arc<DatabasePlugin>> {
        sync::lock(&self.0).get(used).map(Arc::clone)
    }

    fn record_use(&self, used: PluginUse, plugin: Arc<DatabasePlugin>) -> Arc<DatabasePlugin> {
        sync::lock(&self.0).insert(used, Arc::clone(&plugin));
        plugin
    }
}

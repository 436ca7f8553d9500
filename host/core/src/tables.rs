//! The tables of all served rows, as one document for `bulkhead plugin inspect` and for the test
//! suite, which demands tests for each row.
//!
//! Nothing is written twice: the same rows dispatch the requests.

use crate::catalog::Catalog;
use bulkhead_sandbox::component::ComponentIdentity;
use bulkhead_wire::description::{ComponentDescription, DatabaseDescription, Route};
use bulkhead_wire::route::RouteTable;
use bulkhead_wire::sync;
use serde::Serialize;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// The served rows of the host and of all plugins.
#[derive(Serialize)]
pub struct RouteTables {
    /// Endpoints of the host, with whole paths.
    pub host: Vec<Route>,
    /// Plugins, in the order of their names.
    pub plugins: Vec<InspectedPlugin>,
}

/// A plugin as it described itself.
#[derive(Serialize)]
pub struct InspectedPlugin {
    /// SHA-256 of the component's bytes, hexadecimal.
    pub sha256: String,
    /// The plugin's own description.
    #[serde(flatten)]
    pub described: PluginDescription,
}

/// A plugin's own description, by kind.
#[derive(Serialize)]
#[serde(untagged)]
pub enum PluginDescription {
    /// A plugin that can be mounted.
    Mountable(ComponentDescription),
    /// A plugin that the database engine reaches.
    Database(DatabaseDescription),
}

impl PluginDescription {
    /// Returns the plugin's canonical name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Mountable(description) => &description.name,
            Self::Database(description) => &description.name,
        }
    }
}

impl RouteTables {
    /// Collects the tables of the host and of every plugin in the catalog.
    pub fn of(host: &RouteTable, catalog: &Catalog) -> Self {
        Self { host: host.routes().to_vec(), plugins: plugins(catalog) }
    }
}

/// Maximum number of cached documents.
const DOCUMENTS_MAX: usize = 16;

/// Cache of documents, each made once for its tables, because callers without a token may ask.
#[derive(Default)]
pub struct DocumentCache(Mutex<VecDeque<(String, Arc<Vec<u8>>)>>);

impl DocumentCache {
    /// Returns the document of the tables that `version` names; `make` makes a missing document.
    /// Concurrent requests wait while a document is made.
    pub fn get(&self, version: String, make: impl FnOnce() -> Vec<u8>) -> Arc<Vec<u8>> {
        let mut documents = sync::lock(&self.0);
        if let Some((_, found)) =
            documents.iter().find(|(cached_version, _)| *cached_version == version)
        {
            return Arc::clone(found);
        }
        let document = Arc::new(make());
        documents.truncate(DOCUMENTS_MAX - 1);
        documents.push_front((version, Arc::clone(&document)));
        document
    }
}

fn plugins(catalog: &Catalog) -> Vec<InspectedPlugin> {
    let plugin = |identity: &ComponentIdentity, described| InspectedPlugin {
        sha256: identity.digest.clone(),
        described,
    };
    let engines = catalog.all_mountable();
    let engines = engines.iter().map(|found| {
        plugin(found.identity(), PluginDescription::Mountable(found.description().clone()))
    });
    let databases = catalog.all_database_plugins();
    let databases = databases.iter().map(|found| {
        plugin(found.identity(), PluginDescription::Database(found.description().clone()))
    });
    let mut plugins: Vec<InspectedPlugin> = engines.chain(databases).collect();
    plugins.sort_by(|one, other| one.described.name().cmp(other.described.name()));
    plugins
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn document_is_built_once_and_oldest_is_evicted() {
        let (documents, mut builds) = (DocumentCache::default(), 0);
        let mut get = |version: &str| {
            let document = documents.get(version.to_owned(), || {
                builds += 1;
                version.as_bytes().to_vec()
            });
            assert_eq!(*document, version.as_bytes());
            builds
        };
        assert_eq!([get("a"), get("a"), get("b"), get("a")], [1, 1, 2, 2]);
        let others: Vec<String> = (0..DOCUMENTS_MAX).map(|number| number.to_string()).collect();
        assert_eq!(others.iter().map(|other| get(other)).max(), Some(2 + DOCUMENTS_MAX));
        assert_eq!(get("a"), 3 + DOCUMENTS_MAX);
        assert_eq!(sync::lock(&documents.0).len(), DOCUMENTS_MAX);
    }
}

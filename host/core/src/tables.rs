//! The tables of everything that is served, as one document: what `bulkhead plugin inspect` prints,
//! and what the suite demands tests for.
//!
//! Nothing is written twice: these are the very rows that requests are dispatched by.

use crate::catalog::Catalog;
use bulkhead_sandbox::component::Identity;
use bulkhead_wire::description::{DatabaseDescription, Description, Route};
use bulkhead_wire::route::Table;
use serde::Serialize;

/// What is served.
#[derive(Serialize)]
pub struct Tables {
    /// Endpoints of the host, with whole paths.
    pub host: Vec<Route>,
    /// Plugins, in the order of their names.
    pub plugins: Vec<Plugin>,
}

/// A plugin as it described itself.
#[derive(Serialize)]
pub struct Plugin {
    /// SHA-256 of the component's bytes, hexadecimal.
    pub sha256: String,
    /// What it said.
    #[serde(flatten)]
    pub described: Described,
}

/// What a plugin said of itself, by its kind.
#[derive(Serialize)]
#[serde(untagged)]
pub enum Described {
    /// A plugin that can be mounted.
    Mountable(Description),
    /// A plugin that the database engine reaches.
    Database(DatabaseDescription),
}

impl Described {
    /// Its canonical name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Mountable(description) => &description.name,
            Self::Database(description) => &description.name,
        }
    }
}

impl Tables {
    /// Of the host and of every plugin in the catalog.
    pub(crate) fn of(host: &Table, catalog: &Catalog) -> Self {
        Self { host: host.routes().to_vec(), plugins: plugins(catalog) }
    }
}

fn plugins(catalog: &Catalog) -> Vec<Plugin> {
    let plugin =
        |identity: &Identity, described| Plugin { sha256: identity.digest.clone(), described };
    let engines = catalog.all_engines();
    let engines = engines.iter().map(|found| {
        plugin(found.engine.identity(), Described::Mountable(found.engine.description().clone()))
    });
    let databases = catalog.all_database_plugins();
    let databases = databases
        .iter()
        .map(|found| plugin(found.identity(), Described::Database(found.description().clone())));
    let mut plugins: Vec<Plugin> = engines.chain(databases).collect();
    plugins.sort_by(|one, other| one.described.name().cmp(other.described.name()));
    plugins
}

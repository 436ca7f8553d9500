//! The catalog: which plugins there are, by type and name.
//!
//! A component's description is asked once, when its digest is first seen, and stored; later starts
//! read it and run no plugin code.

use bulkhead_sandbox::{Artefact, DatabasePlugin, Engine, Sandbox};
use bulkhead_store::{Address, Index, Space, Store, StoreFault};
use bulkhead_wire::failure::{Failure, Kind, quoted};
use bulkhead_wire::route::Table;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::sync::Arc;

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

/// All plugins, fixed at start in this version.
#[derive(Default)]
pub(crate) struct Catalog {
    engines: BTreeMap<String, Arc<EnginePlugin>>,
    database_plugins: BTreeMap<String, Arc<DatabasePlugin>>,
}

impl Catalog {
    /// Loads the official components.
    pub(crate) async fn load(
        store: &Arc<Store>,
        sandbox: &Arc<Sandbox>,
        officials: &[Official],
    ) -> Result<Self, Failure> {
        let mut catalog = Self::default();
        for official in officials {
            catalog.add(store, sandbox, *official).await?;
        }
        Ok(catalog)
    }

    async fn add(&mut self, store: &Arc<Store>, sandbox: &Arc<Sandbox>, official: Official) -> Result<(), Failure> {
        let artefact = Artefact { wasm: official.wasm, compiled: Some(official.compiled) };
        let digest = bulkhead_sandbox::component::digest(official.wasm);
        let not_an_engine = match Engine::load(sandbox, artefact, known(store, &digest).await?).await {
            Ok(engine) => return self.add_engine(store, engine).await,
            Err(why) => why,
        };
        match DatabasePlugin::load(sandbox, artefact, known(store, &digest).await?).await {
            Ok(plugin) => self.add_database_plugin(store, plugin).await,
            Err(why) => Err(Failure::internal(format!(
                "the component {digest} is neither an engine ({not_an_engine}) nor a database plugin ({why})"
            ))),
        }
    }

    async fn add_engine(&mut self, store: &Arc<Store>, engine: Engine) -> Result<(), Failure> {
        let description = engine.description().clone();
        let table = Table::new(description.routes.clone())
            .map_err(|why| Failure::internal(format!("{}: {why}", engine.identity().title())))?;
        remember(store, &engine.identity().digest, &description).await?;
        self.engines.insert(description.name, Arc::new(EnginePlugin { engine, table }));
        Ok(())
    }

    async fn add_database_plugin(&mut self, store: &Arc<Store>, plugin: DatabasePlugin) -> Result<(), Failure> {
        let description = plugin.description().clone();
        remember(store, &plugin.identity().digest, &description).await?;
        let plugin = Arc::new(plugin);
        for name in description.aliases.into_iter().chain([description.name]) {
            self.database_plugins.insert(name, Arc::clone(&plugin));
        }
        Ok(())
    }

    /// Types that can be mounted.
    pub(crate) fn engines(&self) -> impl Iterator<Item = &str> {
        self.engines.keys().map(String::as_str)
    }

    /// Every engine.
    pub(crate) fn all_engines(&self) -> impl Iterator<Item = &EnginePlugin> {
        self.engines.values().map(Arc::as_ref)
    }

    /// Every database plugin, once, whatever other names it has.
    pub(crate) fn all_database_plugins(&self) -> impl Iterator<Item = &DatabasePlugin> {
        let named = self.database_plugins.iter().filter(|(name, plugin)| plugin.identity().name == **name);
        named.map(|(_, plugin)| plugin.as_ref())
    }

    /// The engine that is mounted as `kind`.
    pub(crate) fn engine(&self, kind: &str) -> Result<Arc<EnginePlugin>, Failure> {
        self.engines.get(kind).map(Arc::clone).ok_or_else(|| {
            let names: Vec<&str> = self.engines.keys().map(String::as_str).collect();
            let (kind, names) = (quoted(kind), names.join(", "));
            Failure::invalid(format!(
                "plugin not found in the catalog: there is no secrets engine {kind}; there are: {names}"
            ))
        })
    }

    /// The database plugin `name`, in `version` or, where that is empty, in the one there is.
    pub(crate) fn database_plugin(&self, name: &str, version: &str) -> Result<Arc<DatabasePlugin>, Failure> {
        let Some(plugin) = self.database_plugins.get(name) else {
            let names: Vec<&str> = self.database_plugins.keys().map(String::as_str).collect();
            let message = format!("there is no database plugin {name:?}; there are: {}", names.join(", "));
            return Err(Failure::new(Kind::NotFound, message));
        };
        let running = &plugin.identity().version;
        if version.is_empty() || version.trim_start_matches('v') == running {
            return Ok(Arc::clone(plugin));
        }
        let message = format!("database plugin {name:?} has no version {version:?}; there is {running}");
        Err(Failure::new(Kind::NotFound, message))
    }
}

fn address(digest: &str) -> Address {
    Address::new(Space::Core, format!("description/{digest}"))
}

/// The stored description, where this digest was described before and the document is of that kind. One that does not
/// open is as good as none: the component is asked again.
async fn known<T: DeserializeOwned>(store: &Arc<Store>, digest: &str) -> Result<Option<T>, Failure> {
    let record = match store.begin().get(&address(digest)).await {
        Err(StoreFault::Damaged(_)) => None,
        found => found?,
    };
    Ok(record.and_then(|record| serde_json::from_slice(&record.body).ok()))
}

async fn remember<T: serde::Serialize>(store: &Arc<Store>, digest: &str, description: &T) -> Result<(), Failure> {
    let mut unit = store.begin();
    match unit.get(&address(digest)).await {
        Ok(Some(_)) => return Ok(()),
        Ok(None) | Err(StoreFault::Damaged(_)) => {}
        Err(fault) => return Err(fault.into()),
    }
    let body = serde_json::to_vec(description).map_err(|error| Failure::internal(error.to_string()))?;
    unit.put(address(digest), body, Index::default());
    unit.commit().await?;
    Ok(())
}

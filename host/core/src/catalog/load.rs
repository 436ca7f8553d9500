//! Loading the catalog: first the components of this binary, then the uploaded components.
//!
//! A component describes itself once, when its digest is new. The description is stored; later
//! starts read the stored description and run no plugin code.

use super::official::OfficialComponent;
use super::plugin::{EnginePlugin, Plugin, PluginLoader};
use super::table::Catalog;
use super::uploaded;
use bulkhead_sandbox::{ComponentSource, DatabasePlugin, MountablePlugin};
use bulkhead_store::{Address, IndexColumns, Space, Store, StoreFault};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::stored::Stored;
use std::sync::Arc;

impl Catalog {
    /// Loads the components of this binary and the uploaded components.
    ///
    /// # Errors
    /// If a component of this binary cannot be loaded, or the store cannot be read.
    pub(crate) async fn load(
        loader: PluginLoader<'_>,
        officials: &[OfficialComponent],
    ) -> Result<Self, Failure> {
        let catalog = Self::default();
        for official in officials {
            catalog.add_official(loader, *official).await?;
        }
        uploaded::load_all(&catalog, loader).await?;
        catalog.load_pins(loader.store).await?;
        Ok(catalog)
    }

    /// Takes over the registrations, removals and pins of another node, which shares the database.
    ///
    /// # Errors
    /// If the store cannot be read. A part of the changes may be in the table.
    pub(crate) async fn reload(&self, loader: PluginLoader<'_>) -> Result<(), Failure> {
        uploaded::reload_all(self, loader).await?;
        self.load_pins(loader.store).await
    }

    async fn add_official(
        &self,
        loader: PluginLoader<'_>,
        official: OfficialComponent,
    ) -> Result<(), Failure> {
        let PluginLoader { store, sandbox, .. } = loader;
        let artefact =
            ComponentSource::Official { wasm: official.wasm, compiled: Some(official.compiled) };
        let digest = bulkhead_sandbox::component::digest(official.wasm);
        let not_an_engine =
            match MountablePlugin::load(sandbox, artefact, read_description(store, &digest).await?)
                .await
            {
                Ok(engine) => {
                    let plugin = EnginePlugin::new(engine).map_err(Failure::internal)?;
                    store_description(store, &digest, plugin.description()).await?;
                    self.insert(Plugin::Engine(Arc::new(plugin)));
                    return Ok(());
                }
                Err(why) => why,
            };
        match DatabasePlugin::load(sandbox, artefact, read_description(store, &digest).await?).await
        {
            Ok(plugin) => {
                store_description(store, &digest, plugin.description()).await?;
                self.insert(Plugin::Database(Arc::new(plugin)));
                Ok(())
            }
            Err(why) => Err(Failure::internal(format!(
                "the component {digest} is neither an engine ({not_an_engine}) nor a database \
                 plugin ({why})"
            ))),
        }
    }
}

fn address(digest: &str) -> Address {
    Address::new(Space::Core, format!("description/{digest}"))
}

/// Returns the stored description for the digest, if the stored document has the type `T`. An
/// unreadable description counts as missing: the component is asked again.
async fn read_description<T: Stored>(
    store: &Arc<Store>,
    digest: &str,
) -> Result<Option<T>, Failure> {
    let record = store.begin().get_undamaged(&address(digest)).await?;
    Ok(record.and_then(|record| T::from_bytes(&record.body).ok()))
}

async fn store_description<T: Stored>(
    store: &Arc<Store>,
    digest: &str,
    description: &T,
) -> Result<(), Failure> {
    let mut unit = store.begin();
    if unit.get_undamaged(&address(digest)).await?.is_some() {
        return Ok(());
    }
    unit.put(address(digest), description.to_bytes()?, IndexColumns::default());
    match unit.commit().await {
        // Another process stored the description.
        Err(StoreFault::Conflict) => Ok(()),
        committed => Ok(committed.map(drop)?),
    }
}

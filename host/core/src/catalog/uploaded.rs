//! Uploaded plugins when the service opens: known by their stored descriptions. Their machine code
//! is neither read nor compiled before the service is open.
//!
//! This file prevents a plugin from keeping the service sealed: an entry that cannot be used is
//! left out, with the reason.

use super::bytes;
use super::entry::{PREFIX, PluginRecord, PluginType};
use super::loading::unloadable_failure;
use super::plugin::{EnginePlugin, Plugin, PluginLoader};
use super::table::Catalog;
use bulkhead_access::log::cause;
use bulkhead_sandbox::structure::World;
use bulkhead_sandbox::{DatabasePlugin, MountablePlugin, Sandbox};
use bulkhead_store::{Address, Space, StoreFault};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::log_level::LogLevel;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Adds all uploaded plugins to the catalog, and deletes the stored bytes of other components.
///
/// # Errors
/// If the store cannot be read.
pub(super) async fn load_all(catalog: &Catalog, loader: PluginLoader<'_>) -> Result<(), Failure> {
    let stored = StoredPlugins::read(loader).await?;
    let digests = stored.digests();
    for entry in stored.entries {
        add(catalog, loader, entry).await?;
    }
    // Another node may be storing the bytes of a component, whose row follows.
    if let Some(digests) = digests
        && !loader.store.is_shared()
        && let Err(failure) = bytes::delete_unused(loader.store, &digests).await
    {
        // Leftover bytes do no harm, and the next start deletes them.
        loader.log.line(LogLevel::Warn, "unused-components-not-removed", &[cause(&failure)]);
    }
    Ok(())
}

/// Takes over the registrations and removals of another node, which shares the database.
///
/// # Errors
/// If the store cannot be read.
pub(super) async fn reload_all(catalog: &Catalog, loader: PluginLoader<'_>) -> Result<(), Failure> {
    let stored = StoredPlugins::read(loader).await?;
    // A version with an unreadable row keeps serving until the next start.
    if stored.is_complete {
        for (kind, name, version) in catalog.all_registered() {
            if !stored.has(kind, &name, &version) {
                catalog.remove(kind, &name, &version);
            }
        }
    }
    for entry in stored.entries {
        if !catalog.is_up_to_date(&entry) {
            add(catalog, loader, entry).await?;
        }
    }
    Ok(())
}

/// The rows of uploaded plugins.
struct StoredPlugins {
    entries: Vec<PluginRecord>,
    /// False if a row cannot be read. The row's component is unknown, so the stored bytes of all
    /// components are kept.
    is_complete: bool,
}

impl StoredPlugins {
    async fn read(loader: PluginLoader<'_>) -> Result<StoredPlugins, Failure> {
        let mut stored = StoredPlugins { entries: Vec::new(), is_complete: true };
        let mut scan = loader.store.scan(Space::Core, PREFIX);
        while let Some(page) = scan.page().await? {
            for address in page {
                match read_entry(loader, &address).await? {
                    Some(Ok(entry)) => {
                        if entry.address() != address {
                            move_row(loader, &entry, address).await?;
                        }
                        stored.entries.push(entry);
                    }
                    Some(Err(why)) => {
                        stored.is_complete = false;
                        let pairs = [("row", address.key), cause(&why)];
                        loader.log.line(LogLevel::Error, "plugin-unreadable", &pairs);
                    }
                    // Removed by another node meanwhile.
                    None => {}
                }
            }
        }
        Ok(stored)
    }

    /// Returns the digests of all components; `None` if a component is unknown.
    fn digests(&self) -> Option<BTreeSet<String>> {
        let digests = self.entries.iter().map(|entry| entry.digest.clone());
        self.is_complete.then(|| digests.collect())
    }

    fn has(&self, kind: PluginType, name: &str, version: &str) -> bool {
        let of = |entry: &PluginRecord| (entry.kind, entry.name.as_str()) == (kind, name);
        self.entries.iter().any(|entry| of(entry) && entry.version == version)
    }
}

/// Reads a row; `None` if there is none. The inner failure is the reason why the row is unusable.
async fn read_entry(
    loader: PluginLoader<'_>,
    address: &Address,
) -> Result<Option<Result<PluginRecord, Failure>>, Failure> {
    let found = match loader.store.begin().get(address).await {
        Err(damaged @ StoreFault::Damaged(_)) => return Ok(Some(Err(damaged.into()))),
        found => found?,
    };
    Ok(found.map(|row| PluginRecord::parse(&row).map_err(unloadable_failure)))
}

/// Moves the row of an earlier release, with one row per name, to the row of the version.
async fn move_row(
    loader: PluginLoader<'_>,
    entry: &PluginRecord,
    old: Address,
) -> Result<(), Failure> {
    let mut unit = loader.store.begin();
    entry.put(&mut unit)?;
    unit.delete(old);
    unit.commit().await?;
    Ok(())
}

async fn add(
    catalog: &Catalog,
    loader: PluginLoader<'_>,
    entry: PluginRecord,
) -> Result<(), Failure> {
    if catalog.is_official(entry.kind, &entry.name) {
        let pairs =
            [("plugin", entry.name), cause(&"this version has a built-in plugin of the same name")];
        loader.log.line(LogLevel::Error, "plugin-not-loaded", &pairs);
        return Ok(());
    }
    let checked = loader.signatures.check_stored(&entry.digest, &entry.origin);
    let described = checked.and_then(|warning| {
        warn_of_signature(loader, &entry, warning);
        describe(loader.sandbox, &entry)
    });
    match described.map_err(unloadable_failure) {
        Ok(plugin) => {
            if !bytes::has_code(loader.store, &entry.digest).await? {
                catalog.ask_for_code(loader, &plugin, "compiled-code-of-another-build");
            }
            catalog.insert_registered(plugin, entry.origin);
        }
        Err(failure) => {
            let version = ("version", entry.version.clone());
            let pairs = [("plugin", entry.name.clone()), version, cause(&failure)];
            loader.log.line(LogLevel::Error, "plugin-not-loaded", &pairs);
            catalog.leave_out(entry, failure.message);
        }
    }
    Ok(())
}

/// Logs that a plugin is loaded without a trusted signature.
fn warn_of_signature(loader: PluginLoader<'_>, entry: &PluginRecord, warning: Option<String>) {
    let Some(why) = warning else { return };
    let version = ("version", entry.version.clone());
    let pairs = [("plugin", entry.name.clone()), version, cause(&unloadable_failure(why))];
    loader.log.line(LogLevel::Warn, "plugin-signature-not-trusted", &pairs);
}

/// Returns the plugin of an entry by the description that it gave when it was registered, without
/// its code.
///
/// # Errors
/// If the stored description does not make a plugin.
pub(super) fn describe(sandbox: &Arc<Sandbox>, entry: &PluginRecord) -> Result<Plugin, String> {
    let unreadable =
        |error: serde_json::Error| format!("the stored description does not parse: {error}");
    let code = (entry.digest.as_str(), entry.ceiling.as_deref());
    let world = match entry.kind {
        PluginType::Auth => World::AuthMethod,
        PluginType::Secret => World::SecretsEngine,
        PluginType::Database => {
            let description =
                serde_json::from_value(entry.description.clone()).map_err(unreadable)?;
            return Ok(Plugin::Database(Arc::new(DatabasePlugin::known(code, description)?)));
        }
    };
    let description = serde_json::from_value(entry.description.clone()).map_err(unreadable)?;
    let engine = MountablePlugin::known(sandbox, code, (world, description))?;
    Ok(Plugin::Engine(Arc::new(EnginePlugin::new(engine)?)))
}

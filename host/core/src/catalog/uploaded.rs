//! Loading uploaded plugins when the service opens, without running plugin code.
//!
//! Prevents running untrusted code, and a plugin that keeps the service sealed. Stored code without
//! a valid tag is never loaded; the component, after a check of its digest, is compiled again. A
//! plugin that fails to load is left out, with the reason.

use super::bytes::{self, StoredCode};
use super::entry::{Entry, PREFIX, PluginType};
use super::plugin::{EnginePlugin, Plugin, PluginLoader};
use super::table::Catalog;
use crate::log::cause;
use bulkhead_sandbox::compiled::AuthenticCode;
use bulkhead_sandbox::{Artefact, DatabasePlugin, Engine, Sandbox};
use bulkhead_store::{Address, Space, StoreFault};
use bulkhead_wire::failure::{Failure, Kind};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Adds all uploaded plugins to the catalog, and deletes the stored bytes of other components.
///
/// # Errors
/// If the store cannot be read.
pub(super) async fn load_all(catalog: &Catalog, loader: PluginLoader<'_>) -> Result<(), Failure> {
    let mut digests = Some(BTreeSet::new());
    let mut scan = loader.store.scan(Space::Core, PREFIX);
    while let Some(page) = scan.page().await? {
        for address in page {
            let found = match loader.store.begin().get(&address).await {
                Err(damaged @ StoreFault::Damaged(_)) => Err(damaged.into()),
                found => found?
                    .ok_or_else(|| Failure::internal("its row vanished"))
                    .and_then(|row| Entry::parse(&row).map_err(unloadable)),
            };
            match found {
                Ok(entry) => {
                    if entry.address() != address {
                        move_row(loader, &entry, address).await?;
                    }
                    if let Some(digests) = &mut digests {
                        digests.insert(entry.digest.clone());
                    }
                    add(catalog, loader, entry).await?;
                }
                Err(why) => {
                    // The row's component is unknown, so the stored bytes of all components are
                    // kept.
                    digests = None;
                    loader.log.line(
                        "error",
                        "plugin-unreadable",
                        &[("row", address.key), cause(&why)],
                    );
                }
            }
        }
    }
    if let Some(digests) = digests
        && let Err(failure) = bytes::sweep(loader.store, &digests).await
    {
        // Leftover bytes do no harm, and the next start deletes them.
        loader.log.line("warn", "components-not-swept", &[cause(&failure)]);
    }
    Ok(())
}

/// Moves the row of an earlier release, with one row per name, to the row of the version.
async fn move_row(loader: PluginLoader<'_>, entry: &Entry, old: Address) -> Result<(), Failure> {
    let mut unit = loader.store.begin();
    entry.put(&mut unit)?;
    unit.delete(old);
    unit.commit().await?;
    Ok(())
}

async fn add(catalog: &Catalog, loader: PluginLoader<'_>, entry: Entry) -> Result<(), Failure> {
    if catalog.is_official(entry.kind, &entry.name) {
        let pairs =
            [("plugin", entry.name), cause(&"this version has a plugin of that name itself")];
        loader.log.line("error", "plugin-left-out", &pairs);
        return Ok(());
    }
    match load(loader, &entry).await {
        Ok(plugin) => catalog.insert(plugin),
        // The store could not be read: the next unsealing tries again. Any other failure concerns
        // only this plugin.
        Err(failure) if failure.kind == Kind::Unavailable => return Err(failure),
        Err(failure) => {
            let version = ("version", entry.version.clone());
            let pairs = [("plugin", entry.name.clone()), version, cause(&failure)];
            loader.log.line("error", "plugin-left-out", &pairs);
            catalog.leave_out(entry, failure.message);
        }
    }
    Ok(())
}

/// Loads the plugin of an entry from the stored code or component.
///
/// # Errors
/// If code and component cannot be read or do not form the plugin.
pub(super) async fn load(loader: PluginLoader<'_>, entry: &Entry) -> Result<Plugin, Failure> {
    let event = match bytes::code_of(loader.store, &entry.digest).await? {
        StoredCode::Authentic(code) => match load_described(loader.sandbox, entry, &code).await {
            Ok(plugin) => return Ok(plugin),
            // The code may come from another processor.
            Err(_) => "compiled-code-does-not-fit",
        },
        StoredCode::Absent => "compiled-code-of-another-build",
        StoredCode::NotAuthentic => "compiled-code-not-authentic",
    };
    loader.log.line(
        "warn",
        event,
        &[("plugin", entry.name.clone()), ("sha256", entry.digest.clone())],
    );
    let wasm = bytes::wasm_of(loader.store, &entry.digest, entry.bytes).await?;
    let missing =
        "the bytes of its component are not those that were registered; register it again";
    let wasm = wasm.ok_or_else(|| Failure::internal(missing))?;
    let compiled =
        loader.compiler.compile(Arc::new(wasm)).await.map_err(|failure| match failure.kind {
            Kind::Unavailable => Failure { kind: Kind::Internal, ..failure },
            _ => failure,
        })?;
    let plugin = load_described(loader.sandbox, entry, &compiled.code).await.map_err(unloadable)?;
    if let Err(failure) = bytes::put_code(loader.store, &entry.digest, &compiled.code).await {
        // The next start compiles the component again.
        loader.log.line(
            "warn",
            "compiled-code-unstored",
            &[("plugin", entry.name.clone()), cause(&failure)],
        );
    }
    Ok(plugin)
}

/// Returns the failure to load a stored plugin. The reason tells only names, digests and the
/// component's structure, and may be recorded.
fn unloadable(why: String) -> Failure {
    Failure::internal(why).recordable()
}

/// Loads the plugin with its stored description.
async fn load_described(
    sandbox: &Arc<Sandbox>,
    entry: &Entry,
    code: &AuthenticCode,
) -> Result<Plugin, String> {
    let unreadable =
        |error: serde_json::Error| format!("its stored description does not parse: {error}");
    let artefact =
        Artefact::Uploaded { digest: &entry.digest, code, ceiling: entry.ceiling.as_deref() };
    match entry.kind {
        PluginType::Auth | PluginType::Secret => {
            let known = serde_json::from_value(entry.description.clone()).map_err(unreadable)?;
            let engine = Engine::load(sandbox, artefact, Some(known)).await?;
            Ok(Plugin::Engine(Arc::new(EnginePlugin::new(engine)?)))
        }
        PluginType::Database => {
            let known = serde_json::from_value(entry.description.clone()).map_err(unreadable)?;
            Ok(Plugin::Database(Arc::new(
                DatabasePlugin::load(sandbox, artefact, Some(known)).await?,
            )))
        }
    }
}

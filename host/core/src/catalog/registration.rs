//! Registration of an uploaded component.
//!
//! This file prevents a plugin that is in the catalog but unusable, and a plugin that is in use but
//! not in the catalog. The component is checked, compiled, loaded and asked for its description
//! first; then its bytes and code are stored, and its row last.

use super::entry::{PluginRecord, PluginType};
use super::origin::ComponentOrigin;
use super::plugin::{CatalogChange, EnginePlugin, Plugin, PluginLoader};
use super::table::Catalog;
use super::{bytes, rules, uploaded};
use bulkhead_sandbox::compile::CompiledComponent;
use bulkhead_sandbox::component::digest;
use bulkhead_sandbox::structure::{self, World};
use bulkhead_sandbox::{
    CodeSource, ComponentSource, DatabasePlugin, GrantPattern, MountablePlugin,
};
use bulkhead_store::Unit;
use bulkhead_wire::failure::{Failure, quoted};
use serde_json::Value;
use std::sync::Arc;

/// An uploaded component.
pub struct ComponentUpload<'a> {
    /// Type given by the caller; refused if the component exports another world.
    pub kind: PluginType,
    /// Expected name; refused if the component itself has another name.
    pub name: &'a str,
    /// Expected version; empty if the caller gave none.
    pub version: &'a str,
    /// Expected digest; empty if the caller gave none.
    pub sha256: &'a str,
    /// Ceiling for the grants of the plugin's mounts; `None` if the caller gave none.
    pub ceiling: Option<Vec<GrantPattern>>,
    /// Bytes of the component before compilation.
    pub wasm: &'a Arc<Vec<u8>>,
    /// Source and signature given by the caller; registration fills in the signing key.
    pub origin: ComponentOrigin,
}

/// The result of a registration.
pub struct RegistrationResult {
    /// Change for the catalog in memory, applied once the unit is committed.
    pub change: CatalogChange,
    /// Warnings for the operator: requested grants above the ceiling, a missing signature.
    pub warnings: Vec<String>,
}

impl Catalog {
    /// Stores the component, and writes the row into the unit. For a registered component, changes
    /// only the ceiling, if given, and the origin.
    ///
    /// # Errors
    /// 400 with the fault of the component, for its author; 503 while other components are
    /// compiled.
    pub async fn register(
        &self,
        loader: PluginLoader<'_>,
        unit: &mut Unit,
        upload: ComponentUpload<'_>,
    ) -> Result<RegistrationResult, Failure> {
        let ComponentUpload { kind, name, .. } = upload;
        rules::name(self, kind, name).map_err(Failure::invalid)?;
        let digest = digest(upload.wasm);
        if !upload.sha256.is_empty() && !upload.sha256.eq_ignore_ascii_case(&digest) {
            let expected_digest = quoted(upload.sha256);
            return Err(Failure::invalid(format!(
                "the component's sha256 is {digest}, and not {expected_digest}"
            )));
        }
        let stored = PluginRecord::all_of(unit, kind, name).await?;
        let found = self.find_registered(&stored, &upload, &digest)?;
        let registered_origin = found.map(|entry| &entry.origin);
        let origin = upload.origin.clone().with_signature_of(registered_origin);
        let (origin, warning) = loader.signatures.admit(&digest, origin)?;
        let upload = ComponentUpload { origin, ..upload };
        let mut registered = match found {
            Some(found) => change_registered(loader, unit, upload, found).await?,
            None => self.register_new(loader, unit, upload, (&stored, digest)).await?,
        };
        registered.warnings.extend(warning);
        Ok(registered)
    }

    /// Stores a component that is not registered, and writes its row.
    async fn register_new(
        &self,
        loader: PluginLoader<'_>,
        unit: &mut Unit,
        upload: ComponentUpload<'_>,
        (stored, digest): (&[PluginRecord], String),
    ) -> Result<RegistrationResult, Failure> {
        let ComponentUpload { kind, name, .. } = upload;
        check_world(kind, detect_world(upload.wasm).await?)?;
        let compiled = loader.compiler.compile(Arc::clone(upload.wasm)).await?;
        loader.sandbox.code_loads.note(CodeSource::Compiled);
        let (plugin, description) = self.load_upload(loader, &upload, &digest, &compiled).await?;
        check_identity(&upload, &plugin)?;
        self.check_version_is_free(stored, kind, &plugin.identity().version)?;
        let (name, version, bytes) =
            (name.to_owned(), plugin.identity().version.clone(), upload.wasm.len());
        let ComponentUpload { ceiling, origin, wasm, .. } = upload;
        let entry =
            PluginRecord { kind, name, version, digest, bytes, ceiling, origin, description };
        store(loader, wasm, &entry, &compiled).await?;
        write_entry(unit, &entry, loader)
    }

    /// Returns the entry of the same component, if there is a usable entry.
    ///
    /// # Errors
    /// 400 if the upload conflicts with a registered plugin.
    fn find_registered<'e>(
        &self,
        stored: &'e [PluginRecord],
        upload: &ComponentUpload<'_>,
        digest: &str,
    ) -> Result<Option<&'e PluginRecord>, Failure> {
        let ComponentUpload { kind, name, version, .. } = *upload;
        if self.owner_of(kind, name).is_some_and(|owner| owner != name) {
            return Err(Failure::invalid(format!(
                "{name} is another name of a {} in the catalog",
                kind.title()
            )));
        }
        let mut usable = stored.iter().filter(|entry| !self.is_left_out(entry));
        let number = version.trim_start_matches('v');
        match usable.find(|entry| entry.digest == digest) {
            Some(found) if number.is_empty() || number == found.version => return Ok(Some(found)),
            Some(found) => return Err(other_version(number, &found.version)),
            None => {}
        }
        self.check_version_is_free(stored, kind, number).map(|()| None)
    }

    /// Refuses other bytes for a registered version: the bytes of a version never change, unless
    /// the registered component cannot be used.
    ///
    /// # Errors
    /// 400 that names the digest of the version.
    fn check_version_is_free(
        &self,
        stored: &[PluginRecord],
        kind: PluginType,
        version: &str,
    ) -> Result<(), Failure> {
        let is_taken = |entry: &&PluginRecord| entry.version == version && !self.is_left_out(entry);
        let Some(taken) = stored.iter().find(is_taken) else { return Ok(()) };
        Err(Failure::invalid(format!(
            "version {version} of the {} {} is registered with sha256 {}; the bytes of a version \
             never change: raise the component's version",
            kind.title(),
            taken.name,
            taken.digest
        )))
    }

    /// Loads the uploaded plugin. Returns the plugin and its description.
    async fn load_upload(
        &self,
        loader: PluginLoader<'_>,
        upload: &ComponentUpload<'_>,
        digest: &str,
        compiled: &CompiledComponent,
    ) -> Result<(Plugin, Value), Failure> {
        let artefact = ComponentSource::Uploaded {
            digest,
            code: &compiled.code,
            ceiling: upload.ceiling.as_deref(),
        };
        let unstorable = |error: serde_json::Error| Failure::internal(error.to_string());
        let _admission = loader.sandbox.admit_description().await?;
        match upload.kind {
            PluginType::Auth | PluginType::Secret => {
                let engine = MountablePlugin::load(loader.sandbox, artefact, None)
                    .await
                    .map_err(Failure::invalid)?;
                rules::engine(engine.description()).map_err(Failure::invalid)?;
                let description = serde_json::to_value(engine.description()).map_err(unstorable)?;
                let plugin = EnginePlugin::new(engine).map_err(Failure::invalid)?;
                Ok((Plugin::Engine(Arc::new(plugin)), description))
            }
            PluginType::Database => {
                let plugin = DatabasePlugin::load(loader.sandbox, artefact, None)
                    .await
                    .map_err(Failure::invalid)?;
                rules::database_plugin(self, plugin.description()).map_err(Failure::invalid)?;
                let description = serde_json::to_value(plugin.description()).map_err(unstorable)?;
                Ok((Plugin::Database(Arc::new(plugin)), description))
            }
        }
    }
}

/// Changes the ceiling, if given, and the origin of a registered component. Mends its stored bytes
/// if they are damaged.
async fn change_registered(
    loader: PluginLoader<'_>,
    unit: &mut Unit,
    upload: ComponentUpload<'_>,
    found: &PluginRecord,
) -> Result<RegistrationResult, Failure> {
    repair_stored_bytes(loader, found, upload.wasm).await?;
    let ceiling = upload.ceiling.or_else(|| found.ceiling.clone());
    if (&ceiling, &upload.origin) == (&found.ceiling, &found.origin) {
        let change = CatalogChange::Repeated(found.kind, found.name.clone());
        return Ok(RegistrationResult { change, warnings: Vec::new() });
    }
    let entry = PluginRecord { ceiling, origin: upload.origin, ..found.clone() };
    write_entry(unit, &entry, loader)
}

/// Writes the row, after everything that it names. The plugin of the change has no code: its first
/// call loads the code.
fn write_entry(
    unit: &mut Unit,
    entry: &PluginRecord,
    loader: PluginLoader<'_>,
) -> Result<RegistrationResult, Failure> {
    let plugin = uploaded::describe(loader.sandbox, entry).map_err(Failure::internal)?;
    entry.put(unit)?;
    let warnings = rules::warnings(plugin.asks(), entry.ceiling.as_deref());
    Ok(RegistrationResult {
        change: CatalogChange::Registered(plugin, entry.origin.clone()),
        warnings,
    })
}

/// Returns the world of the component, before the component is compiled.
async fn detect_world(wasm: &Arc<Vec<u8>>) -> Result<World, Failure> {
    let wasm = Arc::clone(wasm);
    let read = tokio::task::spawn_blocking(move || structure::check(&wasm)).await;
    read.unwrap_or_else(|_| Err("the component cannot be read".to_owned()))
        .map_err(Failure::invalid)
}

fn check_world(kind: PluginType, world: World) -> Result<(), Failure> {
    let built_for = PluginType::of_world(world);
    if built_for == kind {
        return Ok(());
    }
    Err(Failure::invalid(format!(
        "the component has the exports of kind {}, and not {}; register it as type {}",
        built_for.title(),
        kind.title(),
        built_for.word()
    )))
}

/// Refuses a component with another name or version than the caller expects.
fn check_identity(upload: &ComponentUpload<'_>, plugin: &Plugin) -> Result<(), Failure> {
    let identity = plugin.identity();
    if identity.name != upload.name {
        return Err(Failure::invalid(format!(
            "plugin name mismatch: the component's name is {}; register the component under this \
             name",
            quoted(&identity.name)
        )));
    }
    let expected_version = upload.version.trim_start_matches('v');
    if expected_version.is_empty() || expected_version == identity.version {
        Ok(())
    } else {
        Err(other_version(expected_version, &identity.version))
    }
}

fn other_version(expected_version: &str, version: &str) -> Failure {
    let expected_version = quoted(expected_version);
    Failure::invalid(format!(
        "plugin version mismatch: the component's version is {version}, and not {expected_version}"
    ))
}

/// Stores the component again where its stored bytes are damaged.
async fn repair_stored_bytes(
    loader: PluginLoader<'_>,
    entry: &PluginRecord,
    wasm: &[u8],
) -> Result<(), Failure> {
    match bytes::wasm_of(loader.store, &entry.digest, entry.bytes).await? {
        Some(_) => Ok(()),
        None => bytes::put_wasm(loader.store, &entry.digest, wasm).await,
    }
}

async fn store(
    loader: PluginLoader<'_>,
    wasm: &[u8],
    entry: &PluginRecord,
    compiled: &CompiledComponent,
) -> Result<(), Failure> {
    bytes::put_wasm(loader.store, &entry.digest, wasm).await?;
    bytes::put_code(loader.store, &entry.digest, &compiled.code).await
}

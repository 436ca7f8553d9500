//! Removing a version of a plugin from the catalog.
//!
//! This file prevents the removal of a component that a mount, a connection or a live lease needs.

use crate::catalog::{self, CatalogChange, Pin, PluginType};
use crate::core::Core;
use crate::mounts;
use bulkhead_store::{StoreFault, Unit};
use bulkhead_wire::failure::{Failure, quoted};

/// Maximum number of connections that a refusal names.
const MAX_SHOWN_CONNECTIONS: usize = 8;

/// Treatment of connections and leases that need the plugin to remove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DependentTreatment {
    /// The plugin is not removed while such connections or leases exist.
    Kept,
    /// Connections and leases wait until the plugin is registered again.
    Abandoned,
}

/// The version to remove.
#[derive(Clone, Copy)]
pub struct PluginRemoval<'a> {
    /// Type of the plugin: plugins of different types may have equal names.
    pub kind: PluginType,
    /// Name of the plugin in the catalog.
    pub name: &'a str,
    /// Semantic version to remove; other versions of the plugin stay registered.
    pub version: &'a str,
    /// Treatment of dependent connections and leases; ignored unless `kind` is a database plugin.
    pub needed: DependentTreatment,
}

/// The outcome of a removal.
#[derive(Default)]
pub struct RemovalOutcome {
    /// `None`: there is no such version.
    pub change: Option<CatalogChange>,
    /// Tells which connections and leases wait for the plugin.
    pub warning: Option<String>,
}

/// Deletes the row of the version in the unit. The stored component is deleted when the service
/// opens next.
///
/// # Errors
/// 400 for a plugin of this binary, for a version that serves a mount or is pinned, and for a
/// database plugin that connections or live leases need, unless these are abandoned.
pub async fn deregister(
    core: &Core,
    unit: &mut Unit,
    removal: PluginRemoval<'_>,
) -> Result<RemovalOutcome, Failure> {
    let PluginRemoval { kind, name, version, .. } = removal;
    if core.catalog.is_official(kind, name) {
        return Err(Failure::invalid(format!(
            "the {} {name} is built in and cannot be removed",
            kind.title()
        )));
    }
    let address = catalog::address(kind, name, version);
    match unit.get(&address).await {
        Ok(None) => return Ok(RemovalOutcome::default()),
        Ok(Some(_)) | Err(StoreFault::Damaged(_)) => {}
        Err(fault) => return Err(fault.into()),
    }
    if kind != PluginType::Database
        && let Some(path) = mounts::stored_of(&core.store, unit, kind, (name, version)).await?
    {
        return Err(Failure::invalid(format!(
            "version {version} of the {} {name} is in use by the mount {path}: tune the mount to \
             another version, or disable the mount first",
            kind.title()
        )));
    }
    let pin = Pin::read(unit, kind, name).await?;
    if pin.is_some_and(|pin| pin.version == version) {
        return Err(Failure::invalid(format!(
            "version {version} of the {} {name} is pinned: pin another version, or remove the pin \
             with DELETE sys/plugins/pins/{}/{name}",
            kind.title(),
            kind.word()
        )));
    }
    let warning = match kind {
        PluginType::Database => check_database(core, unit, removal).await?,
        // A lease of a mount is ended by the version that serves the mount, and this version serves
        // none.
        PluginType::Auth | PluginType::Secret => None,
    };
    unit.delete(address);
    let change = CatalogChange::Removed(kind, name.to_owned(), version.to_owned());
    Ok(RemovalOutcome { change: Some(change), warning })
}

/// Refuses the removal of a version that serves connections, and of the last version of a plugin
/// that live leases need. Returns the warning if the removal is forced.
async fn check_database(
    core: &Core,
    unit: &mut Unit,
    removal: PluginRemoval<'_>,
) -> Result<Option<String>, Failure> {
    let PluginRemoval { name, version, needed, .. } = removal;
    let served = served_connections(core, unit, (name, version)).await?;
    // A lease is ended by the version that serves its connection. Without the connection, any
    // version will do after an operator wrote the connection again.
    let waiting = match catalog::is_last_version(unit, removal.kind, name).await? {
        true => core.leases.count_needing(name).await?,
        false => 0,
    };
    let mut reasons = Vec::new();
    if !served.is_empty() {
        reasons.push(format!("version {version} serves {}", listed(&served)));
    }
    if waiting > 0 {
        reasons.push(format!("it ends live leases: {waiting}"));
    }
    if reasons.is_empty() {
        return Ok(None);
    }
    let reasons = reasons.join("; ");
    if needed == DependentTreatment::Abandoned {
        return Ok(Some(format!(
            "the database plugin {name} is still needed: {reasons}; until the next registration, \
             leases can be neither renewed nor revoked"
        )));
    }
    Err(Failure::invalid(format!(
        "the database plugin {name} is needed: {reasons}; write another plugin_version to the \
         connections and revoke the leases first, or send force=true, and the leases wait for the \
         next registration"
    )))
}

/// Returns the connections that the version serves, with the paths of their mounts. A mount that is
/// being erased does not count.
async fn served_connections(
    core: &Core,
    unit: &mut Unit,
    (name, version): (&str, &str),
) -> Result<Vec<String>, Failure> {
    let mut served = Vec::new();
    for (connection, recorded) in catalog::connections_of(&core.store, unit, name).await? {
        let mount = core.mounts.record_of(&connection.mount);
        if let Some(mount) = mount.filter(|_| recorded.version == version) {
            served.push(format!("connection {} of {}", quoted(&connection.name), mount.path));
        }
    }
    Ok(served)
}

/// Returns the first few texts, and the number of all others.
fn listed(texts: &[String]) -> String {
    let shown =
        texts.iter().take(MAX_SHOWN_CONNECTIONS).map(String::as_str).collect::<Vec<_>>().join(", ");
    match texts.len().saturating_sub(MAX_SHOWN_CONNECTIONS) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

//! Removing a version of a plugin from the catalog.
//!
//! Prevents the removal of a component that a mount or a live lease needs.

use crate::catalog::{self, Change, Pin, PluginType};
use crate::core::Core;
use crate::mounts;
use bulkhead_store::{StoreFault, Unit};
use bulkhead_wire::failure::Failure;

/// Treatment of leases whose end needs the plugin to remove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needed {
    /// The plugin is not removed while such leases exist.
    Kept,
    /// The leases wait until the plugin is registered again.
    Abandoned,
}

/// The version to remove.
pub(crate) struct Removal<'a> {
    pub(crate) kind: PluginType,
    pub(crate) name: &'a str,
    pub(crate) version: &'a str,
    pub(crate) needed: Needed,
}

/// The outcome of a removal.
#[derive(Default)]
pub(crate) struct Deregistered {
    /// `None`: there is no such version.
    pub(crate) change: Option<Change>,
    /// Tells the number of leases that wait for the plugin.
    pub(crate) warning: Option<String>,
}

/// Deletes the row of the version in the unit. The stored component is deleted when the service
/// opens next.
///
/// # Errors
/// 400 for a plugin of this binary, for a version that serves a mount or is pinned, and for a
/// database plugin that live leases need, unless these leases are abandoned.
pub(crate) async fn deregister(
    core: &Core,
    unit: &mut Unit,
    removal: Removal<'_>,
) -> Result<Deregistered, Failure> {
    let Removal { kind, name, version, needed } = removal;
    if core.catalog.is_official(kind, name) {
        return Err(Failure::invalid(format!(
            "the {} {name} is built in and cannot be removed",
            kind.title()
        )));
    }
    let address = catalog::address(kind, name, version);
    match unit.get(&address).await {
        Ok(None) => return Ok(Deregistered::default()),
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
    let waiting = match kind {
        PluginType::Database => core.leases.count_needing(name).await?,
        // A lease of a mount is ended by the version that serves the mount, and this version serves
        // none.
        PluginType::Auth | PluginType::Secret => 0,
    };
    if waiting > 0 && needed == Needed::Kept {
        return Err(Failure::invalid(format!(
            "the database plugin {name} is needed to end live leases: {waiting}; revoke them \
             first, or send force=true and they wait until it is registered again"
        )));
    }
    unit.delete(address);
    let warning = (waiting > 0).then(|| {
        format!(
            "leases that need the database plugin {name}: {waiting}; until it is registered again \
             they can be neither renewed nor revoked"
        )
    });
    Ok(Deregistered {
        change: Some(Change::Removed(kind, name.to_owned(), version.to_owned())),
        warning,
    })
}

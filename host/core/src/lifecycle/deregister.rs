//! Removing a plugin from the catalog.

use crate::catalog::{self, Change, PluginType};
use crate::core::Core;
use crate::mounts;
use bulkhead_store::{StoreFault, Unit};
use bulkhead_wire::failure::Failure;

/// What becomes of leases whose end needs a plugin that is to be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needed {
    /// It is not removed while there are any.
    Kept,
    /// They are left to wait for its return.
    Abandoned,
}

/// A removal that was asked for.
#[derive(Default)]
pub(crate) struct Deregistered {
    /// `None`: there is no such plugin.
    pub(crate) change: Option<Change>,
    /// How many leases wait for its return, and what for.
    pub(crate) warning: Option<String>,
}

/// Removes the plugin's row in the unit; what is stored of its component goes when the service
/// opens next.
///
/// # Errors
/// 400 for a plugin of this binary, for an engine that a mount uses, and for a database plugin that
/// live leases need, unless those are abandoned.
pub(crate) async fn deregister(
    core: &Core,
    unit: &mut Unit,
    kind: PluginType,
    name: &str,
    needed: Needed,
) -> Result<Deregistered, Failure> {
    if core.catalog.is_official(kind, name) {
        return Err(Failure::invalid(format!(
            "the {} {name} is built in and cannot be removed",
            kind.title()
        )));
    }
    match unit.get(&catalog::address(kind, name)).await {
        Ok(None) => return Ok(Deregistered::default()),
        Ok(Some(_)) | Err(StoreFault::Damaged(_)) => {}
        Err(fault) => return Err(fault.into()),
    }
    if kind != PluginType::Database
        && let Some(path) = mounts::stored_of(&core.store, unit, kind, name).await?
    {
        return Err(Failure::invalid(format!(
            "the {} {name} is in use: disable the mount {path} first",
            kind.title()
        )));
    }
    let waiting = match kind {
        PluginType::Database => core.leases.count_needing(name).await?,
        // Its mounts are gone, and their leases were ended before them.
        PluginType::Auth | PluginType::Secret => 0,
    };
    if waiting > 0 && needed == Needed::Kept {
        return Err(Failure::invalid(format!(
            "the database plugin {name} is needed to end live leases: {waiting}; revoke them \
             first, or send force=true and they wait until it is registered again"
        )));
    }
    unit.delete(catalog::address(kind, name));
    let warning = (waiting > 0).then(|| {
        format!(
            "leases that need the database plugin {name}: {waiting}; until it is registered again \
             they can be neither renewed nor revoked"
        )
    });
    Ok(Deregistered { change: Some(Change::Removed(kind, name.to_owned())), warning })
}

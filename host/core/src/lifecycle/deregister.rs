//! Removing a plugin from the catalog.

use crate::catalog::{self, Change, PluginType};
use crate::core::Core;
use crate::mounts;
use bulkhead_store::{StoreFault, Unit};
use bulkhead_wire::failure::Failure;

/// Removes the plugin's row in the unit; what is stored of its component goes when the service
/// opens next. `None` when there is none.
///
/// # Errors
/// 400 for a plugin of this binary, and for one that a mount uses.
pub(crate) async fn deregister(
    core: &Core,
    unit: &mut Unit,
    kind: PluginType,
    name: &str,
) -> Result<Option<Change>, Failure> {
    if core.catalog.is_official(kind, name) {
        return Err(Failure::invalid(format!(
            "the {} {name} is built in and cannot be removed",
            kind.title()
        )));
    }
    match unit.get(&catalog::address(kind, name)).await {
        Ok(None) => return Ok(None),
        Ok(Some(_)) | Err(StoreFault::Damaged(_)) => {}
        Err(fault) => return Err(fault.into()),
    }
    if kind == PluginType::Secret
        && let Some(path) = mounts::stored_of_kind(unit, name).await?
    {
        return Err(Failure::invalid(format!(
            "the secrets engine {name} is in use: disable the mount {path} first"
        )));
    }
    unit.delete(catalog::address(kind, name));
    Ok(Some(Change::Removed(kind, name.to_owned())))
}

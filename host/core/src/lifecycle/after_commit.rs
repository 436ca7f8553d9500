//! Effects of a commit in this process: changes of mounts and of the catalog.

use super::ending::in_background;
use super::{follow_nodes, remount, revive, swap, upgrade_api};
use crate::catalog::{self, PluginType};
use crate::core::Core;
use crate::mounts::{MountChange, VersionSwap};
use bulkhead_audit::AuditChange;
use bulkhead_wire::failure::Failure;
use std::sync::Arc;

/// Applies a committed change of a mount.
///
/// # Errors
/// If the mount cannot be rebuilt, or another version of its plugin cannot serve the mount.
pub async fn apply_mount_change(core: &Arc<Core>, change: MountChange) -> Result<(), Failure> {
    match change {
        MountChange::Enabled(record) => core.mounts.serve(*record, &core.catalog),
        MountChange::Tuned { record, swap } => {
            let uuid = record.uuid.clone();
            let before =
                core.mounts.by_uuid(&uuid).map(|mount| mount.record.settings.grants.clone());
            let regranted = before.is_some_and(|before| before != record.settings.grants);
            core.mounts.update(*record, &core.catalog)?;
            if regranted {
                // Outbound sessions were opened under the old grants.
                core.sandbox.close_mount(&uuid);
            }
            match swap {
                Some(swap) => swap_to(core, &uuid, &swap).await,
                None => Ok(()),
            }
        }
        MountChange::Upgraded { record, api_version } => {
            let uuid = record.uuid.clone();
            core.mounts.update(*record, &core.catalog)?;
            upgrade_to(core, uuid, api_version).await
        }
        MountChange::TunedBuiltin(which, record) => {
            core.mounts.update_builtin(which, *record);
            Ok(())
        }
        MountChange::Moving(record) => {
            let uuid = record.uuid.clone();
            core.mounts.update(*record, &core.catalog)?;
            remount::carry_out(core, &uuid);
            Ok(())
        }
    }
}

/// Swaps the mount to the version that the operator asked for.
async fn swap_to(core: &Arc<Core>, uuid: &str, swap: &VersionSwap) -> Result<(), Failure> {
    let (owner, mount_uuid, swap) = (Arc::clone(core), uuid.to_owned(), swap.clone());
    let uuid = mount_uuid.clone();
    // In a separate task, so that the swap completes even if the client disconnects.
    let work = async move {
        swap::end_other_migration(&owner, &uuid, &swap.version).await?;
        match owner.mounts.unavailable_by_uuid(&uuid) {
            Some(_) => revive::revive(&owner, &uuid, &swap).await,
            None => swap::swap(&owner, &uuid, &swap).await,
        }
    };
    let swapped = in_background(core, work)?.await;
    swapped
        .unwrap_or_else(|_| Err(Failure::internal("the swap ended early")))
        .map_err(|failure| with_state_of_mount(core, &mount_uuid, failure))
}

/// Brings the records of the mount to the version of the API that the operator asked for.
async fn upgrade_to(core: &Arc<Core>, uuid: String, api_version: u64) -> Result<(), Failure> {
    let (owner, mount_uuid) = (Arc::clone(core), uuid.clone());
    // In a separate task, so that the change completes even if the client disconnects.
    let work = async move { upgrade_api::upgrade_api(&owner, &uuid, api_version).await };
    let changed = in_background(core, work)?.await;
    changed
        .unwrap_or_else(|_| Err(Failure::internal("the change of the API's version ended early")))
        .map_err(|failure| with_state_of_mount(core, &mount_uuid, failure))
}

/// Adds to a failure how the mount is served now.
fn with_state_of_mount(core: &Core, uuid: &str, failure: Failure) -> Failure {
    let state = match core.mounts.unavailable_by_uuid(uuid) {
        Some(_) => "the mount is unavailable until a version can serve its data",
        None => "the mount is served as before",
    };
    let message = format!("{}; {state}, and the other settings are stored", failure.message);
    Failure { message, ..failure }
}

/// Applies a committed change of the audit devices or of the recorded request headers.
///
/// # Errors
/// 503 if the store cannot be read. The change is stored nevertheless.
pub async fn apply_audit_change(core: &Core, change: AuditChange) -> Result<(), Failure> {
    if core.store.is_shared() {
        return follow_nodes::reload_audit(core).await;
    }
    core.audit.change(change);
    Ok(())
}

/// Applies a committed change of the catalog. Mounts that waited for the plugin serve again, and
/// mounts of the plugin apply its new ceiling.
///
/// # Errors
/// If a mount cannot be rebuilt.
pub async fn apply_catalog_change(
    core: &Arc<Core>,
    change: catalog::CatalogChange,
) -> Result<(), Failure> {
    let revived = match &change {
        catalog::CatalogChange::Registered(plugin, _) => {
            Some((plugin.kind(), plugin.identity().name.clone()))
        }
        catalog::CatalogChange::Repeated(kind, name) => Some((*kind, name.clone())),
        _ => None,
    };
    match core.store.is_shared() {
        true => follow_nodes::reload_catalog(core).await?,
        false => change_catalog(core, change)?,
    }
    if let Some((kind, name)) = revived
        && kind != PluginType::Database
    {
        revive::revive_all(core, kind, &name).await;
    }
    Ok(())
}

/// Changes the catalog in memory, on a node that works alone.
fn change_catalog(core: &Core, change: catalog::CatalogChange) -> Result<(), Failure> {
    match change {
        catalog::CatalogChange::Registered(plugin, origin) => {
            let (kind, name) = (plugin.kind(), plugin.identity().name.clone());
            core.catalog.insert_registered(plugin, origin);
            if kind != PluginType::Database {
                core.mounts.renew(kind, &name, &core.catalog)?;
            }
        }
        catalog::CatalogChange::Repeated(..) => {}
        catalog::CatalogChange::Removed(kind, name, version) => {
            core.catalog.remove(kind, &name, &version);
        }
        catalog::CatalogChange::Pinned(pin) => core.catalog.set_pin(&pin),
        catalog::CatalogChange::Unpinned(kind, name) => core.catalog.remove_pin(kind, &name),
    }
    Ok(())
}

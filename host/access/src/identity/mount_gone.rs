//! Removal of the aliases of a disabled mount.

use super::entity::{self, Entity};
use super::group::{self, Group};
use super::index::IdentityKind;
use super::membership;
use bulkhead_store::{Address, Space, Store, StoreFault, Unit};
use bulkhead_wire::failure::Failure;
use std::sync::Arc;

/// Maximum number of aliases that are removed in a single commit.
const REMOVALS_PER_COMMIT: u32 = 200;

/// Removes all aliases of entities and groups at the mount with this accessor, page by page. An
/// interrupted removal may start again.
///
/// # Errors
/// Errors of the store.
pub async fn forget_mount(store: &Arc<Store>, accessor: &str) -> Result<(), Failure> {
    let mut scan = store.scan_owned(Space::Core, accessor).by(REMOVALS_PER_COMMIT);
    while let Some(page) = scan.page().await? {
        while !forget_page(store, &page).await? {}
    }
    Ok(())
}

/// Removes the aliases of a page. Returns `false` on a conflict with another change; nothing was
/// written then.
async fn forget_page(store: &Arc<Store>, page: &[Address]) -> Result<bool, Failure> {
    let mut unit = store.begin();
    for address in page {
        if let Some(id) = IdentityKind::Entity.id_of_alias(address) {
            forget_entity_alias(&mut unit, id).await?;
        } else if let Some(id) = IdentityKind::Group.id_of_alias(address) {
            forget_group_alias(&mut unit, id).await?;
        }
    }
    match unit.commit().await {
        Ok(_) => Ok(true),
        Err(StoreFault::Conflict) => Ok(false),
        Err(fault) => Err(fault.into()),
    }
}

/// Removes the alias with this id from its entity.
pub(super) async fn forget_entity_alias(unit: &mut Unit, id: &str) -> Result<(), Failure> {
    let Some(before) = entity::by_alias_id(unit, id).await? else { return Ok(()) };
    let mut after = Entity::clone(&before);
    after.aliases.retain(|alias| alias.id != id);
    entity::put(unit, Some(&before), &after)
}

/// Removes the alias with this id from its group, and schedules the removal of the group's
/// memberships.
pub(super) async fn forget_group_alias(unit: &mut Unit, id: &str) -> Result<(), Failure> {
    let Some(before) = group::by_alias_id(unit, id).await? else { return Ok(()) };
    let modify_index = before.modify_index + 1;
    let after = Group { alias: None, modify_index, ..Group::clone(&before) };
    group::put(unit, Some(&before), &after)?;
    membership::let_all_leave(unit, &after.id)
}

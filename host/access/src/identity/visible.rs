//! The entities that a mount may see: the caller's own entity, and entities with an alias at the
//! mount.
//!
//! This file prevents a component from reading about users of other mounts.

use super::entity::{self, Entity};
use bulkhead_store::Unit;
use bulkhead_wire::failure::Failure;
use std::sync::Arc;

/// The mount and the caller that look up an entity.
#[derive(Clone, Copy, Debug)]
pub struct EntityViewer<'a> {
    /// Accessor of the mount.
    pub accessor: &'a str,
    /// Id of the caller's entity; empty without an entity.
    pub entity_id: &'a str,
}

/// Reads the entity with this id, or its successor after a merge, if the mount may see it. `None`
/// does not reveal whether an entity exists.
///
/// # Errors
/// 503 when the store cannot be read.
pub async fn read_visible(
    unit: &mut Unit,
    viewer: EntityViewer<'_>,
    id: &str,
) -> Result<Option<Arc<Entity>>, Failure> {
    let found = entity::current(unit, id).await?;
    Ok(found.filter(|entity| {
        entity.id == viewer.entity_id || entity.alias_at(viewer.accessor).is_some()
    }))
}

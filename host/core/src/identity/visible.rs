//! What a mount may see of entities: the caller's own, and those that it knows by an alias.
//!
//! The attack this file stops: a component that looks through the people of other mounts.

use super::entity::{self, Entity};
use bulkhead_store::Unit;
use bulkhead_wire::failure::Failure;
use std::sync::Arc;

/// Who looks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Viewer<'a> {
    /// Of the mount.
    pub(crate) accessor: &'a str,
    /// The caller's entity; empty without one.
    pub(crate) entity_id: &'a str,
}

/// The entity with that id, or the one that it was merged into, as far as the mount may see it:
/// `None` tells nothing of others, not even whether they are there.
///
/// # Errors
/// 503 when the store cannot be read.
pub(crate) async fn visible(
    unit: &mut Unit,
    viewer: Viewer<'_>,
    id: &str,
) -> Result<Option<Arc<Entity>>, Failure> {
    let found = entity::current(unit, id).await?;
    Ok(found.filter(|entity| {
        entity.id == viewer.entity_id || entity.alias_at(viewer.accessor).is_some()
    }))
}

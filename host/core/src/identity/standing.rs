//! What a token's entity and its groups bring to a decision about the token, at this moment.
//!
//! Nothing of it is kept: each request reads the records anew, which the store has in memory, so
//! that a change of an entity or a group counts from its commit on.

use super::entity::{self, Entity};
use super::group::{self, Group};
use crate::policies::identity as values;
use bulkhead_store::Unit;
use bulkhead_wire::failure::Failure;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// An entity with its groups. The empty one is that of a token without an entity.
#[derive(Clone, Default)]
pub(crate) struct Standing {
    entity: Option<Arc<Entity>>,
    /// Those that it is in by itself first, then those above them, each once.
    groups: Vec<Arc<Group>>,
}

/// What the unit says of the entity with that id, or of the one that it was merged into; an empty
/// id is of no entity.
///
/// # Errors
/// 403 for one that is disabled or gone.
pub(crate) async fn standing(unit: &mut Unit, entity_id: &str) -> Result<Standing, Failure> {
    if entity_id.is_empty() {
        return Ok(Standing::default());
    }
    let entity = entity::current(unit, entity_id).await?;
    let entity = entity
        .filter(|entity| !entity.is_disabled)
        .ok_or_else(|| Failure::denied("the entity of the token is disabled or was deleted"))?;
    let groups = with_those_above(unit, &entity.groups).await?;
    Ok(Standing { entity: Some(entity), groups })
}

/// Whether tokens of that entity can be used, as the unit sees it. Those of no entity can.
pub(crate) async fn is_in_force(unit: &mut Unit, entity_id: &str) -> Result<bool, Failure> {
    if entity_id.is_empty() {
        return Ok(true);
    }
    let entity = entity::current(unit, entity_id).await?;
    Ok(entity.is_some_and(|entity| !entity.is_disabled))
}

/// These groups, and all that they are in directly or through another, each once.
pub(crate) async fn with_those_above(
    unit: &mut Unit,
    direct: &BTreeSet<String>,
) -> Result<Vec<Arc<Group>>, Failure> {
    let mut seen: BTreeSet<String> = direct.clone();
    let mut next: Vec<String> = direct.iter().cloned().collect();
    let mut groups = Vec::with_capacity(next.len());
    while !next.is_empty() {
        let mut above = Vec::new();
        for id in next {
            let Some(group) = group::read(unit, &id).await?.filter(|group| group.holds()) else {
                continue;
            };
            above.extend(group.parents.iter().filter(|id| seen.insert((*id).clone())).cloned());
            groups.push(group);
        }
        next = above;
    }
    Ok(groups)
}

impl Standing {
    /// The id of the entity; empty without one.
    pub(crate) fn entity_id(&self) -> &str {
        self.entity.as_ref().map_or("", |entity| &entity.id)
    }

    /// Is it that of a token without an entity?
    pub(crate) fn is_empty(&self) -> bool {
        self.entity.is_none()
    }

    /// The policies of the entity and of its groups, in order and each once.
    pub(crate) fn policies(&self) -> Vec<String> {
        let of_entity = self.entity.iter().flat_map(|entity| &entity.policies);
        let of_groups = self.groups.iter().flat_map(|group| &group.policies);
        let all: BTreeSet<&String> = of_entity.chain(of_groups).collect();
        all.into_iter().cloned().collect()
    }

    /// The policies of a token besides those, in order and each once.
    pub(crate) fn policies_with(&self, of_token: &[String]) -> Vec<String> {
        let mut all: BTreeSet<String> = self.policies().into_iter().collect();
        all.extend(of_token.iter().cloned());
        all.into_iter().collect()
    }

    /// As the templates of policies may ask for it.
    pub(crate) fn values(&self) -> values::Identity {
        let group = |group: &Arc<Group>| values::Group {
            id: group.id.clone(),
            name: group.name.clone(),
            metadata: group.metadata.clone(),
        };
        values::Identity {
            entity: self.entity.as_deref().map(entity_values),
            groups: self.groups.iter().map(group).collect(),
        }
    }
}

fn entity_values(entity: &Entity) -> values::Entity {
    let aliases = entity.aliases.iter().map(|alias| {
        let values = values::Alias {
            id: alias.id.clone(),
            name: alias.name.clone(),
            metadata: alias.metadata.clone(),
            custom_metadata: alias.custom_metadata.clone(),
        };
        (alias.mount.accessor.clone(), values)
    });
    values::Entity {
        id: entity.id.clone(),
        name: entity.name.clone(),
        metadata: entity.metadata.clone(),
        aliases: BTreeMap::from_iter(aliases),
    }
}

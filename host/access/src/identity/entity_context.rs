//! The rights that a token's entity and its groups add to a decision about the token.
//!
//! This file prevents outdated rights: nothing is cached. Each request reads the records again,
//! which the store holds in memory, so a change of an entity or a group counts from its commit on.

use super::alias::{Alias, ProvenGroups};
use super::entity::{self, Entity};
use super::group::{self, Group, GroupKind};
use super::proof::{LoginProof, effective_alias};
use crate::policies::identity as values;
use bulkhead_store::Unit;
use bulkhead_wire::failure::Failure;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// An entity with its groups, as they count for a token. Empty for a token without an entity.
#[derive(Clone, Default)]
pub struct EntityContext {
    entity: Option<Arc<Entity>>,
    /// Proof of the token's login.
    proof: Option<LoginProof>,
    /// The entity's direct groups first, then the groups above the direct groups, without
    /// duplicates.
    groups: Vec<Arc<Group>>,
}

/// Groups of an entity, without duplicates.
pub struct EntityGroups {
    /// Groups with the entity itself as a member.
    pub direct: Vec<Arc<Group>>,
    /// Groups above the direct groups.
    pub inherited: Vec<Arc<Group>>,
}

/// Reads the entity with this id, or its successor after a merge, and the groups that count for a
/// token with this proof. An empty id means no entity.
///
/// # Errors
/// 403 for an entity that is disabled or deleted.
pub async fn read_entity_context(
    unit: &mut Unit,
    entity_id: &str,
    proof: Option<&LoginProof>,
) -> Result<EntityContext, Failure> {
    if entity_id.is_empty() {
        return Ok(EntityContext::default());
    }
    let entity = entity_in_force(unit, entity_id).await?;
    let of_alias = |alias| effective_alias(alias, proof).and_then(|counted| counted.groups);
    let EntityGroups { direct, inherited } = groups_by(unit, &entity, of_alias).await?;
    let groups = direct.into_iter().chain(inherited).collect();
    Ok(EntityContext { entity: Some(entity), proof: proof.cloned(), groups })
}

/// Reads the entity with this id, or its successor after a merge.
///
/// # Errors
/// 403 for an entity that is disabled or deleted.
pub async fn entity_in_force(unit: &mut Unit, entity_id: &str) -> Result<Arc<Entity>, Failure> {
    let entity = entity::current(unit, entity_id).await?;
    entity
        .filter(|entity| !entity.is_disabled)
        .ok_or_else(|| Failure::denied("the entity of the token is disabled or was deleted"))
}

/// Returns whether tokens of the entity can be used, as the unit sees the entity; `true` for an
/// empty id.
pub async fn is_in_force(unit: &mut Unit, entity_id: &str) -> Result<bool, Failure> {
    if entity_id.is_empty() {
        return Ok(true);
    }
    let entity = entity::current(unit, entity_id).await?;
    Ok(entity.is_some_and(|entity| !entity.is_disabled))
}

/// Reads the groups of the entity as operators and the latest logins set them.
pub async fn groups_of(unit: &mut Unit, entity: &Entity) -> Result<EntityGroups, Failure> {
    groups_by(unit, entity, |alias| Some(&alias.groups)).await
}

/// Reads the internal groups of the entity, and the external groups that `of_alias` selects for an
/// alias and whose present alias matches the proof.
async fn groups_by<'a>(
    unit: &mut Unit,
    entity: &'a Entity,
    of_alias: impl Fn(&'a Alias) -> Option<&'a ProvenGroups>,
) -> Result<EntityGroups, Failure> {
    let mut direct = Vec::new();
    for id in &entity.groups {
        let group = group::read(unit, id).await?;
        direct.extend(group.filter(|group| group.kind == GroupKind::Internal));
    }
    for alias in &entity.aliases {
        for (id, proof) in of_alias(alias).into_iter().flatten() {
            let group = group::read(unit, id).await?;
            direct.extend(group.filter(|group| group.is_proven_by(&alias.mount.accessor, proof)));
        }
    }
    let inherited = those_above(unit, &direct).await?;
    Ok(EntityGroups { direct, inherited })
}

/// Reads all groups above the groups `direct`, without `direct`.
async fn those_above(unit: &mut Unit, direct: &[Arc<Group>]) -> Result<Vec<Arc<Group>>, Failure> {
    let mut seen: BTreeSet<String> = direct.iter().map(|group| group.id.clone()).collect();
    let (mut found, mut next) = (Vec::new(), direct.to_vec());
    while let Some(below) = next.pop() {
        for id in below.parents.iter().filter(|id| seen.insert((*id).clone())) {
            let above = group::read(unit, id).await?;
            found.extend(above.clone());
            next.extend(above);
        }
    }
    Ok(found)
}

impl EntityContext {
    /// Returns the id of the entity; empty without an entity.
    pub fn entity_id(&self) -> &str {
        self.entity.as_ref().map_or("", |entity| &entity.id)
    }

    /// Returns whether the token has no entity.
    pub fn is_empty(&self) -> bool {
        self.entity.is_none()
    }

    /// Returns the policies of the entity and of its groups, sorted and without duplicates.
    pub fn policies(&self) -> Vec<String> {
        let of_entity = self.entity.iter().flat_map(|entity| &entity.policies);
        let of_groups = self.groups.iter().flat_map(|group| &group.policies);
        let all: BTreeSet<&String> = of_entity.chain(of_groups).collect();
        all.into_iter().cloned().collect()
    }

    /// Returns the token's policies together with the policies of the entity and its groups, sorted
    /// and without duplicates.
    pub fn policies_with(&self, of_token: &[String]) -> Vec<String> {
        let mut all: BTreeSet<String> = self.policies().into_iter().collect();
        all.extend(of_token.iter().cloned());
        all.into_iter().collect()
    }

    /// Returns the values for the templates of policies.
    pub fn values(&self) -> values::TemplateIdentity {
        let group = |group: &Arc<Group>| values::TemplateGroup {
            id: group.id.clone(),
            name: group.name.clone(),
            metadata: group.metadata.clone(),
        };
        values::TemplateIdentity {
            entity: self.entity.as_deref().map(|entity| self.entity_values(entity)),
            groups: self.groups.iter().map(group).collect(),
        }
    }

    fn entity_values(&self, entity: &Entity) -> values::TemplateEntity {
        let aliases = entity.aliases.iter().map(|alias| {
            let counted = effective_alias(alias, self.proof.as_ref());
            let values = values::TemplateAlias {
                id: alias.id.clone(),
                name: alias.name.clone(),
                metadata: counted.map(|counted| counted.metadata.clone()).unwrap_or_default(),
                custom_metadata: alias.custom_metadata.clone(),
            };
            (alias.mount.accessor.clone(), values)
        });
        values::TemplateEntity {
            id: entity.id.clone(),
            name: entity.name.clone(),
            metadata: entity.metadata.clone(),
            aliases: BTreeMap::from_iter(aliases),
        }
    }
}

//! Operators' changes of entities and groups. `None` leaves a field unchanged.

use super::bounds::{check_metadata, check_name, check_policies};
use super::entity::{self, Entity};
use super::group::{self, Group, GroupKind};
use super::index::{IdentityKind, find_target};
use super::{hierarchy, membership, names};
use crate::policies::{self, RESPONSE_WRAPPING, ROOT};
use crate::random;
use bulkhead_store::Unit;
use bulkhead_wire::failure::{Failure, quoted};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A change of the fields that entities and groups share.
#[derive(Default)]
pub struct IdentityChange {
    /// New name.
    pub name: Option<String>,
    /// Metadata that replaces the stored metadata.
    pub metadata: Option<BTreeMap<String, String>>,
    /// Policies as the caller sent them.
    pub policies: Option<Vec<String>>,
}

/// A change of a group.
#[derive(Default)]
pub struct GroupChange {
    /// The fields that entities have too.
    pub common: IdentityChange,
    /// The kind of a new group; an existing group keeps its kind.
    pub kind: Option<GroupKind>,
    /// Ids of the entities that become the members.
    pub entities: Option<BTreeSet<String>>,
    /// Ids of the groups that become the members.
    pub groups: Option<BTreeSet<String>>,
}

/// Writes an entity: `stored_entity`, or a new entity. Returns the entity after the change. `now`
/// is store time in milliseconds.
///
/// # Errors
/// 400 if the name is taken, or if a field has an invalid value.
pub async fn change_entity(
    unit: &mut Unit,
    now: u64,
    stored_entity: Option<Arc<Entity>>,
    (change, is_disabled): (IdentityChange, Option<bool>),
) -> Result<Entity, Failure> {
    let change = change.into_checked()?;
    let mut after = match &stored_entity {
        Some(stored_entity) => Entity { updated: now, ..Entity::clone(stored_entity) },
        None => Entity::new(random::uuid()?, String::new(), now),
    };
    let named = (change.name, after.name);
    after.name = name(unit, IdentityKind::Entity, named, &after.id).await?;
    after.metadata = change.metadata.unwrap_or(after.metadata);
    after.policies = change.policies.unwrap_or(after.policies);
    after.is_disabled = is_disabled.unwrap_or(after.is_disabled);
    entity::put(unit, stored_entity.as_deref(), &after)?;
    Ok(after)
}

/// Writes a group: `stored_group`, or a new group. Returns the group after the change. `now` is
/// store time in milliseconds.
///
/// # Errors
/// 400 if the name is taken, a member is invalid, the kind would change, or a field has an invalid
/// value; 413 if too many members change at once.
pub async fn change_group(
    unit: &mut Unit,
    now: u64,
    stored_group: Option<Arc<Group>>,
    change: GroupChange,
) -> Result<Group, Failure> {
    let common = change.common.into_checked()?;
    let kind = change.kind.or(stored_group.as_ref().map(|group| group.kind)).unwrap_or_default();
    let mut after = match &stored_group {
        Some(stored_group) if stored_group.kind != kind => {
            return Err(Failure::invalid(format!(
                "group type cannot be changed: the group is {}; make another group",
                stored_group.kind.word()
            )));
        }
        Some(stored_group) => Group { updated: now, ..Group::clone(stored_group) },
        None => Group::new(random::uuid()?, String::new(), kind, now),
    };
    let named = (common.name, after.name);
    after.name = name(unit, IdentityKind::Group, named, &after.id).await?;
    after.metadata = common.metadata.unwrap_or(after.metadata);
    after.policies = common.policies.unwrap_or(after.policies);
    after.modify_index += 1;
    check_settable(kind, change.entities.as_ref(), change.groups.as_ref())?;
    if let Some(groups) = change.groups {
        hierarchy::set_members(unit, &mut after, groups).await?;
    }
    if let Some(entities) = change.entities.filter(|_| kind == GroupKind::Internal) {
        membership::set_members(unit, &after.id, &entities).await?;
    }
    group::put(unit, stored_group.as_deref(), &after)?;
    Ok(after)
}

/// Deletes a group. The group gives no rights from the commit on; memberships are removed after the
/// commit ([`membership::all_leave`]).
pub async fn delete_group(unit: &mut Unit, group: &Group) -> Result<(), Failure> {
    hierarchy::detach(unit, group).await?;
    group::remove(unit, group)?;
    membership::let_all_leave(unit, &group.id)
}

/// Refuses members of an external group, because its auth method decides the members.
fn check_settable(
    kind: GroupKind,
    entities: Option<&BTreeSet<String>>,
    groups: Option<&BTreeSet<String>>,
) -> Result<(), Failure> {
    if kind == GroupKind::Internal {
        return Ok(());
    }
    let wrong = [("entities", entities), ("groups", groups)];
    match wrong.into_iter().find(|(_, sent)| sent.is_some_and(|sent| !sent.is_empty())) {
        Some((field, _)) => Err(Failure::invalid(format!(
            "member {field} can't be set manually for external groups: their auth method decides \
             the members"
        ))),
        None => Ok(()),
    }
}

/// Returns the name that was sent, if it is free. Without a sent name, returns the previous name or
/// draws a new name.
async fn name(
    unit: &mut Unit,
    noun: IdentityKind,
    (sent, before): (Option<String>, String),
    id: &str,
) -> Result<String, Failure> {
    let Some(name) = sent else {
        return if before.is_empty() { names::draw_name(unit, noun).await } else { Ok(before) };
    };
    let way = noun.name(unit, &name);
    if find_target(unit, &way).await?.is_some_and(|found| found != id) {
        let word = noun.word();
        return Err(Failure::invalid(format!(
            "{word} name is already in use: another {word} is called {}",
            quoted(&name)
        )));
    }
    Ok(name)
}

impl IdentityChange {
    /// Checks the change and brings policies into canonical form.
    fn into_checked(self) -> Result<Self, Failure> {
        if let Some(name) = &self.name {
            check_name("name", name)?;
        }
        if let Some(metadata) = &self.metadata {
            check_metadata("metadata", metadata)?;
        }
        let policies = self.policies.map(canonical_policies).transpose()?;
        Ok(Self { policies, ..self })
    }
}

fn canonical_policies(sent: Vec<String>) -> Result<Vec<String>, Failure> {
    let names = sent.iter().map(|name| policies::canonical_name(name));
    let names: BTreeSet<String> = names.collect::<Result<_, _>>().map_err(Failure::invalid)?;
    if let Some(name) = [ROOT, RESPONSE_WRAPPING].into_iter().find(|name| names.contains(*name)) {
        return Err(Failure::invalid(format!(
            "policies cannot contain {name}: entities and groups cannot have this policy; write \
             another policy"
        )));
    }
    let names = Vec::from_iter(names);
    check_policies(&names)?;
    Ok(names)
}

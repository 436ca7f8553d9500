//! What operators write of entities and groups. `None` of a change leaves what is there.

use super::bounds::{check_metadata, check_name, check_policies};
use super::entity::{self, Entity};
use super::group::{self, Group, GroupKind};
use super::index::{Noun, follow};
use super::{hierarchy, membership, names};
use crate::policies::{self, RESPONSE_WRAPPING, ROOT};
use crate::random;
use bulkhead_store::Unit;
use bulkhead_wire::failure::{Failure, quoted};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What entities and groups have in common.
#[derive(Default)]
pub(crate) struct Change {
    pub(crate) name: Option<String>,
    pub(crate) metadata: Option<BTreeMap<String, String>>,
    /// As they were sent.
    pub(crate) policies: Option<Vec<String>>,
}

/// Of a group.
#[derive(Default)]
pub(crate) struct GroupChange {
    pub(crate) common: Change,
    pub(crate) kind: Option<GroupKind>,
    pub(crate) entities: Option<BTreeSet<String>>,
    pub(crate) groups: Option<BTreeSet<String>>,
}

/// Writes an entity: the `known` one, or a new one. Gives it as it is now. `now` is store time in
/// milliseconds.
///
/// # Errors
/// 400 for a name that another has, and for what no entity can have.
pub(crate) async fn change_entity(
    unit: &mut Unit,
    now: u64,
    known: Option<Arc<Entity>>,
    (change, is_disabled): (Change, Option<bool>),
) -> Result<Entity, Failure> {
    let change = change.checked()?;
    let mut after = match &known {
        Some(known) => Entity { updated: now, ..Entity::clone(known) },
        None => Entity::new(random::uuid()?, String::new(), now),
    };
    let named = (change.name, after.name);
    after.name = name(unit, Noun::Entity, named, &after.id).await?;
    after.metadata = change.metadata.unwrap_or(after.metadata);
    after.policies = change.policies.unwrap_or(after.policies);
    after.is_disabled = is_disabled.unwrap_or(after.is_disabled);
    entity::put(unit, known.as_deref(), &after)?;
    Ok(after)
}

/// Writes a group: the `known` one, or a new one. Gives it as it is now. `now` is store time in
/// milliseconds.
///
/// # Errors
/// 400 for a name that another has, members that cannot be, another kind than it has, and for what
/// no group can have; 413 for too many new members at once.
pub(crate) async fn change_group(
    unit: &mut Unit,
    now: u64,
    known: Option<Arc<Group>>,
    change: GroupChange,
) -> Result<Group, Failure> {
    let common = change.common.checked()?;
    let kind = change.kind.or(known.as_ref().map(|known| known.kind)).unwrap_or_default();
    let mut after = match &known {
        Some(known) if known.kind != kind => {
            return Err(Failure::invalid(format!(
                "group type cannot be changed: this one is {}; make another group",
                known.kind.word()
            )));
        }
        Some(known) => Group { updated: now, ..Group::clone(known) },
        None => Group::new(random::uuid()?, String::new(), kind, now),
    };
    let named = (common.name, after.name);
    after.name = name(unit, Noun::Group, named, &after.id).await?;
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
    group::put(unit, known.as_deref(), &after)?;
    Ok(after)
}

/// Deletes a group. It holds nothing from the commit on; its entities leave it behind that
/// ([`membership::all_leave`]).
pub(crate) async fn delete_group(unit: &mut Unit, group: &Group) -> Result<(), Failure> {
    hierarchy::detach(unit, group).await?;
    group::remove(unit, group)?;
    membership::let_all_leave(unit, &group.id)
}

/// Who is in an external group is said by its auth method.
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
        Some((what, _)) => Err(Failure::invalid(format!(
            "member {what} can't be set manually for external groups: their auth method says who \
             is in them"
        ))),
        None => Ok(()),
    }
}

/// The name that was sent, unless another has it; or else the one before, or where there was none
/// one that is drawn.
async fn name(
    unit: &mut Unit,
    noun: Noun,
    (sent, before): (Option<String>, String),
    id: &str,
) -> Result<String, Failure> {
    let Some(name) = sent else {
        return if before.is_empty() { names::draw(unit, noun).await } else { Ok(before) };
    };
    let way = noun.name(unit, &name);
    if follow(unit, &way).await?.is_some_and(|found| found != id) {
        let word = noun.word();
        return Err(Failure::invalid(format!(
            "{word} name is already in use: another {word} is called {}",
            quoted(&name)
        )));
    }
    Ok(name)
}

impl Change {
    /// The same, in canonical form.
    fn checked(self) -> Result<Self, Failure> {
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
            "policies cannot contain {name}, which is given to no entity and no group; write a \
             policy of its own"
        )));
    }
    let names = Vec::from_iter(names);
    check_policies(&names)?;
    Ok(names)
}

//! Operators' changes of aliases: they assign a name at a mount to an entity or an external group.
//!
//! This file prevents rights that outlive the alias of the login that proved the rights. An alias
//! owns the external groups and the metadata of its logins: both move with the alias to another
//! entity, and end when the alias is deleted or renamed.

use super::alias::{Alias, AliasMount};
use super::bounds::{check_metadata, check_name};
use super::entity::{self, Entity};
use super::group::{self, Group, GroupKind};
use super::index::IdentityKind;
use super::mount_gone::{forget_entity_alias, forget_group_alias};
use super::{membership, names};
use crate::random;
use bulkhead_store::Unit;
use bulkhead_wire::failure::{Failure, quoted};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A change of an alias. `None` leaves a field unchanged.
pub struct AliasChange {
    /// Id of an existing alias; `None` for the alias with this name and mount, or a new alias.
    pub id: Option<String>,
    /// Name at the mount.
    pub name: Option<String>,
    /// The auth mount that proves the name.
    pub mount: Option<AliasMount>,
    /// Id of the entity or group that gets the alias.
    pub canonical_id: Option<String>,
    /// Metadata that replaces the operator's metadata.
    pub custom_metadata: Option<BTreeMap<String, String>>,
}

/// Writes an alias of an entity. Without a `canonical_id`, a new alias creates its entity. Returns
/// the alias and the id of its entity. `now` is store time in milliseconds.
///
/// # Errors
/// 400 if the alias or the entity does not exist, if the name at the mount is taken, or if the
/// entity has another alias at the mount.
pub async fn change_entity_alias(
    unit: &mut Unit,
    now: u64,
    change: AliasChange,
) -> Result<(Alias, String), Failure> {
    let owner = change.find_owner::<Entity>(unit).await?;
    let is_meant = |alias: &&Alias| change.is_of(alias);
    let stored_alias =
        owner.as_ref().and_then(|owner| owner.aliases.iter().find(is_meant)).cloned();
    let alias = change.apply(now, stored_alias)?;
    let taken = entity::by_alias(unit, &alias.mount.accessor, &alias.name).await?;
    refuse_taken(taken.iter().flat_map(|taken| &taken.aliases), &alias)?;
    let target = match &change.canonical_id {
        Some(id) => {
            Some(entity::read(unit, id).await?.ok_or_else(|| unknown_id_failure("entity", id))?)
        }
        None => owner.clone(),
    };
    if let Some(owner) = owner.filter(|owner| Some(&owner.id) != target.as_ref().map(|t| &t.id)) {
        let mut without = Entity::clone(&owner);
        without.aliases.retain(|other| other.id != alias.id);
        entity::put(unit, Some(&owner), &without)?;
    }
    let mut after = match &target {
        Some(target) => Entity { updated: now, ..Entity::clone(target) },
        None => {
            Entity::new(random::uuid()?, names::draw_name(unit, IdentityKind::Entity).await?, now)
        }
    };
    after.aliases.retain(|other| other.id != alias.id);
    if after.alias_at(&alias.mount.accessor).is_some() {
        return Err(Failure::invalid(format!(
            "the entity has another alias at the mount {}; delete the other alias, or merge \
             entities",
            alias.mount.path
        )));
    }
    after.aliases.push(alias.clone());
    entity::put(unit, target.as_deref(), &after)?;
    Ok((alias, after.id))
}

/// Writes the alias of an external group. Without a `canonical_id`, a new alias creates its group,
/// without policies (decision H84). Returns the alias and the id of its group. `now` is store time
/// in milliseconds.
///
/// # Errors
/// 400 if the alias or the group does not exist, if the group is not external or has another alias,
/// or if the name at the mount is taken.
pub async fn change_group_alias(
    unit: &mut Unit,
    now: u64,
    change: AliasChange,
) -> Result<(Alias, String), Failure> {
    let owner = change.find_owner::<Group>(unit).await?;
    let stored_alias = owner.as_ref().and_then(|owner| owner.alias.clone());
    let alias = change.apply(now, stored_alias.clone())?;
    let taken = group::by_alias(unit, &alias.mount.accessor, &alias.name).await?;
    refuse_taken(taken.iter().flat_map(|taken| &taken.alias), &alias)?;
    let found_group = existing_group(unit, change.canonical_id.as_deref(), owner.as_ref()).await?;
    let is_new = found_group.is_none();
    let target = match found_group {
        Some(group) => group,
        None => Arc::new(new_external_group(unit, now).await?),
    };
    if target.alias.as_ref().is_some_and(|other| other.id != alias.id) {
        return Err(Failure::invalid(format!(
            "group {} has an alias already; delete the alias first",
            quoted(&target.name)
        )));
    }
    if owner.is_some_and(|owner| owner.id != target.id) {
        forget_group_alias(unit, &alias.id).await?;
    } else if stored_alias.is_some_and(|stored| !alias.is(&stored.mount.accessor, &stored.name)) {
        membership::let_all_leave(unit, &target.id)?;
    }
    let modify_index = target.modify_index + 1;
    let alias_of = Some(alias.clone());
    let after = Group { alias: alias_of, modify_index, updated: now, ..Group::clone(&target) };
    group::put(unit, (!is_new).then_some(&*target), &after)?;
    Ok((alias, after.id))
}

/// Deletes the alias of an entity with this id. An unknown id is not an error.
pub async fn delete_entity_alias(unit: &mut Unit, id: &str) -> Result<(), Failure> {
    forget_entity_alias(unit, id).await
}

/// Deletes the alias of a group with this id, and with it all memberships in the group. An unknown
/// id is not an error.
pub async fn delete_group_alias(unit: &mut Unit, id: &str) -> Result<(), Failure> {
    forget_group_alias(unit, id).await
}

/// Returns the existing group that gets the alias; `None` for a new alias without `canonical_id`.
///
/// # Errors
/// 400 for an unknown group, and for an internal group.
async fn existing_group(
    unit: &mut Unit,
    canonical_id: Option<&str>,
    owner: Option<&Arc<Group>>,
) -> Result<Option<Arc<Group>>, Failure> {
    let group = match (canonical_id, owner) {
        (Some(id), _) => {
            group::read(unit, id).await?.ok_or_else(|| unknown_id_failure("group", id))?
        }
        (None, Some(owner)) => Arc::clone(owner),
        (None, None) => return Ok(None),
    };
    if group.kind == GroupKind::Internal {
        return Err(Failure::invalid(format!(
            "group {} is internal: only external groups have an alias",
            quoted(&group.name)
        )));
    }
    Ok(Some(group))
}

/// Returns a new external group with a drawn name.
async fn new_external_group(unit: &mut Unit, now: u64) -> Result<Group, Failure> {
    let name = names::draw_name(unit, IdentityKind::Group).await?;
    Ok(Group::new(random::uuid()?, name, GroupKind::External, now))
}

/// An owner of aliases: an entity or a group.
trait AliasOwner: Sized {
    /// Returns the owner of the alias with this id.
    fn by_alias_id(
        unit: &mut Unit,
        id: &str,
    ) -> impl Future<Output = Result<Option<Arc<Self>>, Failure>> + Send;

    /// Returns the owner of the alias `name` at the mount with this accessor.
    fn by_alias(
        unit: &mut Unit,
        accessor: &str,
        name: &str,
    ) -> impl Future<Output = Result<Option<Arc<Self>>, Failure>> + Send;
}

impl AliasOwner for Entity {
    async fn by_alias_id(unit: &mut Unit, id: &str) -> Result<Option<Arc<Self>>, Failure> {
        entity::by_alias_id(unit, id).await
    }

    async fn by_alias(
        unit: &mut Unit,
        accessor: &str,
        name: &str,
    ) -> Result<Option<Arc<Self>>, Failure> {
        entity::by_alias(unit, accessor, name).await
    }
}

impl AliasOwner for Group {
    async fn by_alias_id(unit: &mut Unit, id: &str) -> Result<Option<Arc<Self>>, Failure> {
        group::by_alias_id(unit, id).await
    }

    async fn by_alias(
        unit: &mut Unit,
        accessor: &str,
        name: &str,
    ) -> Result<Option<Arc<Self>>, Failure> {
        group::by_alias(unit, accessor, name).await
    }
}

impl AliasChange {
    /// Returns the owner of the alias to change; `None` for a new alias.
    ///
    /// # Errors
    /// 400 for an unknown alias id.
    async fn find_owner<T: AliasOwner>(&self, unit: &mut Unit) -> Result<Option<Arc<T>>, Failure> {
        match (&self.id, &self.name, &self.mount) {
            (Some(id), ..) => {
                let owner = T::by_alias_id(unit, id).await?;
                owner.map(Some).ok_or_else(|| unknown_alias(id))
            }
            (None, Some(name), Some(mount)) => T::by_alias(unit, &mount.accessor, name).await,
            _ => Ok(None),
        }
    }

    /// Returns whether `alias` is the alias to change.
    fn is_of(&self, alias: &Alias) -> bool {
        match (&self.id, &self.name, &self.mount) {
            (Some(id), ..) => alias.id == *id,
            (None, Some(name), Some(mount)) => alias.is(&mount.accessor, name),
            _ => false,
        }
    }

    /// Returns the changed or new alias.
    fn apply(&self, now: u64, stored_alias: Option<Alias>) -> Result<Alias, Failure> {
        if let Some(name) = &self.name {
            check_name("name", name)?;
        }
        if let Some(metadata) = &self.custom_metadata {
            check_metadata("custom_metadata", metadata)?;
        }
        let mut alias = match (stored_alias, &self.name, &self.mount) {
            (Some(stored), ..) => Alias { updated: now, ..stored },
            (None, Some(name), Some(mount)) => {
                Alias::new(random::uuid()?, mount.clone(), name, now)
            }
            _ => {
                return Err(Failure::invalid(
                    "'id' or 'mount_accessor' and 'name' must be provided",
                ));
            }
        };
        let before = (alias.mount.accessor.clone(), alias.name.clone());
        alias.name = self.name.clone().unwrap_or(alias.name);
        alias.mount = self.mount.clone().unwrap_or(alias.mount);
        if !alias.is(&before.0, &before.1) {
            alias.forget_proven();
        }
        alias.custom_metadata = self.custom_metadata.clone().unwrap_or(alias.custom_metadata);
        Ok(alias)
    }
}

/// Refuses an alias if an alias with the same name and mount exists under another id.
fn refuse_taken<'a>(
    mut others: impl Iterator<Item = &'a Alias>,
    alias: &Alias,
) -> Result<(), Failure> {
    let is_other =
        |other: &Alias| other.id != alias.id && other.is(&alias.mount.accessor, &alias.name);
    if others.any(is_other) {
        return Err(Failure::invalid(format!(
            "another alias of this name is at the mount {}; choose another name",
            alias.mount.path
        )));
    }
    Ok(())
}

fn unknown_alias(id: &str) -> Failure {
    Failure::invalid(format!("invalid alias id: there is no alias with the id {}", quoted(id)))
}

fn unknown_id_failure(noun: &str, id: &str) -> Failure {
    Failure::invalid(format!("invalid canonical ID: there is no {noun} with the id {}", quoted(id)))
}

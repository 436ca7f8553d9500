//! Logins: the entity behind the alias that an auth method proved.
//!
//! The login reads and writes everything in its own unit of work. If several first logins of an
//! alias run concurrently, all but the first commit meet a conflict, retry, and find the entity. A
//! login that proves nothing new writes nothing.

use super::alias::{Alias, AliasMount, GroupProof, ProvenGroups};
use super::bounds::{MOST_GROUPS, at_most, check_metadata, check_name};
use super::entity::{self, Entity};
use super::group::{self, GroupKind};
use super::index::IdentityKind;
use super::names;
use super::proof::LoginProof;
use crate::random;
use bulkhead_store::Unit;
use bulkhead_wire::failure::Failure;
use std::collections::{BTreeMap, BTreeSet};

/// A login as the auth method proved it.
pub struct ProvenAlias {
    /// The auth mount.
    pub mount: AliasMount,
    /// Name of the caller at the mount.
    pub alias: String,
    /// Metadata of the caller at the mount.
    pub metadata: BTreeMap<String, String>,
    /// Names of the caller's groups at the mount; `None` if the auth method does not name groups.
    pub group_aliases: Option<Vec<String>>,
}

/// The entity that signed in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedInEntity {
    /// Id of the entity.
    pub entity_id: String,
    /// Proof for the token of this login.
    pub proof: LoginProof,
}

/// Finds or creates the entity behind a proven alias, and records the login's metadata and external
/// groups in the alias. Writes only changes, in the login's own unit. `now` is store time in
/// milliseconds.
///
/// Returns `None` if the entity is disabled: nothing was written, and the caller refuses the login.
///
/// # Errors
/// 400 for an invalid alias or metadata, and for more groups than an entity can have.
pub async fn sign_in(
    unit: &mut Unit,
    now: u64,
    proven: &ProvenAlias,
) -> Result<Option<SignedInEntity>, Failure> {
    check_name("the alias of the login", &proven.alias)?;
    check_metadata("the metadata of the alias", &proven.metadata)?;
    let stored_entity = entity::by_alias(unit, &proven.mount.accessor, &proven.alias).await?;
    if stored_entity.as_ref().is_some_and(|entity| entity.is_disabled) {
        return Ok(None);
    }
    let mut entity = match &stored_entity {
        Some(stored_entity) => Entity::clone(stored_entity),
        None => first_seen(unit, now, proven).await?,
    };
    let groups = match &proven.group_aliases {
        Some(names) => {
            drop_external(unit, &mut entity).await?;
            Some(external_groups(unit, &proven.mount.accessor, names).await?)
        }
        None => None,
    };
    let proof = refresh_alias(&mut entity, now, proven, groups)?;
    if stored_entity.as_deref() != Some(&entity) {
        entity::put(unit, stored_entity.as_deref(), &entity)?;
    }
    Ok(Some(SignedInEntity { entity_id: entity.id, proof }))
}

async fn first_seen(unit: &mut Unit, now: u64, proven: &ProvenAlias) -> Result<Entity, Failure> {
    let name = names::draw_name(unit, IdentityKind::Entity).await?;
    let mut entity = Entity::new(random::uuid()?, name, now);
    entity.aliases.push(Alias::new(random::uuid()?, proven.mount.clone(), &proven.alias, now));
    Ok(entity)
}

/// Records the login in its alias, and returns the proof for its token.
fn refresh_alias(
    entity: &mut Entity,
    now: u64,
    proven: &ProvenAlias,
    groups: Option<ProvenGroups>,
) -> Result<LoginProof, Failure> {
    let is_it = |alias: &&mut Alias| alias.is(&proven.mount.accessor, &proven.alias);
    let alias = entity.aliases.iter_mut().find(is_it);
    let alias = alias.ok_or_else(|| Failure::internal("an alias leads to another entity"))?;
    let proof = LoginProof::of(alias, proven.metadata.clone(), groups.clone());
    if alias.metadata != proven.metadata {
        alias.metadata.clone_from(&proven.metadata);
        alias.updated = now;
    }
    alias.groups = groups.unwrap_or_else(|| std::mem::take(&mut alias.groups));
    Ok(proof)
}

/// Finds the external groups with these aliases at the mount. Names without a group are ignored; a
/// login never creates a group.
async fn external_groups(
    unit: &mut Unit,
    accessor: &str,
    names: &[String],
) -> Result<ProvenGroups, Failure> {
    at_most(names.len(), MOST_GROUPS, "the group aliases of the login")?;
    let mut found = ProvenGroups::new();
    for name in names {
        let Some(group) = group::by_alias(unit, accessor, name).await? else { continue };
        let Some(alias) = &group.alias else { continue };
        let proof = GroupProof { alias: alias.id.clone(), name: alias.name.clone() };
        found.insert(group.id.clone(), proof);
    }
    Ok(found)
}

/// Removes from the entity's own list deleted groups, and external groups, which earlier releases
/// stored there.
async fn drop_external(unit: &mut Unit, entity: &mut Entity) -> Result<(), Failure> {
    let mut internal = BTreeSet::new();
    for id in std::mem::take(&mut entity.groups) {
        let group = group::read(unit, &id).await?;
        internal.extend(group.filter(|group| group.kind == GroupKind::Internal).map(|_| id));
    }
    entity.groups = internal;
    Ok(())
}

#[cfg(test)]
mod tests;

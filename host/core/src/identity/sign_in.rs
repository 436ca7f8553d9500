//! A login: the entity behind the alias that an auth method proved.
//!
//! Everything is read and written in the login's own unit of work. Of many first logins of one
//! alias at once each but one meets a conflict, begins anew, and finds the entity. A login that
//! says what is known already writes nothing.

use super::alias::{Alias, AliasMount};
use super::bounds::{MOST_GROUPS, at_most, check_metadata, check_name};
use super::entity::{self, Entity};
use super::group;
use super::index::Noun;
use super::names;
use crate::random;
use bulkhead_store::Unit;
use bulkhead_wire::failure::Failure;
use std::collections::{BTreeMap, BTreeSet};

/// A login as the auth method proved it.
pub(crate) struct Proven {
    pub(crate) mount: AliasMount,
    /// What the caller is called there.
    pub(crate) alias: String,
    /// What is known of the caller there.
    pub(crate) metadata: BTreeMap<String, String>,
    /// What the caller's groups are called there; `None` where the method does not speak of groups.
    pub(crate) group_aliases: Option<Vec<String>>,
}

/// The entity that signed in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SignedIn {
    pub(crate) entity_id: String,
    /// It may not: the login is to be refused. Nothing was written then.
    pub(crate) is_disabled: bool,
}

/// Finds or makes the entity behind a proven alias, refreshes its metadata (a write only when it
/// changed) and its external groups. In the login's own unit; `now` is store time in milliseconds.
///
/// # Errors
/// 400 for an alias, metadata or groups that no entity can have.
pub(crate) async fn sign_in(
    unit: &mut Unit,
    now: u64,
    proven: &Proven,
) -> Result<SignedIn, Failure> {
    check_name("the alias of the login", &proven.alias)?;
    check_metadata("the metadata of the alias", &proven.metadata)?;
    let known = entity::by_alias(unit, &proven.mount.accessor, &proven.alias).await?;
    if let Some(known) = known.as_ref().filter(|known| known.is_disabled) {
        return Ok(SignedIn { entity_id: known.id.clone(), is_disabled: true });
    }
    let mut entity = match &known {
        Some(known) => Entity::clone(known),
        None => first_seen(unit, now, proven).await?,
    };
    refresh_alias(&mut entity, now, proven);
    if let Some(names) = &proven.group_aliases {
        let (left, joined) = external_groups(unit, &entity, &proven.mount.accessor, names).await?;
        entity.groups.retain(|group| !left.contains(group));
        entity.groups.extend(joined);
    }
    if known.as_deref() != Some(&entity) {
        entity::put(unit, known.as_deref(), &entity)?;
    }
    Ok(SignedIn { entity_id: entity.id, is_disabled: false })
}

async fn first_seen(unit: &mut Unit, now: u64, proven: &Proven) -> Result<Entity, Failure> {
    let name = names::draw(unit, Noun::Entity).await?;
    let mut entity = Entity::new(random::uuid()?, name, now);
    entity.aliases.push(Alias::new(random::uuid()?, proven.mount.clone(), &proven.alias, now));
    Ok(entity)
}

fn refresh_alias(entity: &mut Entity, now: u64, proven: &Proven) {
    let is_it = |alias: &&mut Alias| alias.is(&proven.mount.accessor, &proven.alias);
    let Some(alias) = entity.aliases.iter_mut().find(is_it) else { return };
    if alias.metadata != proven.metadata {
        alias.metadata.clone_from(&proven.metadata);
        alias.updated = now;
    }
}

/// The external groups of that mount that the entity is no more in, and those that it is now in.
/// Groups are never made: of names that no group has, nothing follows.
async fn external_groups(
    unit: &mut Unit,
    entity: &Entity,
    accessor: &str,
    names: &[String],
) -> Result<(BTreeSet<String>, BTreeSet<String>), Failure> {
    at_most(names.len(), MOST_GROUPS, "the group aliases of the login")?;
    let mut joined = BTreeSet::new();
    for name in names {
        joined.extend(group::by_alias(unit, accessor, name).await?.map(|group| group.id.clone()));
    }
    let mut left = BTreeSet::new();
    for id in entity.groups.difference(&joined) {
        let group = group::read(unit, id).await?;
        let alias = group.as_ref().and_then(|group| group.alias.as_ref());
        if group.is_none() || alias.is_some_and(|alias| alias.mount.accessor == accessor) {
            left.insert(id.clone());
        }
    }
    Ok((left, joined))
}

#[cfg(test)]
mod tests;

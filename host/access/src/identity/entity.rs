//! Stored entities. Times are in milliseconds of store time.

use super::alias::Alias;
use super::bounds::{MOST_ALIASES, MOST_GROUPS, MOST_MERGED, at_most};
use super::index::{self, IdentityKind, LookupAddresses, find_target};
use bulkhead_store::{IndexColumns, Unit};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::stored;
use bulkhead_wire::stored::Stored;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A person or a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entity {
    /// Unique id, never reused.
    pub id: String,
    /// Name for people to read. Unique, ignoring case.
    pub name: String,
    /// Metadata that operators wrote.
    pub metadata: BTreeMap<String, String>,
    /// Policies in canonical form and sorted.
    pub policies: Vec<String>,
    /// True if no token of the entity can be used.
    pub is_disabled: bool,
    /// Time of creation, as store time in milliseconds.
    pub created: u64,
    /// Time of the latest change, as store time in milliseconds.
    pub updated: u64,
    /// Aliases, at most one for each mount.
    pub aliases: Vec<Alias>,
    /// Ids of internal groups with this entity as a direct member. Ids of deleted groups may stay
    /// for a while. Ids of external groups come from earlier releases and give no rights; external
    /// groups are stored in the alias whose login proved them.
    pub(crate) groups: BTreeSet<String>,
    /// Ids of entities merged into this entity. Tokens of a merged entity are tokens of this
    /// entity.
    pub merged: Vec<String>,
}

stored!(Entity, "entity", reads_stored_entities);

impl Entity {
    /// Returns a new entity, created at `now`.
    pub(crate) fn new(id: String, name: String, now: u64) -> Self {
        Self { id, name, created: now, updated: now, ..Self::default() }
    }

    /// Returns the entity's alias at the mount with this accessor.
    pub(crate) fn alias_at(&self, accessor: &str) -> Option<&Alias> {
        self.aliases.iter().find(|alias| alias.mount.accessor == accessor)
    }

    /// Returns the ids of all groups that the record lists with this entity as a direct member.
    fn direct_groups(&self) -> impl Iterator<Item = &String> {
        self.groups.iter().chain(self.aliases.iter().flat_map(|alias| alias.groups.keys()))
    }

    /// Returns all addresses that lead to the entity.
    fn lookup_addresses(&self, unit: &Unit) -> LookupAddresses {
        let mut ways =
            LookupAddresses::from([(IdentityKind::Entity.name(unit, &self.name), String::new())]);
        for alias in &self.aliases {
            let accessor = &alias.mount.accessor;
            ways.insert(IdentityKind::Entity.alias(unit, accessor, &alias.name), String::new());
            ways.insert(IdentityKind::Entity.alias_id(&alias.id), accessor.clone());
        }
        let members = self.direct_groups().map(|group| index::member(group, &self.id));
        let merged = self.merged.iter().map(|id| index::successor_address(id));
        ways.extend(members.chain(merged).map(|address| (address, String::new())));
        ways
    }

    fn check(&self) -> Result<(), Failure> {
        at_most(self.aliases.len(), MOST_ALIASES, "the aliases of the entity")?;
        let groups = self.direct_groups().count();
        at_most(groups, MOST_GROUPS, "the direct groups of the entity")?;
        at_most(self.merged.len(), MOST_MERGED, "the entities merged into this entity")
    }
}

/// Writes an entity and all records that lead to it. `before` is the entity before the change.
///
/// # Errors
/// 400 if the entity exceeds a bound.
pub(crate) fn put(unit: &mut Unit, before: Option<&Entity>, after: &Entity) -> Result<(), Failure> {
    after.check()?;
    let old = before.map(|before| before.lookup_addresses(unit)).unwrap_or_default();
    let new = after.lookup_addresses(unit);
    index::replace(unit, &after.id, &old, &new)?;
    unit.put(IdentityKind::Entity.record(&after.id), after.to_bytes()?, IndexColumns::default());
    Ok(())
}

/// Deletes an entity and all records that lead to it. Its tokens are refused from the commit on.
pub fn delete(unit: &mut Unit, entity: &Entity) -> Result<(), Failure> {
    let ways = entity.lookup_addresses(unit);
    index::replace(unit, &entity.id, &ways, &LookupAddresses::new())?;
    unit.delete(IdentityKind::Entity.record(&entity.id));
    Ok(())
}

/// Reads the entity with this id. Returns `None` for an entity that was merged into another.
pub async fn read(unit: &mut Unit, id: &str) -> Result<Option<Arc<Entity>>, Failure> {
    if !index::is_id(id) {
        return Ok(None);
    }
    let Some(found) = unit.get(&IdentityKind::Entity.record(id)).await? else { return Ok(None) };
    let parsed = found.body.parsed(Entity::from_bytes);
    parsed.map(Some).map_err(|unreadable| unreadable.of("the record of an entity"))
}

/// Reads the entity with this id, or the entity into which it was merged.
pub(crate) async fn current(unit: &mut Unit, id: &str) -> Result<Option<Arc<Entity>>, Failure> {
    match read(unit, id).await? {
        None if index::is_id(id) => led_to(unit, index::successor_address(id)).await,
        found => Ok(found),
    }
}

/// Reads the entity with this name, ignoring case.
pub async fn by_name(unit: &mut Unit, name: &str) -> Result<Option<Arc<Entity>>, Failure> {
    let way = IdentityKind::Entity.name(unit, name);
    led_to(unit, way).await
}

/// Reads the entity with this alias at the mount.
pub async fn by_alias(
    unit: &mut Unit,
    accessor: &str,
    name: &str,
) -> Result<Option<Arc<Entity>>, Failure> {
    let way = IdentityKind::Entity.alias(unit, accessor, name);
    led_to(unit, way).await
}

/// Reads the entity that has the alias with this id.
pub async fn by_alias_id(unit: &mut Unit, alias: &str) -> Result<Option<Arc<Entity>>, Failure> {
    if !index::is_id(alias) {
        return Ok(None);
    }
    led_to(unit, IdentityKind::Entity.alias_id(alias)).await
}

async fn led_to(
    unit: &mut Unit,
    way: bulkhead_store::Address,
) -> Result<Option<Arc<Entity>>, Failure> {
    match find_target(unit, &way).await? {
        Some(id) => read(unit, &id).await,
        None => Ok(None),
    }
}

//! Entities as they are stored. Times are in milliseconds of store time.

use super::alias::Alias;
use super::bounds::{MOST_ALIASES, MOST_GROUPS, MOST_MERGED, at_most};
use super::index::{self, Noun, Ways, follow};
use bulkhead_store::{Index, Unit};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::stored;
use bulkhead_wire::stored::Stored;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// One person or machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entity {
    /// Never given to another one.
    pub(crate) id: String,
    /// For people. No two have the same one, in any case of its letters.
    pub(crate) name: String,
    pub(crate) metadata: BTreeMap<String, String>,
    /// In canonical form and in order.
    pub(crate) policies: Vec<String>,
    /// None of its tokens can be used.
    pub(crate) is_disabled: bool,
    pub(crate) created: u64,
    pub(crate) updated: u64,
    /// At most one a mount.
    pub(crate) aliases: Vec<Alias>,
    /// Ids of internal groups with this entity as a direct member. Ids of deleted groups may stay
    /// for a while. Ids of external groups come from earlier releases and give no rights; external
    /// groups are kept in the alias whose login proved them.
    pub(crate) groups: BTreeSet<String>,
    /// Ids of the entities that were merged into it: their tokens are its tokens.
    pub(crate) merged: Vec<String>,
}

stored!(Entity, "entity", reads_stored_entities);

impl Entity {
    /// A new one, made at `now`.
    pub(crate) fn new(id: String, name: String, now: u64) -> Self {
        Self { id, name, created: now, updated: now, ..Self::default() }
    }

    /// Its alias at that mount.
    pub(crate) fn alias_at(&self, accessor: &str) -> Option<&Alias> {
        self.aliases.iter().find(|alias| alias.mount.accessor == accessor)
    }

    /// Ids of all groups with this entity as a direct member, as the record has them.
    fn direct_groups(&self) -> impl Iterator<Item = &String> {
        self.groups.iter().chain(self.aliases.iter().flat_map(|alias| alias.groups.keys()))
    }

    /// All that leads to it.
    fn ways(&self, unit: &Unit) -> Ways {
        let mut ways = Ways::from([(Noun::Entity.name(unit, &self.name), String::new())]);
        for alias in &self.aliases {
            let accessor = &alias.mount.accessor;
            ways.insert(Noun::Entity.alias(unit, accessor, &alias.name), String::new());
            ways.insert(Noun::Entity.alias_id(&alias.id), accessor.clone());
        }
        let members = self.direct_groups().map(|group| index::member(group, &self.id));
        let merged = self.merged.iter().map(|id| index::merged(id));
        ways.extend(members.chain(merged).map(|address| (address, String::new())));
        ways
    }

    fn check(&self) -> Result<(), Failure> {
        at_most(self.aliases.len(), MOST_ALIASES, "the aliases of the entity")?;
        let groups = self.direct_groups().count();
        at_most(groups, MOST_GROUPS, "the groups that the entity is in by itself")?;
        at_most(self.merged.len(), MOST_MERGED, "the entities that were merged into this one")
    }
}

/// Writes an entity in place of what it was `before`, with all that leads to it.
///
/// # Errors
/// 400 where it would have more than an entity can have.
pub(crate) fn put(unit: &mut Unit, before: Option<&Entity>, after: &Entity) -> Result<(), Failure> {
    after.check()?;
    let old = before.map(|before| before.ways(unit)).unwrap_or_default();
    let new = after.ways(unit);
    index::replace(unit, &after.id, &old, &new)?;
    unit.put(Noun::Entity.record(&after.id), after.to_bytes()?, Index::default());
    Ok(())
}

/// Removes an entity, with all that leads to it. Its tokens are refused from then on.
pub(crate) fn delete(unit: &mut Unit, entity: &Entity) -> Result<(), Failure> {
    let ways = entity.ways(unit);
    index::replace(unit, &entity.id, &ways, &Ways::new())?;
    unit.delete(Noun::Entity.record(&entity.id));
    Ok(())
}

/// The entity with that id; `None` also for one that was merged into another.
pub(crate) async fn read(unit: &mut Unit, id: &str) -> Result<Option<Arc<Entity>>, Failure> {
    if !index::is_id(id) {
        return Ok(None);
    }
    let Some(found) = unit.get(&Noun::Entity.record(id)).await? else { return Ok(None) };
    let parsed = found.body.parsed(Entity::from_bytes);
    parsed.map(Some).map_err(|unreadable| unreadable.of("the record of an entity"))
}

/// The entity with that id, or the one that it was merged into.
pub(crate) async fn current(unit: &mut Unit, id: &str) -> Result<Option<Arc<Entity>>, Failure> {
    match read(unit, id).await? {
        None if index::is_id(id) => led_to(unit, index::merged(id)).await,
        found => Ok(found),
    }
}

/// The entity of that name, in any case of its letters.
pub(crate) async fn by_name(unit: &mut Unit, name: &str) -> Result<Option<Arc<Entity>>, Failure> {
    let way = Noun::Entity.name(unit, name);
    led_to(unit, way).await
}

/// The entity that is called so at that mount.
pub(crate) async fn by_alias(
    unit: &mut Unit,
    accessor: &str,
    name: &str,
) -> Result<Option<Arc<Entity>>, Failure> {
    let way = Noun::Entity.alias(unit, accessor, name);
    led_to(unit, way).await
}

/// The entity that has the alias with that id.
pub(crate) async fn by_alias_id(
    unit: &mut Unit,
    alias: &str,
) -> Result<Option<Arc<Entity>>, Failure> {
    if !index::is_id(alias) {
        return Ok(None);
    }
    led_to(unit, Noun::Entity.alias_id(alias)).await
}

async fn led_to(
    unit: &mut Unit,
    way: bulkhead_store::Address,
) -> Result<Option<Arc<Entity>>, Failure> {
    match follow(unit, &way).await? {
        Some(id) => read(unit, &id).await,
        None => Ok(None),
    }
}

//! Entities, groups and aliases as they are read and listed.

use super::call::Fields;
use super::reply::{Body, Reply, timestamp};
use super::row::field;
use crate::core::Core;
use crate::identity::{self, Alias, Entity, Group, Groups, membership};
use crate::paging::{ListingText, Paging, SortedNames};
use bulkhead_store::{Address, Scan, Space, Unit};
use bulkhead_wire::description::{Field, FieldKind};
use bulkhead_wire::failure::Failure;
use serde_json::{Map, Value, json};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// The only namespace.
const NAMESPACE: &str = "root";

/// An object of these members.
pub(super) fn members<const N: usize>(members: [(&str, Value); N]) -> Map<String, Value> {
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// RFC 3339, of milliseconds.
fn moment(milliseconds: u64) -> Value {
    timestamp(milliseconds / 1000)
}

/// Some values are shown as null where there are none, as clients know it.
fn or_null(value: Value) -> Value {
    let is_empty = match &value {
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    };
    if is_empty { Value::Null } else { value }
}

fn ids(groups: &[Arc<Group>]) -> BTreeSet<&str> {
    groups.iter().map(|group| group.id.as_str()).collect()
}

/// An entity as it is read.
pub(super) async fn entity(
    core: &Core,
    unit: &mut Unit,
    entity: &Entity,
) -> Result<Map<String, Value>, Failure> {
    let Groups { direct, inherited } = identity::groups_of(unit, entity).await?;
    let (direct, inherited) = (ids(&direct), ids(&inherited));
    let groups: BTreeSet<&str> = direct.union(&inherited).copied().collect();
    let aliases = entity.aliases.iter().map(|alias| {
        let mut data = alias_of(core, alias, &entity.id);
        data.remove("namespace_id");
        Value::Object(data)
    });
    Ok(members([
        ("aliases", aliases.collect()),
        ("creation_time", moment(entity.created)),
        ("direct_group_ids", json!(direct)),
        ("disabled", json!(entity.is_disabled)),
        ("group_ids", json!(groups)),
        ("id", json!(entity.id)),
        ("inherited_group_ids", json!(inherited)),
        ("last_update_time", moment(entity.updated)),
        ("merged_entity_ids", or_null(json!(entity.merged))),
        ("metadata", or_null(json!(entity.metadata))),
        ("name", json!(entity.name)),
        ("namespace_id", json!(NAMESPACE)),
        ("policies", json!(entity.policies)),
    ]))
}

/// A group as it is read, and a warning where not all of its members are shown.
pub(super) async fn group(
    core: &Core,
    group: &Group,
) -> Result<(Map<String, Value>, Option<String>), Failure> {
    let (entities, more) = membership::members(&core.store, &group.id).await?;
    let alias = group.alias.as_ref().map(|alias| alias_of(core, alias, &group.id));
    let warning = more.then(|| {
        format!("the group has more than {} entities; the others are not shown", entities.len())
    });
    let data = members([
        ("alias", Value::Object(alias.unwrap_or_default())),
        ("creation_time", moment(group.created)),
        ("id", json!(group.id)),
        ("last_update_time", moment(group.updated)),
        ("member_entity_ids", json!(entities)),
        ("member_group_ids", or_null(json!(group.members))),
        ("metadata", or_null(json!(group.metadata))),
        ("modify_index", json!(group.modify_index)),
        ("name", json!(group.name)),
        ("namespace_id", json!(NAMESPACE)),
        ("parent_group_ids", or_null(json!(group.parents))),
        ("policies", json!(group.policies)),
        ("type", json!(group.kind.word())),
    ]);
    Ok((data, warning))
}

/// An alias as it is read: of an entity or group with the id `canonical_id`.
pub(super) fn alias_of(core: &Core, alias: &Alias, canonical_id: &str) -> Map<String, Value> {
    let mut data = listed_alias(core, alias, canonical_id);
    data.extend(members([
        ("creation_time", moment(alias.created)),
        ("id", json!(alias.id)),
        ("last_update_time", moment(alias.updated)),
        ("merged_from_canonical_ids", or_null(json!(alias.merged_from))),
        ("namespace_id", json!(NAMESPACE)),
    ]));
    data
}

/// An alias in the listing of aliases.
pub(super) fn listed_alias(core: &Core, alias: &Alias, canonical_id: &str) -> Map<String, Value> {
    let mut data = brief_alias(core, alias);
    data.remove("id");
    data.extend(members([
        ("canonical_id", json!(canonical_id)),
        ("custom_metadata", or_null(json!(alias.custom_metadata))),
        ("local", json!(false)),
        ("metadata", or_null(json!(alias.metadata))),
    ]));
    data
}

/// An alias in the listing of entities.
pub(super) fn brief_alias(core: &Core, alias: &Alias) -> Map<String, Value> {
    let mount = core.mounts.of_alias(&alias.mount);
    members([
        ("id", json!(alias.id)),
        ("mount_accessor", json!(mount.accessor)),
        ("mount_path", json!(mount.path)),
        ("mount_type", json!(mount.kind)),
        ("name", json!(alias.name)),
    ])
}

/// The fields that ask for a part of a listing.
pub(super) fn part() -> [Field; 2] {
    [
        field("after", FieldKind::String, "list only what is greater than this"),
        field("limit", FieldKind::String, "list at most so many"),
    ]
}

/// A listing that is being made, page by page, each as it is at that moment.
pub(super) struct Listing {
    scan: Scan,
    page: VecDeque<Address>,
    limit: usize,
    found: Found,
}

/// The entries that were found so far.
enum Found {
    /// In the order of ids, so that the listing ends with its part.
    ByIds(ListingText),
    /// Without what is told of each. All records are looked at.
    ByNames(SortedNames),
}

impl Listing {
    /// Of the records whose keys begin with `prefix`, by the ids in the keys.
    pub(super) fn by_id(core: &Core, prefix: &str, fields: Fields<'_>) -> Result<Self, Failure> {
        let Paging { after, limit } = Paging::of(fields.all())?;
        let mut scan = core.store.scan(Space::Core, prefix);
        if !after.is_empty() {
            scan.skip_to(format!("{prefix}{after}"));
        }
        let found = Found::ByIds(ListingText::with_info(&core.listings));
        Ok(Self { scan, page: VecDeque::new(), limit, found })
    }

    /// The same, by names.
    pub(super) fn by_name(core: &Core, prefix: &str, fields: Fields<'_>) -> Result<Self, Failure> {
        let paging = Paging::of(fields.all())?;
        let (scan, limit) = (core.store.scan(Space::Core, prefix), paging.limit);
        let found = Found::ByNames(SortedNames::new(&core.listings, paging));
        Ok(Self { scan, page: VecDeque::new(), limit, found })
    }

    /// The next record to be looked at; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Address>, Failure> {
        if matches!(&self.found, Found::ByIds(text) if text.entries() >= self.limit) {
            return Ok(None);
        }
        if self.page.is_empty() {
            self.page.extend(self.scan.page().await?.into_iter().flatten());
        }
        Ok(self.page.pop_front())
    }

    /// Adds what has that id and that name. What is told of it is `info`, where that is asked.
    ///
    /// # Errors
    /// 413 and 503, as [`ListingText::add`].
    pub(super) async fn add(
        &mut self,
        (id, name): (&str, &str),
        info: impl FnOnce() -> Map<String, Value>,
    ) -> Result<(), Failure> {
        match &mut self.found {
            Found::ByIds(text) => text.add(id, &info()).await,
            Found::ByNames(names) => names.add(name.to_owned()).await,
        }
    }

    /// The answer; 404 without any.
    pub(super) fn reply(self) -> Result<Reply, Failure> {
        let listing = match self.found {
            Found::ByIds(text) => text.end(),
            Found::ByNames(names) => names.end(),
        };
        Ok(Body::Listed(listing.ok_or_else(Failure::absent)?).into())
    }
}

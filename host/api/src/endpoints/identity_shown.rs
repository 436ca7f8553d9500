//! JSON of entities, groups and aliases, for reads and listings.

use super::call::RequestFields;
use super::reply::{Reply, ReplyBody};
use super::row::field;
use bulkhead_access::identity::{self, Alias, Entity, EntityGroups, Group, membership};
use bulkhead_access::paging::{ListingText, Paging, SortedNames};
use bulkhead_access::timestamp::timestamp;
use bulkhead_core::Core;
use bulkhead_store::{Address, PrefixScan, Space, Unit};
use bulkhead_wire::description::{Field, FieldKind};
use bulkhead_wire::failure::Failure;
use serde_json::{Map, Value, json};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// Name of the only namespace.
const NAMESPACE: &str = "root";

/// Builds an object from its members.
pub(super) fn members<const N: usize>(members: [(&str, Value); N]) -> Map<String, Value> {
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Formats milliseconds since 1970 as RFC 3339.
fn format_rfc3339(milliseconds: u64) -> Value {
    timestamp(milliseconds / 1000)
}

/// Replaces an empty list or object with null, as clients expect for some members.
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

/// Shows an entity for a read.
pub(super) async fn entity(
    core: &Core,
    unit: &mut Unit,
    entity: &Entity,
) -> Result<Map<String, Value>, Failure> {
    let EntityGroups { direct, inherited } = identity::groups_of(unit, entity).await?;
    let (direct, inherited) = (ids(&direct), ids(&inherited));
    let groups: BTreeSet<&str> = direct.union(&inherited).copied().collect();
    let aliases = entity.aliases.iter().map(|alias| {
        let mut data = alias_of(core, alias, &entity.id);
        data.remove("namespace_id");
        Value::Object(data)
    });
    Ok(members([
        ("aliases", aliases.collect()),
        ("creation_time", format_rfc3339(entity.created)),
        ("direct_group_ids", json!(direct)),
        ("disabled", json!(entity.is_disabled)),
        ("group_ids", json!(groups)),
        ("id", json!(entity.id)),
        ("inherited_group_ids", json!(inherited)),
        ("last_update_time", format_rfc3339(entity.updated)),
        ("merged_entity_ids", or_null(json!(entity.merged))),
        ("metadata", or_null(json!(entity.metadata))),
        ("name", json!(entity.name)),
        ("namespace_id", json!(NAMESPACE)),
        ("policies", json!(entity.policies)),
    ]))
}

/// Shows a group for a read, with a warning if some members are left out.
pub(super) async fn group(
    core: &Core,
    group: &Group,
) -> Result<(Map<String, Value>, Option<String>), Failure> {
    let (entities, more) = membership::list_members(&core.store, &group.id).await?;
    let alias = group.alias.as_ref().map(|alias| alias_of(core, alias, &group.id));
    let warning = more.then(|| {
        format!("the group has more than {} entities; the others are not shown", entities.len())
    });
    let data = members([
        ("alias", Value::Object(alias.unwrap_or_default())),
        ("creation_time", format_rfc3339(group.created)),
        ("id", json!(group.id)),
        ("last_update_time", format_rfc3339(group.updated)),
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

/// Shows an alias for a read. `canonical_id` is the id of its entity or group.
pub(super) fn alias_of(core: &Core, alias: &Alias, canonical_id: &str) -> Map<String, Value> {
    let mut data = listed_alias(core, alias, canonical_id);
    data.extend(members([
        ("creation_time", format_rfc3339(alias.created)),
        ("id", json!(alias.id)),
        ("last_update_time", format_rfc3339(alias.updated)),
        ("merged_from_canonical_ids", or_null(json!(alias.merged_from))),
        ("namespace_id", json!(NAMESPACE)),
    ]));
    data
}

/// Shows an alias in the listing of aliases.
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

/// Shows an alias in the listing of entities.
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

/// Returns the fields that ask for a part of a listing.
pub(super) fn paging_fields() -> [Field; 2] {
    [
        field("after", FieldKind::String, "list only entries after this entry"),
        field("limit", FieldKind::String, "maximum number of entries"),
    ]
}

/// A listing under construction, read page by page, each page as of its own moment.
pub(super) struct IdentityListing {
    scan: PrefixScan,
    page: VecDeque<Address>,
    limit: usize,
    found: ListingEntries,
}

/// The entries found so far.
enum ListingEntries {
    /// Sorted by id, so that reading stops at the limit.
    ByIds(ListingText),
    /// Names without further information. All records are read.
    ByNames(SortedNames),
}

impl IdentityListing {
    /// Begins a listing by id of the records with the key prefix `prefix`. The keys end in the ids.
    pub(super) fn by_id(
        core: &Core,
        prefix: &str,
        fields: RequestFields<'_>,
    ) -> Result<Self, Failure> {
        let Paging { after, limit } = Paging::of(fields.all())?;
        let mut scan = core.store.scan(Space::Core, prefix);
        if !after.is_empty() {
            scan.skip_to(format!("{prefix}{after}"));
        }
        let found = ListingEntries::ByIds(ListingText::with_info(&core.listings));
        Ok(Self { scan, page: VecDeque::new(), limit, found })
    }

    /// Begins a listing of the same records by name.
    pub(super) fn by_name(
        core: &Core,
        prefix: &str,
        fields: RequestFields<'_>,
    ) -> Result<Self, Failure> {
        let paging = Paging::of(fields.all())?;
        let (scan, limit) = (core.store.scan(Space::Core, prefix), paging.limit);
        let found = ListingEntries::ByNames(SortedNames::new(&core.listings, paging));
        Ok(Self { scan, page: VecDeque::new(), limit, found })
    }

    /// Returns the address of the next record; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Address>, Failure> {
        if matches!(&self.found, ListingEntries::ByIds(text) if text.entries() >= self.limit) {
            return Ok(None);
        }
        if self.page.is_empty() {
            self.page.extend(self.scan.page().await?.into_iter().flatten());
        }
        Ok(self.page.pop_front())
    }

    /// Adds an entry. A listing by id also shows `info`.
    ///
    /// # Errors
    /// 413 and 503, as [`ListingText::add`].
    pub(super) async fn add(
        &mut self,
        (id, name): (&str, &str),
        info: impl FnOnce() -> Map<String, Value>,
    ) -> Result<(), Failure> {
        match &mut self.found {
            ListingEntries::ByIds(text) => text.add(id, &info()).await,
            ListingEntries::ByNames(names) => names.add(name.to_owned()).await,
        }
    }

    /// Returns the answer; 404 if the listing is empty.
    pub(super) fn reply(self) -> Result<Reply, Failure> {
        let listing = match self.found {
            ListingEntries::ByIds(text) => text.end(),
            ListingEntries::ByNames(names) => names.end(),
        };
        Ok(ReplyBody::Listed(listing.ok_or_else(Failure::absent)?).into())
    }
}

//! Lookup records of entities and groups: each name, alias and membership has a record that leads
//! to an id.
//!
//! This file prevents the disclosure of names in the database file, where keys are readable: keys
//! contain keyed hashes of names. An entity or group is written together with all records that lead
//! to it ([`replace`]), so no record leads to a missing entity or group.

use bulkhead_store::{Address, IndexColumns, Space, Store, Unit};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::stored;
use bulkhead_wire::stored::Stored;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Purposes of the keyed hashes. Part of the stored format.
const NAME: &str = "identity name";
const ALIAS: &str = "identity alias";

/// A record that leads to an entity or a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct LookupRecord {
    /// Id of the entity or group.
    to: String,
}

stored!(LookupRecord, "identity-pointer", reads_stored_identity_pointers);

/// The kind of record to which an address belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IdentityKind {
    Entity,
    Group,
}

impl IdentityKind {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Entity => "entity",
            Self::Group => "group",
        }
    }

    /// Returns the address of the record with this id.
    pub(super) fn record(self, id: &str) -> Address {
        self.address("", id)
    }

    /// Returns the address of the lookup record of a name, ignoring case.
    pub(super) fn name(self, unit: &Unit, name: &str) -> Address {
        let folded = name.to_lowercase();
        let hash = unit.hashes().keyed_hash(NAME, folded.as_bytes());
        self.address("-name", &hash)
    }

    /// Returns the address of the lookup record of an alias id.
    pub(super) fn alias_id(self, id: &str) -> Address {
        self.address("-alias", id)
    }

    /// Returns the address of the lookup record of an alias by mount and name.
    pub(super) fn alias(self, unit: &Unit, accessor: &str, name: &str) -> Address {
        // An accessor contains no space, so the text is unambiguous.
        let both = format!("{accessor} {name}");
        self.address("-alias-name", &unit.hashes().keyed_hash(ALIAS, both.as_bytes()))
    }

    /// Returns the alias id in the address of a lookup record.
    pub(super) fn id_of_alias(self, address: &Address) -> Option<&str> {
        address.key.strip_prefix(self.word())?.strip_prefix("-alias/")
    }

    fn address(self, way: &str, key: &str) -> Address {
        Address::new(Space::Core, format!("{}{way}/{key}", self.word()))
    }
}

/// Returns the prefix of a group's membership records. The ids of entities follow the prefix.
pub(super) fn members_prefix(group: &str) -> String {
    format!("group-member/{group}/")
}

/// Returns the address of the record of a membership.
pub(super) fn member(group: &str, entity: &str) -> Address {
    Address::new(Space::Core, format!("{}{entity}", members_prefix(group)))
}

/// Prefix of the schedule of groups whose memberships are to be removed. The group ids follow.
pub(super) const LEAVING: &str = "group-leaving/";

/// Schedules the removal of memberships of a group.
pub(super) fn mark_leaving(unit: &mut Unit, group: &str) -> Result<(), Failure> {
    let body = LookupRecord { to: group.to_owned() }.to_bytes()?;
    unit.put(removal_address(group), body, IndexColumns::default());
    Ok(())
}

/// Deletes the schedule of a group, after the removal.
pub(super) fn forget_leaving(unit: &mut Unit, group: &str) {
    unit.delete(removal_address(group));
}

fn removal_address(group: &str) -> Address {
    Address::new(Space::Core, format!("{LEAVING}{group}"))
}

/// Returns the address of the record that leads from a merged entity to its successor.
pub(super) fn successor_address(entity: &str) -> Address {
    Address::new(Space::Core, format!("merged-entity/{entity}"))
}

/// Returns whether a text can be an id. Other texts are never looked up as ids.
pub(super) fn is_id(text: &str) -> bool {
    text.len() == 36 && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

/// Returns the id to which the record at `address` leads.
pub(super) async fn find_target(
    unit: &mut Unit,
    address: &Address,
) -> Result<Option<String>, Failure> {
    let Some(found) = unit.get(address).await? else { return Ok(None) };
    let parsed: Result<Arc<LookupRecord>, _> = found.body.parsed(LookupRecord::from_bytes);
    let parsed = parsed.map_err(|unreadable| unreadable.of("the link to an entity or a group"))?;
    Ok(Some(parsed.to.clone()))
}

/// The addresses that lead to an entity or a group, each with the owner under which it is listed:
/// the accessor of the alias's mount, or an empty text.
pub(super) type LookupAddresses = BTreeMap<Address, String>;

/// Writes the records `after`, which lead to `id`, and deletes the other records of `before`.
pub(super) fn replace(
    unit: &mut Unit,
    id: &str,
    before: &LookupAddresses,
    after: &LookupAddresses,
) -> Result<(), Failure> {
    for gone in before.keys().filter(|address| !after.contains_key(*address)) {
        unit.delete(gone.clone());
    }
    for (address, owner) in after {
        if before.get(address) != Some(owner) {
            let index = IndexColumns { owner: owner.clone(), ..IndexColumns::default() };
            unit.put(address.clone(), LookupRecord { to: id.to_owned() }.to_bytes()?, index);
        }
    }
    Ok(())
}

/// Counts entities, at most `at_most`.
///
/// # Errors
/// 503 if the store cannot be read.
pub async fn count_entities(store: &Store, at_most: u32) -> Result<u32, Failure> {
    count(store, IdentityKind::Entity, at_most).await
}

/// Counts groups, at most `at_most`.
///
/// # Errors
/// 503 if the store cannot be read.
pub async fn count_groups(store: &Store, at_most: u32) -> Result<u32, Failure> {
    count(store, IdentityKind::Group, at_most).await
}

async fn count(store: &Store, kind: IdentityKind, at_most: u32) -> Result<u32, Failure> {
    Ok(store.count(Space::Core, &kind.record("").key, at_most).await?)
}

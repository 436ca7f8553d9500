//! Stored groups. Times are in milliseconds of store time.

use super::alias::{Alias, GroupProof};
use super::index::{self, IdentityKind, LookupAddresses, find_target};
use bulkhead_store::{Address, IndexColumns, Unit};
use bulkhead_wire::failure::{Failure, quoted};
use bulkhead_wire::stored;
use bulkhead_wire::stored::Stored;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The authority that decides which entities are in a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GroupKind {
    /// Operators.
    #[default]
    Internal,
    /// The auth method at the mount of the group's alias.
    External,
}

impl GroupKind {
    /// Parses the API's word for a kind.
    ///
    /// # Errors
    /// 400 for any other word.
    pub fn parse(word: &str) -> Result<Self, Failure> {
        match word {
            "internal" => Ok(Self::Internal),
            "external" => Ok(Self::External),
            other => Err(Failure::invalid(format!(
                "invalid group type {}; give internal or external",
                quoted(other)
            ))),
        }
    }

    /// Returns the API's word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Internal => "internal",
            Self::External => "external",
        }
    }
}

/// A set of entities and of other groups.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// Unique id, never reused.
    pub id: String,
    /// Name for people to read. Unique, ignoring case.
    pub name: String,
    /// Internal or external.
    pub kind: GroupKind,
    /// Metadata that operators wrote.
    pub metadata: BTreeMap<String, String>,
    /// Policies in canonical form and sorted.
    pub policies: Vec<String>,
    /// Ids of the groups with this group as a member.
    pub parents: BTreeSet<String>,
    /// Ids of the groups that are members of this group.
    pub members: BTreeSet<String>,
    /// Alias of an external group, once set.
    pub alias: Option<Alias>,
    /// Time of creation, as store time in milliseconds.
    pub created: u64,
    /// Time of the latest change, as store time in milliseconds.
    pub updated: u64,
    /// Number of changes.
    pub modify_index: u64,
}

stored!(Group, "group", reads_stored_groups);

impl Group {
    /// Returns a new group, created at `now`.
    pub(crate) fn new(id: String, name: String, kind: GroupKind, now: u64) -> Self {
        Self { id, name, kind, created: now, updated: now, ..Self::default() }
    }

    /// Returns whether the proof of a login at the mount with this accessor matches the group's
    /// present alias.
    pub(super) fn is_proven_by(&self, accessor: &str, proof: &GroupProof) -> bool {
        let alias = self.alias.as_ref();
        alias.is_some_and(|alias| alias.is(accessor, &proof.name) && alias.id == proof.alias)
    }

    /// Returns all addresses that lead to the group.
    fn lookup_addresses(&self, unit: &Unit) -> LookupAddresses {
        let mut ways =
            LookupAddresses::from([(IdentityKind::Group.name(unit, &self.name), String::new())]);
        if let Some(alias) = &self.alias {
            let accessor = &alias.mount.accessor;
            ways.insert(IdentityKind::Group.alias(unit, accessor, &alias.name), String::new());
            ways.insert(IdentityKind::Group.alias_id(&alias.id), accessor.clone());
        }
        ways
    }
}

/// Writes a group and all records that lead to it. `before` is the group before the change.
pub(crate) fn put(unit: &mut Unit, before: Option<&Group>, after: &Group) -> Result<(), Failure> {
    let old = before.map(|before| before.lookup_addresses(unit)).unwrap_or_default();
    let new = after.lookup_addresses(unit);
    index::replace(unit, &after.id, &old, &new)?;
    unit.put(IdentityKind::Group.record(&after.id), after.to_bytes()?, IndexColumns::default());
    Ok(())
}

/// Deletes the record of a group and all records that lead to it.
pub(super) fn remove(unit: &mut Unit, group: &Group) -> Result<(), Failure> {
    let ways = group.lookup_addresses(unit);
    index::replace(unit, &group.id, &ways, &LookupAddresses::new())?;
    unit.delete(IdentityKind::Group.record(&group.id));
    Ok(())
}

/// Reads the group with this id.
pub async fn read(unit: &mut Unit, id: &str) -> Result<Option<Arc<Group>>, Failure> {
    if !index::is_id(id) {
        return Ok(None);
    }
    let Some(found) = unit.get(&IdentityKind::Group.record(id)).await? else { return Ok(None) };
    let parsed = found.body.parsed(Group::from_bytes);
    parsed.map(Some).map_err(|unreadable| unreadable.of("the record of a group"))
}

/// Reads the group with this name, ignoring case.
pub async fn by_name(unit: &mut Unit, name: &str) -> Result<Option<Arc<Group>>, Failure> {
    let way = IdentityKind::Group.name(unit, name);
    led_to(unit, way).await
}

/// Reads the external group with this alias at the mount.
pub async fn by_alias(
    unit: &mut Unit,
    accessor: &str,
    name: &str,
) -> Result<Option<Arc<Group>>, Failure> {
    let way = IdentityKind::Group.alias(unit, accessor, name);
    led_to(unit, way).await
}

/// Reads the external group that has the alias with this id.
pub async fn by_alias_id(unit: &mut Unit, alias: &str) -> Result<Option<Arc<Group>>, Failure> {
    if !index::is_id(alias) {
        return Ok(None);
    }
    led_to(unit, IdentityKind::Group.alias_id(alias)).await
}

async fn led_to(unit: &mut Unit, way: Address) -> Result<Option<Arc<Group>>, Failure> {
    match find_target(unit, &way).await? {
        Some(id) => read(unit, &id).await,
        None => Ok(None),
    }
}

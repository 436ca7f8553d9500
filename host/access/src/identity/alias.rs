//! Aliases: the name of an entity or a group at a mount.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The mount of an alias.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AliasMount {
    /// Accessor of the mount. Aliases refer to the accessor, because it stays the same when the
    /// mount moves.
    pub accessor: String,
    /// Path of the mount when the alias was written, with `auth/` in front and a slash at the end.
    pub path: String,
    /// Type of the mount.
    pub kind: String,
}

/// Proof of a membership in an external group. The membership ends when the group loses the alias
/// or the alias gets another name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct GroupProof {
    /// Id of the group's alias.
    pub(crate) alias: String,
    /// Name that the alias had at the login.
    pub(crate) name: String,
}

/// External groups and the proof of each membership, by group id.
pub(crate) type ProvenGroups = BTreeMap<String, GroupProof>;

/// A name at a mount. Times are in milliseconds of store time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alias {
    /// Unique id, never reused.
    pub id: String,
    /// Name exactly as the auth method proves it.
    pub name: String,
    /// The auth mount that proves the name.
    pub mount: AliasMount,
    /// Metadata that the auth method proved at the latest login.
    pub metadata: BTreeMap<String, String>,
    /// External groups from the latest login that named groups. Always empty for the alias of a
    /// group.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) groups: ProvenGroups,
    /// Metadata that operators wrote.
    pub custom_metadata: BTreeMap<String, String>,
    /// Time of creation.
    pub created: u64,
    /// Time of the latest change.
    pub updated: u64,
    /// Ids of the entities that had the alias before they were merged.
    pub merged_from: Vec<String>,
}

impl Alias {
    /// Returns a new alias, created at `now`.
    pub(crate) fn new(id: String, mount: AliasMount, name: &str, now: u64) -> Self {
        let name = name.to_owned();
        Self { id, name, mount, created: now, updated: now, ..Self::default() }
    }

    /// Drops the metadata and groups that logins proved for another name or mount.
    pub(super) fn forget_proven(&mut self) {
        self.metadata.clear();
        self.groups.clear();
    }

    /// Returns whether the alias is `name` at the mount with this accessor.
    pub(crate) fn is(&self, accessor: &str, name: &str) -> bool {
        self.mount.accessor == accessor && self.name == name
    }
}

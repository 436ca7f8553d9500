//! What an entity or a group is called at one mount.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The mount at which something has an alias.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AliasMount {
    /// Stays when the mount moves; the aliases go by it.
    pub(crate) accessor: String,
    /// Where it was when the alias was written, with its slash at the end and `auth/` in front.
    pub(crate) path: String,
    /// Its type.
    pub(crate) kind: String,
}

/// Evidence of one membership in an external group. The membership ends when the group loses this
/// alias or gets another name for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct GroupProof {
    /// Id of the group's alias.
    pub(crate) alias: String,
    /// Name that the alias had at the login.
    pub(crate) name: String,
}

/// External groups, by group id.
pub(crate) type ProvenGroups = BTreeMap<String, GroupProof>;

/// A name at one mount. Times are in milliseconds of store time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Alias {
    /// Never given to another one.
    pub(crate) id: String,
    /// As the auth method proves it, letter by letter.
    pub(crate) name: String,
    pub(crate) mount: AliasMount,
    /// As the auth method proved it at the latest login.
    pub(crate) metadata: BTreeMap<String, String>,
    /// External groups of the latest login that spoke of groups. Always empty in the alias of a
    /// group.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) groups: ProvenGroups,
    /// As operators wrote it.
    pub(crate) custom_metadata: BTreeMap<String, String>,
    pub(crate) created: u64,
    pub(crate) updated: u64,
    /// Entities that had it before they were merged.
    pub(crate) merged_from: Vec<String>,
}

impl Alias {
    /// A new alias, made at `now`.
    pub(crate) fn new(id: String, mount: AliasMount, name: &str, now: u64) -> Self {
        let name = name.to_owned();
        Self { id, name, mount, created: now, updated: now, ..Self::default() }
    }

    /// Drops metadata and groups, which logins proved for another name or mount.
    pub(super) fn forget_proven(&mut self) {
        self.metadata.clear();
        self.groups.clear();
    }

    /// Is it that name at that mount?
    pub(crate) fn is(&self, accessor: &str, name: &str) -> bool {
        self.mount.accessor == accessor && self.name == name
    }
}

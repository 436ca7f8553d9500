//! A set of lendable accounts, as stored.

use crate::account::Account;
use crate::directory::EntryId;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Call, Failure, Host, stored};
use serde::{Deserialize, Serialize};

/// Maximum number of passwords that one write changes: each change needs a guard, and a call may
/// have 64 guards.
pub(crate) const MOST_ROTATED: usize = 60;

/// A stored set.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Set {
    /// Members in the order of lending.
    pub(crate) members: Vec<SetMember>,
    /// Seconds; 0 means no end.
    pub(crate) ttl: u64,
    /// Seconds; 0 means no end.
    pub(crate) max_ttl: u64,
    pub(crate) disable_check_in_enforcement: bool,
}

stored!(Set, "set", reads_stored_sets);

/// An account of a set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SetMember {
    /// Name as written by the operator.
    pub(crate) name: String,
    pub(crate) account: EntryId,
}

impl Set {
    pub(crate) fn key(name: &str) -> String {
        format!("set/{name}")
    }

    /// Returns the set `name`, if there is one.
    pub(crate) fn find(host: &dyn Host, name: &str) -> Result<Option<Self>, Failure> {
        host.storage().get(&Self::key(name))
    }

    /// Returns the set named in the path.
    ///
    /// # Errors
    /// Invalid request if there is no such set.
    pub(crate) fn require(host: &dyn Host, call: &Call) -> Result<Self, Failure> {
        let name = call.text("name");
        let unknown = || {
            let (shown, path) = (quoted(name), &call.mount.path);
            Failure::invalid(format!("there is no set {shown}; write {path}library/{name} first"))
        };
        Self::find(host, name)?.ok_or_else(unknown)
    }

    /// Returns true if the account is a member of the set.
    pub(crate) fn has(&self, account: &EntryId) -> bool {
        self.members.iter().any(|member| member.account == *account)
    }

    /// Returns the member of that name, ignoring case.
    pub(crate) fn member_named(&self, name: &str) -> Option<&SetMember> {
        let name = name.to_lowercase();
        self.members.iter().find(|member| member.name.to_lowercase() == name)
    }

    /// Returns the stored account of a member.
    ///
    /// # Errors
    /// Internal if the account is not stored: a set and its accounts are stored together.
    pub(crate) fn account(host: &dyn Host, member: &SetMember) -> Result<Account, Failure> {
        let name = quoted(&member.name);
        let lost = || Failure::internal(format!("{name} is not stored; write the set again"));
        Account::find(host, &member.account)?.ok_or_else(lost)
    }
}

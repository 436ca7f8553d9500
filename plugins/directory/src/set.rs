//! A set of accounts that are lent, as it is stored.

use crate::account::Account;
use crate::directory::Identity;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Call, Failure, Host, stored};
use serde::{Deserialize, Serialize};

/// Most accounts whose password is changed by one write: each is guarded, and a call guards 64.
pub(crate) const MOST_ROTATED: usize = 60;

/// A set.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Set {
    /// In the order in which they are lent.
    pub(crate) members: Vec<Member>,
    /// Seconds; 0 is without end.
    pub(crate) ttl: u64,
    /// Seconds; 0 is without end.
    pub(crate) max_ttl: u64,
    pub(crate) disable_check_in_enforcement: bool,
}

stored!(Set, "set", reads_stored_sets);

/// An account of a set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Member {
    /// As it was written.
    pub(crate) name: String,
    pub(crate) account: Identity,
}

impl Set {
    pub(crate) fn key(name: &str) -> String {
        format!("set/{name}")
    }

    /// The set `name`, if there is one.
    pub(crate) fn find(host: &dyn Host, name: &str) -> Result<Option<Self>, Failure> {
        host.storage().get(&Self::key(name))
    }

    /// The set that a path names.
    ///
    /// # Errors
    /// Invalid request where there is none.
    pub(crate) fn require(host: &dyn Host, call: &Call) -> Result<Self, Failure> {
        let name = call.text("name");
        let unknown = || {
            let (shown, path) = (quoted(name), &call.mount.path);
            Failure::invalid(format!("there is no set {shown}; write {path}library/{name} first"))
        };
        Self::find(host, name)?.ok_or_else(unknown)
    }

    /// Whether the account is one of its own.
    pub(crate) fn has(&self, account: &Identity) -> bool {
        self.members.iter().any(|member| member.account == *account)
    }

    /// The member of that name, whose letters have no case.
    pub(crate) fn called(&self, name: &str) -> Option<&Member> {
        let name = name.to_lowercase();
        self.members.iter().find(|member| member.name.to_lowercase() == name)
    }

    /// The account of a member.
    ///
    /// # Errors
    /// Internal where it is not stored: set and accounts are stored together.
    pub(crate) fn account(host: &dyn Host, member: &Member) -> Result<Account, Failure> {
        let name = quoted(&member.name);
        let lost = || Failure::internal(format!("{name} is not stored; write the set again"));
        Account::find(host, &member.account)?.ok_or_else(lost)
    }
}

//! An account of the directory as the engine keeps it: its passwords, and who has the use of it.
//!
//! The attack this file stops: one account that two roles and a set rotate against each other, so
//! that a password which was handed out stops working. The record is that of the directory's entry,
//! whatever names it was given by, and is either a set's or that of roles.

use crate::directory::{Found, Identity};
use crate::library::{Loan, Set};
use bulkhead_sdk::database_plugin::StoreTime;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Failure, Host, stored};
use serde::{Deserialize, Serialize};

/// An account. No `Debug`: it holds passwords.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Account {
    /// Where its entry was last seen.
    pub(crate) dn: String,
    /// The roles that show its password.
    pub(crate) roles: Vec<String>,
    /// The set that lends it; empty where it is none's.
    pub(crate) set: String,
    /// The password that is in force, where the engine knows it.
    pub(crate) current: Option<String>,
    /// The one before, where the engine knew it.
    pub(crate) last: Option<String>,
    /// When the engine last changed the password.
    pub(crate) rotated: Option<StoreTime>,
    /// When it was last changed, as the directory told after that.
    pub(crate) directory_rotated: Option<StoreTime>,
    /// Who has it.
    pub(crate) loan: Option<Loan>,
}

stored!(Account, "account", reads_stored_accounts);

impl Account {
    fn key(identity: &Identity) -> String {
        format!("account/{}", identity.as_str())
    }

    /// The account, if the engine keeps it.
    pub(crate) fn find(host: &dyn Host, identity: &Identity) -> Result<Option<Self>, Failure> {
        host.storage().get(&Self::key(identity))
    }

    /// The account of an entry: the one that is kept, or a new one that is nobody's.
    pub(crate) fn of(host: &dyn Host, found: &Found) -> Result<Self, Failure> {
        let kept = Self::find(host, &found.identity)?;
        let new = || Self {
            dn: String::new(),
            roles: Vec::new(),
            set: String::new(),
            current: None,
            last: None,
            rotated: None,
            directory_rotated: None,
            loan: None,
        };
        Ok(Self { dn: found.dn.clone(), ..kept.unwrap_or_else(new) })
    }

    pub(crate) fn store(&self, host: &dyn Host, identity: &Identity) -> Result<(), Failure> {
        host.storage().put(&Self::key(identity), self)
    }

    pub(crate) fn forget(host: &dyn Host, identity: &Identity) -> Result<(), Failure> {
        host.storage().delete(&Self::key(identity))
    }

    /// Refuses an account that another set has, or a role.
    ///
    /// # Errors
    /// Invalid request, which names who has it.
    pub(crate) fn check_free_for_set(
        &self,
        host: &dyn Host,
        identity: &Identity,
        name: &str,
        set: &str,
    ) -> Result<(), Failure> {
        if let Some(role) = self.roles.first() {
            return Err(managed(name, "role", role));
        }
        let owner = self.set_of(host, identity)?.filter(|owner| owner != set);
        owner.map_or(Ok(()), |owner| Err(managed(name, "set", &owner)))
    }

    /// Refuses an account that a set has.
    ///
    /// # Errors
    /// Invalid request, which names the set.
    pub(crate) fn check_free_for_role(
        &self,
        host: &dyn Host,
        identity: &Identity,
        name: &str,
    ) -> Result<(), Failure> {
        let owner = self.set_of(host, identity)?;
        owner.map_or(Ok(()), |owner| Err(managed(name, "set", &owner)))
    }

    /// The set that has the account. A set that was never finished has none.
    fn set_of(&self, host: &dyn Host, identity: &Identity) -> Result<Option<String>, Failure> {
        if self.set.is_empty() {
            return Ok(None);
        }
        let has_it = Set::find(host, &self.set)?.is_some_and(|set| set.has(identity));
        Ok(has_it.then(|| self.set.clone()))
    }
}

fn managed(name: &str, kind: &str, owner: &str) -> Failure {
    let (name, owner) = (quoted(name), quoted(owner));
    Failure::invalid(format!("{name} is already managed by {kind} {owner}; an account is in one"))
}

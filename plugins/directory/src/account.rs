//! An account of the directory as the engine stores it: its passwords, and its owner (a set, or
//! roles).
//!
//! Prevents two roles and a set from rotating the same account against each other, so that a
//! password that was handed out stops working. There is one record for each entry of the directory,
//! however a caller names the entry, and the record belongs either to a set or to roles.

use crate::directory::{EntryId, FoundAccount};
use crate::known_servers::KnownServers;
use crate::loan::Loan;
use bulkhead_sdk::database_plugin::StoreTime;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Failure, Host, stored};
use serde::{Deserialize, Serialize};

/// A stored account. No `Debug`: the record contains passwords.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Account {
    /// DN at which the entry was last seen.
    pub(crate) dn: String,
    /// Names of the roles that show the password.
    pub(crate) roles: Vec<String>,
    /// Name of the set that lends the account; empty for none.
    pub(crate) set: String,
    /// Password in force, if the engine knows it.
    pub(crate) current: Option<String>,
    /// Previous password, if the engine knew it.
    pub(crate) last: Option<String>,
    /// Time at which the engine last changed the password.
    pub(crate) rotated: Option<StoreTime>,
    /// Time of the same change by the directory's clock, read right after the change.
    pub(crate) directory_rotated: Option<StoreTime>,
    /// The present loan, if the account is lent.
    pub(crate) loan: Option<Loan>,
    /// Servers to which the password in force may be sent. `None` if an earlier release stored the
    /// password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) known_servers: Option<KnownServers>,
}

stored!(Account, "account", reads_stored_accounts);

impl Account {
    fn key(identity: &EntryId) -> String {
        format!("account/{}", identity.as_str())
    }

    /// Returns the account, if the engine stores it.
    pub(crate) fn find(host: &dyn Host, identity: &EntryId) -> Result<Option<Self>, Failure> {
        host.storage().get(&Self::key(identity))
    }

    /// Returns the stored account of an entry, or a new account without an owner.
    pub(crate) fn of(host: &dyn Host, found: &FoundAccount) -> Result<Self, Failure> {
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
            known_servers: None,
        };
        Ok(Self { dn: found.dn.clone(), ..kept.unwrap_or_else(new) })
    }

    pub(crate) fn store(&self, host: &dyn Host, identity: &EntryId) -> Result<(), Failure> {
        host.storage().put(&Self::key(identity), self)
    }

    pub(crate) fn forget(host: &dyn Host, identity: &EntryId) -> Result<(), Failure> {
        host.storage().delete(&Self::key(identity))
    }

    /// Returns true if the account can be lent: no present loan, and a known password.
    pub(crate) fn is_at_home(&self) -> bool {
        self.loan.is_none() && self.current.is_some()
    }

    /// Ends the loan and its lease.
    ///
    /// # Errors
    /// A refusal of the lease book.
    pub(crate) fn end_loan(&mut self, host: &dyn Host) -> Result<(), Failure> {
        match self.loan.take() {
            Some(loan) => host.leases().end_issued(&loan.handle),
            None => Ok(()),
        }
    }
}

/// Maximum number of account names in one warning.
const MOST_NAMED: usize = 10;

/// Returns a warning that the passwords of these accounts are deleted with their records. The
/// passwords stay in force in the directory, and only the engine knew them.
pub(crate) fn forgotten(names: &[&str]) -> Option<String> {
    let named: Vec<String> = names.iter().take(MOST_NAMED).map(|name| quoted(name)).collect();
    let more = names.len().saturating_sub(named.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!names.is_empty()).then(|| {
        format!(
            "passwords that stay in force and are not stored any more: of {}{more}; give the \
             accounts others in the directory, or take them over again by a role or set",
            named.join(", ")
        )
    })
}

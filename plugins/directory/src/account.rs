//! An account of the directory as the engine keeps it: its passwords, and who has the use of it.
//!
//! The attack this file stops: one account that two roles and a set rotate against each other, so
//! that a password which was handed out stops working. The record is that of the directory's entry,
//! under all names that it is given by, and is either a set's or that of roles.

use crate::directory::{Found, Identity};
use crate::known_servers::KnownServers;
use crate::loan::Loan;
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
    /// The servers of the password in force. `None` where an earlier release stored the password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) known_servers: Option<KnownServers>,
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

    /// The account of an entry: the one that is kept, or a new one that has no owner.
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
            known_servers: None,
        };
        Ok(Self { dn: found.dn.clone(), ..kept.unwrap_or_else(new) })
    }

    pub(crate) fn store(&self, host: &dyn Host, identity: &Identity) -> Result<(), Failure> {
        host.storage().put(&Self::key(identity), self)
    }

    pub(crate) fn forget(host: &dyn Host, identity: &Identity) -> Result<(), Failure> {
        host.storage().delete(&Self::key(identity))
    }

    /// Whether it is not lent and has a password, so that it can be lent.
    pub(crate) fn is_at_home(&self) -> bool {
        self.loan.is_none() && self.current.is_some()
    }

    /// Ends the loan, and its lease with it.
    ///
    /// # Errors
    /// What the lease book refused.
    pub(crate) fn end_loan(&mut self, host: &dyn Host) -> Result<(), Failure> {
        match self.loan.take() {
            Some(loan) => host.leases().end_issued(&loan.handle),
            None => Ok(()),
        }
    }
}

/// Names that a warning gives.
const MOST_NAMED: usize = 10;

/// The warning that passwords of these accounts go with their records. They stay in force, and were
/// set by the engine alone.
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

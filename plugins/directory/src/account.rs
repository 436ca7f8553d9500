//! An account of the directory as the engine stores it: its passwords, and its owner (a set, or
//! roles).
//!
//! This file prevents two roles and a set from rotating the same account against each other, so
//! that a password that was handed out stops working. There is one record for each entry of the
//! directory, however a caller names the entry, and the record belongs either to a set or to roles.
//! The key of the record is the id that the directory gave the entry, or a digest of the DN if
//! `binddn` could not read such an id. An id that becomes readable later is recorded, and leads to
//! the record.

use crate::directory::{EntryId, FoundAccount, KnownEntry, NO_IDS};
use crate::known_servers::KnownServers;
use crate::loan::{Loan, ReturnFailure};
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
    /// Id that the directory gave the entry, if the record's key is a digest of the DN and the id
    /// became readable later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) entry: Option<EntryId>,
    /// Object classes of the entry; empty if an earlier release stored the account.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) classes: Vec<String>,
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

    /// Returns the record's id of an entry: of the stored account, or for a new account.
    pub(crate) fn identity_of(host: &dyn Host, found: &FoundAccount) -> Result<EntryId, Failure> {
        for id in &found.ids {
            if let Some(identity) = host.storage().get_plain::<String>(&alias(id))? {
                return Ok(EntryId::of_key(&identity));
            }
            let stored = Self::find(host, id)?;
            // The former entry with this DN may be another one.
            let Some(entry_id) = stored.map(|stored| stored.entry_id(id).clone()) else { continue };
            if entry_id.is_given() && !id.is_given() && found.given_id().is_none() {
                return Err(unreadable_id(&found.dn));
            }
            if !entry_id.is_given() || found.has(&entry_id) {
                return Ok(id.clone());
            }
        }
        let first = found.ids.first().cloned();
        first.ok_or_else(|| Failure::internal("an entry of the directory has no id"))
    }

    /// Returns the stored account of an entry, or a new account without an owner.
    pub(crate) fn of(
        host: &dyn Host,
        identity: &EntryId,
        found: &FoundAccount,
    ) -> Result<Self, Failure> {
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
            entry: None,
            classes: Vec::new(),
        };
        Ok(Self::find(host, identity)?.unwrap_or_else(new).seen(identity, found))
    }

    /// Returns the account with the present DN, id and object classes of its entry.
    pub(crate) fn seen(self, identity: &EntryId, found: &FoundAccount) -> Self {
        let given = || found.given_id().filter(|_| !identity.is_given()).cloned();
        let entry = self.entry.clone().or_else(given);
        let classes = if found.classes.is_empty() { &self.classes } else { &found.classes };
        Self { dn: found.dn.clone(), entry, classes: classes.clone(), ..self }
    }

    /// Returns the id by which the entry is searched.
    pub(crate) fn entry_id<'a>(&'a self, identity: &'a EntryId) -> &'a EntryId {
        self.entry.as_ref().unwrap_or(identity)
    }

    /// Returns the record of the entry, by which the directory is searched.
    pub(crate) fn known_entry<'a>(&'a self, identity: &'a EntryId) -> KnownEntry<'a> {
        KnownEntry { id: self.entry_id(identity), dn: &self.dn, classes: &self.classes }
    }

    pub(crate) fn store(&self, host: &dyn Host, identity: &EntryId) -> Result<(), Failure> {
        if let Some(entry) = &self.entry {
            host.storage().put_plain(&alias(entry), identity.as_str())?;
        }
        host.storage().put(&Self::key(identity), self)
    }

    pub(crate) fn forget(host: &dyn Host, identity: &EntryId) -> Result<(), Failure> {
        if let Some(entry) = Self::find(host, identity)?.and_then(|account| account.entry) {
            host.storage().delete(&alias(&entry))?;
        }
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

/// Records in the loan the reason why it could not end, for `library/{name}/status`, in a commit of
/// its own. The call must have no unfinished change in its buffer. A failure to record is ignored:
/// the caller receives the reason, and the next attempt records it.
pub(crate) fn note_failed_return(host: &dyn Host, identity: &EntryId, loan: &str, why: &Failure) {
    let noted = || {
        let Some(mut account) = Account::find(host, identity)? else { return Ok(()) };
        let Some(loan) = account.loan.as_mut().filter(|lent| lent.id == loan) else {
            return Ok(());
        };
        let before = loan.failure.take();
        if before.as_ref().is_some_and(|before| before.why == why.message) {
            return Ok(());
        }
        let since = before.map_or_else(|| host.clock().now(), |before| before.since);
        loan.failure = Some(ReturnFailure { since, why: why.message.clone() });
        account.store(host, identity)?;
        host.storage().checkpoint().map(drop)
    };
    drop::<Result<(), Failure>>(noted());
}

fn unreadable_id(dn: &str) -> Failure {
    Failure::invalid(format!(
        "it is not proven that the entry at {} is the account stored with this DN; let binddn read \
         entryUUID or objectGUID of the entry",
        quoted(dn)
    ))
}

/// Returns the key of the record that leads from an entry's id to the id of its account.
fn alias(entry: &EntryId) -> String {
    format!("entry/{}", entry.as_str())
}

/// Maximum number of account names in one warning.
const MOST_NAMED: usize = 10;

/// Returns a warning about accounts without a readable id (decision D17).
pub(crate) fn unidentified(names: &[&str]) -> Option<String> {
    let more = if names.len() > MOST_NAMED { " and others" } else { "" };
    let named: Vec<String> = names.iter().take(MOST_NAMED).map(|name| quoted(name)).collect();
    (!names.is_empty()).then(|| format!("{}{more}: {NO_IDS}", named.join(", ")))
}

/// Returns a warning that the passwords of these accounts are deleted with their records. The
/// passwords stay in force in the directory, and only the engine knew them.
pub(crate) fn forgotten(names: &[&str]) -> Option<String> {
    let named: Vec<String> = names.iter().take(MOST_NAMED).map(|name| quoted(name)).collect();
    let more = names.len().saturating_sub(named.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!names.is_empty()).then(|| {
        format!(
            "passwords in force and not stored any more: of {}{more}; give the accounts other \
             passwords in the directory, or take the accounts over again by a role or set",
            named.join(", ")
        )
    })
}

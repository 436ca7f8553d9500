//! Search for an account that the engine knows, and the proof that the directory has no such
//! account.
//!
//! This file prevents an account that others moved or hid from counting as deleted: its borrower
//! would keep a password that is in force. This file also prevents a change at an account of others
//! that has the former name.

use super::{DirectoryClient, EntryId, FoundAccount, absent_is_empty};
use bulkhead_sdk::Failure;
use bulkhead_sdk::ldap::{Condition, Filter, LdapFault, LdapFaultCode, Search};
use bulkhead_sdk::wire::failure::quoted;

/// Attributes that name accounts, for accounts that were recorded without object classes.
const ACCOUNT_NAMES: [&str; 3] = ["uid", "cn", "sAMAccountName"];
/// Maximum number of entries in a search for any account: the engine's own does not count.
const MAX_OTHER_ACCOUNTS: u32 = 2;

/// The record of an entry that was found before.
#[derive(Clone, Copy)]
pub(crate) struct KnownEntry<'a> {
    pub(crate) id: &'a EntryId,
    /// DN at which the entry was last seen.
    pub(crate) dn: &'a str,
    /// Object classes; empty if an earlier release found the entry.
    pub(crate) classes: &'a [String],
}

/// Result of a search for a known account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Sighting {
    /// The entry of the account, at its present DN.
    Found(FoundAccount),
    /// No search finds the account. The account may still exist.
    NotFound(DnHolder),
}

/// Present holder of the DN of an account that no search finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DnHolder {
    /// Another account has the DN now, and must not be touched.
    OtherAccount,
    /// `binddn` sees no entry with the DN.
    NotSeen,
}

impl Sighting {
    /// Returns the account's entry, if a search found the entry.
    pub(crate) fn found(self) -> Option<FoundAccount> {
        match self {
            Self::Found(found) => Some(found),
            Self::NotFound(_) => None,
        }
    }
}

impl DirectoryClient<'_> {
    /// Finds an account again by its id: at its DN, below `userdn`, and in the naming contexts of
    /// its DN that the login may search, else below the server's root. An account without an id is
    /// the entry at its DN.
    ///
    /// # Errors
    /// Invalid request if there is an entry at the DN, and its id is not readable.
    pub(crate) fn find_again(&self, known_entry: KnownEntry<'_>) -> Result<Sighting, Failure> {
        let KnownEntry { id, dn, .. } = known_entry;
        let here = absent_is_empty(self.search(Search::entry(dn)))?;
        let here = here.first().map(|entry| self.found(entry)).transpose()?;
        if let Some(here) = here.as_ref().filter(|here| here.has(id) || !id.is_given()) {
            return Ok(Sighting::Found(here.clone()));
        }
        if let Some(moved) = self.find_moved(id, dn)? {
            return Ok(Sighting::Found(moved));
        }
        match here {
            None => Ok(Sighting::NotFound(DnHolder::NotSeen)),
            Some(other) if other.is_other(id) => Ok(Sighting::NotFound(DnHolder::OtherAccount)),
            Some(_) => Err(unreadable(dn)),
        }
    }

    fn find_moved(&self, id: &EntryId, dn: &str) -> Result<Option<FoundAccount>, Failure> {
        if !id.is_given() {
            return Ok(None);
        }
        let base = self.base()?;
        if let Some(moved) = self.find_below(&base, id)? {
            return Ok(Some(moved));
        }
        let server = self.server()?;
        let mut places: Vec<&str> = server.contexts_of(dn).collect();
        places.extend(places.is_empty().then_some(server.root.as_str()));
        places.retain(|place| !place.is_empty() && !place.eq_ignore_ascii_case(&base));
        for place in places {
            match self.find_below(place, id) {
                Ok(None) => {}
                Err(refused) if refused.code == LdapFaultCode::RefusedSearch => {}
                found => return Ok(found?),
            }
        }
        Ok(None)
    }

    /// Returns the entry with this id in the subtree.
    fn find_below(&self, base: &str, id: &EntryId) -> Result<Option<FoundAccount>, LdapFault> {
        let Some((attribute, value)) = id.condition() else { return Ok(None) };
        let search = Search::below(base, Filter::equal(attribute, value)).limit(2);
        let entries = absent_is_empty(self.search(search))?;
        let unread = |why: Failure| LdapFault::new(LdapFaultCode::Unreachable, why.message);
        for entry in &entries {
            let found = self.found(entry).map_err(unread)?;
            if found.has(id) {
                return Ok(Some(found));
            }
        }
        match entries.first() {
            None => Ok(None),
            Some(entry) => Err(LdapFault::new(
                LdapFaultCode::InvalidRequest,
                format!("{}{attribute}; let binddn read it", wrong_answer(&entry.dn)),
            )),
        }
    }

    /// Proves by searches that the directory has no account with this id. The login has to see
    /// `userdn`, another account of the same object classes with an id of the same kind, and the
    /// naming contexts of the DN, which an entry cannot leave.
    ///
    /// # Errors
    /// Invalid request with the missing part of the proof.
    pub(crate) fn prove_absent(&self, known_entry: KnownEntry<'_>) -> Result<DnHolder, Failure> {
        let KnownEntry { id, dn, .. } = known_entry;
        self.check_base()?;
        let holder = match self.find_again(known_entry)? {
            Sighting::Found(found) => return Err(found_after_all(dn, &found.dn)),
            Sighting::NotFound(holder) => holder,
        };
        if !id.is_given() {
            return Err(unidentified(dn));
        }
        self.check_contexts(id, dn)?;
        match self.sees_other_account(known_entry)? {
            true => Ok(holder),
            false => Err(sees_no_account(dn)),
        }
    }

    /// Checks that the login sees the naming contexts of `dn`, and that no context has the id.
    fn check_contexts(&self, id: &EntryId, dn: &str) -> Result<(), Failure> {
        let server = self.server()?;
        let mut contexts = server.contexts_of(dn).peekable();
        if contexts.peek().is_none() {
            return Err(unreported_context(dn));
        }
        for context in contexts {
            if absent_is_empty(self.search(Search::entry(context)))?.is_empty() {
                return Err(invisible_context(dn, context));
            }
            if let Some(found) = self.find_below(context, id)? {
                return Err(found_after_all(dn, &found.dn));
            }
        }
        Ok(())
    }

    /// Returns true if a search by ids finds a similar account below `userdn`, except the engine's
    /// own: a login without the right to see accounts often sees itself.
    fn sees_other_account(&self, known_entry: KnownEntry<'_>) -> Result<bool, Failure> {
        let search = Search::below(&self.base()?, similar(known_entry)).limit(MAX_OTHER_ACCOUNTS);
        let entries = absent_is_empty(self.search(search))?;
        let own = self.own()?;
        for entry in &entries {
            let found = self.found(entry)?;
            if found.is_other(known_entry.id) && !own.iter().any(|own| own.is_same(&found)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns true if the login may read an id of the search base.
    ///
    /// # Errors
    /// Invalid request if the login sees no such entry.
    pub(crate) fn reads_ids(&self) -> Result<bool, Failure> {
        let base = self.search(Search::entry(&self.base()?))?;
        let base = base.first().map(|entry| self.found(entry)).transpose()?;
        Ok(base.is_some_and(|base| base.given_id().is_some()))
    }
}

/// Returns the filter for accounts with an id of the same kind and with the same object classes.
fn similar(known_entry: KnownEntry<'_>) -> Filter {
    let present = |name: &str| Condition { attribute: name.to_owned(), value: None };
    let id = known_entry.id.condition().map(|(attribute, _)| vec![present(attribute)]);
    let names = known_entry.classes.is_empty().then(|| ACCOUNT_NAMES.map(present).to_vec());
    let filter = Filter { all_of: id.into_iter().chain(names).collect() };
    known_entry.classes.iter().fold(filter, |filter, class| filter.and("objectClass", class))
}

/// Warning about a login without the right to read ids.
pub(crate) const NO_IDS: &str = "binddn may read neither entryUUID nor objectGUID: the engine \
                                 cannot follow moved accounts, or tell a deleted from a moved \
                                 account, and the account's loan then stays";

fn unreadable(dn: &str) -> Failure {
    Failure::invalid(format!(
        "it is not proven that the entry at {} is still the same account; let binddn read \
         entryUUID or objectGUID of the entry",
        quoted(dn)
    ))
}

fn unidentified(dn: &str) -> Failure {
    Failure::invalid(format!(
        "the account that was {} is not seen there, and was recorded with neither entryUUID nor \
         objectGUID, so a move looks like a deletion; move the account back, or add an entry with \
         this DN",
        quoted(dn)
    ))
}

fn found_after_all(dn: &str, now: &str) -> Failure {
    let (dn, now) = (quoted(dn), quoted(now));
    Failure::invalid(format!(
        "the account that was {dn} is not found at each server; {now} at one of them; try again"
    ))
}

fn unreported_context(dn: &str) -> Failure {
    Failure::invalid(format!(
        "the account that was {} is not found, and may have moved: the server does not tell a \
         naming context with this DN; let binddn read namingContexts of the root DSE",
        quoted(dn)
    ))
}

fn invisible_context(dn: &str, context: &str) -> Failure {
    Failure::invalid(format!(
        "the account that was {} is not found, and may have moved: binddn does not see the naming \
         context {}; let binddn read the entries",
        quoted(dn),
        quoted(context)
    ))
}

fn sees_no_account(dn: &str) -> Failure {
    Failure::invalid(format!(
        "the account that was {} is not found, and may be invisible: binddn sees no other account \
         of the same object classes below userdn; let binddn read accounts with entryUUID or \
         objectGUID, or add an account with these object classes below userdn",
        quoted(dn)
    ))
}

/// Returns the start of the message for an entry that does not show the id of the search.
fn wrong_answer(dn: &str) -> String {
    format!("the server answers a search by an id with {}, which does not show its ", quoted(dn))
}

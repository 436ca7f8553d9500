//! Look-up of the account that a name means.
//!
//! This file prevents a role or set from naming, by DN, an account outside `userdn`, and from
//! naming the account of the engine's own login: readers of the role would see that password, and a
//! rotation would make the configured `bindpass` invalid.

use super::name::{AccountName, name_of};
use super::{DirectoryClient, EntryId, FoundAccount, absent_is_empty};
use bulkhead_sdk::Failure;
use bulkhead_sdk::ldap::{Filter, LdapEntry, LdapFault, Search};
use bulkhead_sdk::wire::failure::quoted;

/// Maximum number of entries fetched for a name that must be unique.
const MAX_FETCHED_ENTRIES: u32 = 10;

impl DirectoryClient<'_> {
    /// Returns the only account of that name below `userdn`. The engine's own account is refused.
    ///
    /// # Errors
    /// Invalid request if no account or more than one has the name, or if the engine logs in as the
    /// account.
    pub(crate) fn find(&self, name: &str) -> Result<FoundAccount, Failure> {
        let base = self.base()?;
        let found = self.only(name, &base)?;
        if !self.is_below(&found, &base)? {
            return Err(absent(name, &base));
        }
        if self.own()?.iter().any(|own| own.is_same(&found)) {
            return Err(Failure::invalid(format!(
                "{} is the engine's own login; use rotate-root",
                quoted(name)
            )));
        }
        Ok(found)
    }

    /// Returns the account of the engine's own login, wherever its entry is.
    ///
    /// # Errors
    /// Invalid request if there is no such entry, or more than one.
    pub(crate) fn find_own(&self) -> Result<FoundAccount, Failure> {
        self.only(own_name(&self.config.login_name()), &self.root()?)
    }

    /// Returns the entries that may be the account of the engine's own login. A login without an
    /// entry, such as the `rootdn` of OpenLDAP, has none.
    pub(super) fn own(&self) -> Result<Vec<FoundAccount>, Failure> {
        if !self.config.has_login() {
            return Ok(Vec::new());
        }
        let login = self.config.login_name();
        let found = self.find_named(own_name(&login), &self.root()?)?;
        found.iter().map(|entry| self.found(entry)).collect()
    }

    fn only(&self, name: &str, base: &str) -> Result<FoundAccount, Failure> {
        match self.find_named(name, base)?.as_slice() {
            [entry] => self.found(entry),
            [] => Err(absent(name, base)),
            _ => Err(Failure::invalid(format!(
                "several accounts are called {}; give the DN",
                quoted(name)
            ))),
        }
    }

    /// Returns the entries of that name. A DN may be anywhere; any other name is searched below
    /// `base`.
    fn find_named(&self, name: &str, base: &str) -> Result<Vec<LdapEntry>, LdapFault> {
        absent_is_empty(match name_of(name, &self.config.schema) {
            AccountName::Dn(dn) => self.search(Search::entry(dn)),
            AccountName::Values(conditions) => {
                let filter = Filter::everything().and_any(&conditions);
                self.search(Search::below(base, filter).limit(MAX_FETCHED_ENTRIES))
            }
        })
    }

    /// Returns true if the server finds the entry below `base`. The server decides, because one DN
    /// has several spellings.
    fn is_below(&self, found: &FoundAccount, base: &str) -> Result<bool, Failure> {
        let Some((attribute, value)) = found.given_id().and_then(EntryId::condition) else {
            let (dn, base) = (found.dn.to_lowercase(), base.to_lowercase());
            return Ok(dn == base || dn.ends_with(&format!(",{base}")));
        };
        let below = Search::below(base, Filter::equal(attribute, value)).limit(1);
        Ok(!absent_is_empty(self.search(below))?.is_empty())
    }
}

fn absent(name: &str, base: &str) -> Failure {
    let forms = if name.contains('\\') { FORMS } else { "" };
    Failure::invalid(format!(
        "there is no account {} below {}; check the name, and userdn{forms}",
        quoted(name),
        quoted(base)
    ))
}

/// Hint for names with a domain: several domains may have an account of the same short name, and a
/// search covers a single domain.
const FORMS: &str = ". A domain before a backslash is not taken: name an account by user principal \
                     name (user@domain), short name alone, cn, or DN";

/// Removes the domain from a login name, so that accounts can be searched by the rest.
fn own_name(login: &str) -> &str {
    login.split_once('\\').map_or(login, |(_, name)| name)
}

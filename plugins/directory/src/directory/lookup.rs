//! Which account is meant by a name.
//!
//! The attacks this file stops: a role or set for an account that is not below `userdn`, by its DN;
//! and one for the account that the engine itself logs in by, whose password would be shown to who
//! may read the role, and would not be the one that is configured any more.

use super::name::{Name, name_of};
use super::{Directory, Found, Identity, absent_is_empty};
use bulkhead_sdk::Failure;
use bulkhead_sdk::ldap::{Entry, Fault, Filter, Search};
use bulkhead_sdk::wire::failure::quoted;

/// Entries that are looked at where one name is to mean one.
const SEVERAL: u32 = 10;

impl Directory<'_> {
    /// The one account of that name, below `userdn`, that is not the engine's own.
    ///
    /// # Errors
    /// Invalid request where there is none, or more than one.
    pub(crate) fn find(&self, name: &str) -> Result<Found, Failure> {
        let base = self.base()?;
        let found = self.only(name, &base)?;
        if !self.is_below(&found, &base)? {
            return Err(absent(name, &base));
        }
        if self.own()?.iter().any(|own| own.identity == found.identity) {
            return Err(Failure::invalid(format!(
                "{} is the account that the engine itself logs in by; rotate-root rotates it",
                quoted(name)
            )));
        }
        Ok(found)
    }

    /// The account that the engine itself logs in by, wherever it is.
    ///
    /// # Errors
    /// Invalid request where there is no such entry, or more than one.
    pub(crate) fn find_own(&self) -> Result<Found, Failure> {
        self.only(own_name(&self.config.login_name()), &self.root()?)
    }

    /// What may be the account that the engine itself logs in by; none where it has no entry, as
    /// the `rootdn` of OpenLDAP.
    fn own(&self) -> Result<Vec<Found>, Failure> {
        if !self.config.has_login() {
            return Ok(Vec::new());
        }
        let login = self.config.login_name();
        let found = self.called(own_name(&login), &self.root()?)?;
        found.iter().map(|entry| self.found(entry)).collect()
    }

    /// The account again, wherever it was moved and however it is called now; `None` where it is
    /// gone.
    pub(crate) fn find_again(
        &self,
        identity: &Identity,
        dn: &str,
    ) -> Result<Option<Found>, Failure> {
        let here = absent_is_empty(self.search(Search::entry(dn)))?;
        let is_it = |found: &Found| found.identity == *identity;
        let here = here.first().map(|entry| self.found(entry)).transpose()?.filter(is_it);
        if here.is_some() {
            return Ok(here);
        }
        let Some((attribute, value)) = identity.condition() else { return Ok(None) };
        let filter = Filter::equal(attribute, value);
        let moved = self.search(Search::below(&self.root()?, filter).limit(2));
        let moved = absent_is_empty(moved)?;
        Ok(moved.first().map(|entry| self.found(entry)).transpose()?.filter(is_it))
    }

    fn only(&self, name: &str, base: &str) -> Result<Found, Failure> {
        match self.called(name, base)?.as_slice() {
            [entry] => self.found(entry),
            [] => Err(absent(name, base)),
            _ => Err(Failure::invalid(format!(
                "more than one account is called {}; name it by its DN",
                quoted(name)
            ))),
        }
    }

    /// The entries of that name: of a DN wherever it is, of another below `base`.
    fn called(&self, name: &str, base: &str) -> Result<Vec<Entry>, Fault> {
        absent_is_empty(match name_of(name, &self.config.schema) {
            Name::Dn(dn) => self.search(Search::entry(dn)),
            Name::Values(conditions) => {
                let filter = Filter::everything().and_any(&conditions);
                self.search(Search::below(base, filter).limit(SEVERAL))
            }
        })
    }

    /// Whether the server says that the entry is there: two spellings of a DN are one.
    fn is_below(&self, found: &Found, base: &str) -> Result<bool, Failure> {
        let Some((attribute, value)) = found.identity.condition() else {
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

/// Several domains may have an account of one short name, and a search is in one of them.
const FORMS: &str = ". A domain before a backslash is not taken: name an account by its user \
                     principal name (user@domain), its short name alone, its cn, or its DN";

/// A name of a login as one that accounts are called by.
fn own_name(login: &str) -> &str {
    login.split_once('\\').map_or(login, |(_, name)| name)
}

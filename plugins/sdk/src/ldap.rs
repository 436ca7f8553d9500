//! Directories: who logs in where, what is searched for, and what a refusal means.
//!
//! ```
//! use bulkhead_sdk::ldap::{Fault, Filter, Search, Target};
//! use bulkhead_sdk::{Failure, Host};
//!
//! fn dn_of(host: &dyn Host, target: &Target, name: &str) -> Result<String, Failure> {
//!     let filter = Filter::equal("objectClass", "user")
//!         .and_any(&[("userPrincipalName", name), ("sAMAccountName", name)]);
//!     let search = Search::below("DC=corp,DC=example", filter).limit(2);
//!     let mut found = host.ldap().search(target, &search)?;
//!     match (found.pop(), found.is_empty()) {
//!         (Some(entry), true) => Ok(entry.dn),
//!         _ => Err(Failure::invalid(format!("{name:?} is not the name of exactly one account"))),
//!     }
//! }
//! ```

mod fault;

pub use fault::{Code, Fault};

/// Where to log in, and as whom. No `Debug`: it holds a password.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Target {
    /// `ldap://host:port` or `ldaps://host:port`, in their order; the next one is tried only where
    /// there is no connection to the one before.
    pub urls: Vec<String>,
    /// How the server is trusted, and who we are.
    pub tls: Tls,
    /// A DN, and in Active Directory `user@domain` or `DOMAIN\user` too.
    pub bind_dn: String,
    /// Never empty where there is a name.
    pub password: String,
    /// Milliseconds; 0 is what the host takes.
    pub connect_timeout: u32,
    /// Milliseconds for each answer; 0 is what the host takes.
    pub request_timeout: u32,
}

impl Target {
    /// The same servers, and another login.
    #[must_use]
    pub fn log_in_as(&self, bind_dn: &str, password: &str) -> Self {
        Self { bind_dn: bind_dn.to_owned(), password: password.to_owned(), ..self.clone() }
    }
}

/// How a server is trusted, and who we are. No `Debug`: it holds a key.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Tls {
    /// For `ldap://`: TLS before anything else is said.
    pub starttls: bool,
    /// Takes any certificate for any name.
    pub insecure: bool,
    /// PEM; the public roots unless set, and these alone where they are.
    pub root_certificates: Option<String>,
    /// PEM, together with its key.
    pub client_certificate: Option<String>,
    /// PEM.
    pub client_key: Option<String>,
    /// The name that the certificate must bear, where it is not the URL's host.
    pub server_name: Option<String>,
    /// `tls12`, `tls13`, or empty.
    pub min_version: String,
    /// `tls12`, `tls13`, or empty.
    pub max_version: String,
}

/// How far a search goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// The entry itself.
    Base,
    /// The entries right below it.
    OneLevel,
    /// It, and all below it.
    #[default]
    Subtree,
}

/// What an entry has to be: all of these, and of each at least one condition. A value is never read
/// as a piece of a filter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// All of: any of.
    pub all_of: Vec<Vec<Condition>>,
}

/// One thing that holds of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The attribute's name.
    pub attribute: String,
    /// What it has to be, by the server's rule for it; `None`: it is there at all.
    pub value: Option<Vec<u8>>,
}

impl Filter {
    /// Every entry.
    #[must_use]
    pub fn everything() -> Self {
        Self::default()
    }

    /// Those of which the attribute has that value.
    #[must_use]
    pub fn equal(attribute: &str, value: impl AsRef<[u8]>) -> Self {
        Self::default().and_any(&[(attribute, value)])
    }

    /// Those that have the attribute.
    #[must_use]
    pub fn present(attribute: &str) -> Self {
        let condition = Condition { attribute: attribute.to_owned(), value: None };
        Self { all_of: vec![vec![condition]] }
    }

    /// Those of them of which the attribute has that value, too.
    #[must_use]
    pub fn and(self, attribute: &str, value: impl AsRef<[u8]>) -> Self {
        self.and_any(&[(attribute, value)])
    }

    /// Those of them for which one of these holds, too.
    #[must_use]
    pub fn and_any(mut self, values: &[(&str, impl AsRef<[u8]>)]) -> Self {
        let conditions = values.iter().map(|(attribute, value)| Condition {
            attribute: (*attribute).to_owned(),
            value: Some(value.as_ref().to_vec()),
        });
        self.all_of.push(conditions.collect());
        self
    }
}

/// What is searched for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Search {
    /// A DN.
    pub base: String,
    /// How far below it.
    pub scope: Scope,
    /// Of what.
    pub filter: Filter,
    /// The only ones that are asked for.
    pub attributes: Vec<String>,
    /// Entries at most, of which more are left out; 0: 1,000, of which more are refused.
    pub limit: u32,
}

impl Search {
    /// The one entry of that DN.
    #[must_use]
    pub fn entry(dn: &str) -> Self {
        Self { base: dn.to_owned(), scope: Scope::Base, ..Self::default() }
    }

    /// The server's own entry, by which it tells what it is.
    #[must_use]
    pub fn root_dse() -> Self {
        Self::entry("")
    }

    /// The entry of that DN, and all below it.
    #[must_use]
    pub fn below(dn: &str, filter: Filter) -> Self {
        Self { base: dn.to_owned(), filter, ..Self::default() }
    }

    /// With these attributes.
    #[must_use]
    pub fn attributes(mut self, names: &[&str]) -> Self {
        self.attributes = names.iter().map(|name| (*name).to_owned()).collect();
        self
    }

    /// No more than so many entries.
    #[must_use]
    pub fn limit(mut self, entries: u32) -> Self {
        self.limit = entries;
        self
    }
}

/// An entry that was found. No `Debug`: what it holds may be a secret.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Entry {
    /// Its DN, as the server spells it.
    pub dn: String,
    /// Names, as the server spells them, and values.
    pub attributes: Vec<(String, Vec<Vec<u8>>)>,
}

impl Entry {
    /// The values of an attribute, whose name has no case; none where it is not there.
    #[must_use]
    pub fn values(&self, attribute: &str) -> &[Vec<u8>] {
        let found = self.attributes.iter().find(|(name, _)| name.eq_ignore_ascii_case(attribute));
        found.map_or(&[], |(_, values)| values)
    }

    /// The only value of an attribute, where it has one that is text.
    #[must_use]
    pub fn text(&self, attribute: &str) -> Option<&str> {
        match self.values(attribute) {
            [value] => std::str::from_utf8(value).ok(),
            _ => None,
        }
    }

    /// The values of an attribute that are text.
    pub fn texts(&self, attribute: &str) -> impl Iterator<Item = &str> {
        self.values(attribute).iter().filter_map(|value| std::str::from_utf8(value).ok())
    }
}

/// One change of an entry. No `Debug`: a value may be a password.
#[derive(Clone, PartialEq, Eq)]
pub enum Change {
    /// More values of an attribute.
    Add(String, Vec<Vec<u8>>),
    /// These values; without values the attribute.
    Delete(String, Vec<Vec<u8>>),
    /// These values instead of all others.
    Replace(String, Vec<Vec<u8>>),
}

impl Change {
    /// This value instead of all others.
    #[must_use]
    pub fn replace(attribute: &str, value: impl Into<Vec<u8>>) -> Self {
        Self::Replace(attribute.to_owned(), vec![value.into()])
    }

    /// The attribute's name, and its values.
    #[must_use]
    pub fn attribute(&self) -> (&str, &[Vec<u8>]) {
        match self {
            Self::Add(name, values) | Self::Delete(name, values) | Self::Replace(name, values) => {
                (name, values)
            }
        }
    }
}

#[cfg(test)]
mod tests;

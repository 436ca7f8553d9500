//! Directories: servers and login, searches, changes, and the meaning of refusals.
//!
//! ```
//! use bulkhead_sdk::ldap::{LdapFault, Filter, Search, LdapTarget};
//! use bulkhead_sdk::{Failure, Host};
//!
//! fn dn_of(host: &dyn Host, target: &LdapTarget, name: &str) -> Result<String, Failure> {
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

pub use fault::{LdapFault, LdapFaultCode};

/// Servers and login. No `Debug`: contains a password.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct LdapTarget {
    /// Servers in order of preference, each `ldap://host:port` or `ldaps://host:port`. The next
    /// server is tried only if no session could be opened with the one before.
    pub urls: Vec<String>,
    /// TLS settings.
    pub tls: LdapTls,
    /// Login name: a DN, or in Active Directory also `user@domain` or `DOMAIN\user`.
    pub bind_dn: String,
    /// Password; never empty if `bind_dn` is set.
    pub password: String,
    /// Maximum time to connect and log in, in milliseconds; 0 means the host's default.
    pub connect_timeout: u32,
    /// Maximum time for each answer, in milliseconds; 0 means the host's default.
    pub request_timeout: u32,
}

impl LdapTarget {
    /// Returns the same servers with another login.
    #[must_use]
    pub fn log_in_as(&self, bind_dn: &str, password: &str) -> Self {
        Self { bind_dn: bind_dn.to_owned(), password: password.to_owned(), ..self.clone() }
    }
}

/// Trust in the server, and the client's certificate. No `Debug`: contains a private key.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct LdapTls {
    /// With `ldap://`: TLS is negotiated before anything else is sent.
    pub starttls: bool,
    /// Accepts any certificate for any name.
    pub insecure: bool,
    /// Trusted roots, PEM. `Some` replaces the public roots.
    pub root_certificates: Option<String>,
    /// Client certificate, PEM; together with `client_key`.
    pub client_certificate: Option<String>,
    /// Private key of `client_certificate`, PEM.
    pub client_key: Option<String>,
    /// Name that the server's certificate must have. `None` means the host of the URL.
    pub server_name: Option<String>,
    /// Lowest TLS version: `tls12`, `tls13`, or empty for the host's default.
    pub min_version: String,
    /// Highest TLS version: `tls12`, `tls13`, or empty for the host's default.
    pub max_version: String,
}

/// Depth of a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SearchScope {
    /// The base entry only.
    Base,
    /// The direct children of the base entry.
    OneLevel,
    /// The base entry and everything below.
    #[default]
    Subtree,
}

/// Conditions on an entry: every group must match, and a group matches if at least one of its
/// conditions does. A value is never parsed as filter syntax.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// AND over groups, OR within a group.
    pub all_of: Vec<Vec<Condition>>,
}

/// A condition on an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Name of the attribute.
    pub attribute: String,
    /// Value to equal, by the server's matching rule. `None`: the attribute must be present.
    pub value: Option<Vec<u8>>,
}

impl Filter {
    /// Matches every entry.
    #[must_use]
    pub fn everything() -> Self {
        Self::default()
    }

    /// Matches entries with an attribute that equals `value`.
    #[must_use]
    pub fn equal(attribute: &str, value: impl AsRef<[u8]>) -> Self {
        Self::default().and_any(&[(attribute, value)])
    }

    /// Matches entries that have the attribute.
    #[must_use]
    pub fn present(attribute: &str) -> Self {
        let condition = Condition { attribute: attribute.to_owned(), value: None };
        Self { all_of: vec![vec![condition]] }
    }

    /// Requires, in addition, that the attribute equals `value`.
    #[must_use]
    pub fn and(self, attribute: &str, value: impl AsRef<[u8]>) -> Self {
        self.and_any(&[(attribute, value)])
    }

    /// Requires, in addition, at least one of `values`.
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

/// A search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Search {
    /// DN of the base entry.
    pub base: String,
    /// Depth of the search.
    pub scope: SearchScope,
    /// Conditions on the entries.
    pub filter: Filter,
    /// Attributes to return; empty: none.
    pub attributes: Vec<String>,
    /// Maximum number of entries; more are left out. 0 means 1,000, and more are an error.
    pub limit: u32,
}

impl Search {
    /// Returns a search for the entry `dn`.
    #[must_use]
    pub fn entry(dn: &str) -> Self {
        Self { base: dn.to_owned(), scope: SearchScope::Base, ..Self::default() }
    }

    /// Returns a search for the root DSE, a server's description of itself.
    #[must_use]
    pub fn root_dse() -> Self {
        Self::entry("")
    }

    /// Returns a search of `dn` and everything below.
    #[must_use]
    pub fn below(dn: &str, filter: Filter) -> Self {
        Self { base: dn.to_owned(), filter, ..Self::default() }
    }

    /// Sets the attributes to return.
    #[must_use]
    pub fn attributes(mut self, names: &[&str]) -> Self {
        self.attributes = names.iter().map(|name| (*name).to_owned()).collect();
        self
    }

    /// Sets the maximum number of entries.
    #[must_use]
    pub fn limit(mut self, entries: u32) -> Self {
        self.limit = entries;
        self
    }
}

/// An entry found by a search. No `Debug`: attributes may be secret.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct LdapEntry {
    /// DN in the server's spelling.
    pub dn: String,
    /// Attribute names in the server's spelling, with their values.
    pub attributes: Vec<(String, Vec<Vec<u8>>)>,
}

impl LdapEntry {
    /// Returns the values of an attribute; none if the entry lacks the attribute. Case in the name
    /// does not matter.
    #[must_use]
    pub fn values(&self, attribute: &str) -> &[Vec<u8>] {
        let found = self.attributes.iter().find(|(name, _)| name.eq_ignore_ascii_case(attribute));
        found.map_or(&[], |(_, values)| values)
    }

    /// Returns the value of an attribute that has exactly one value, and that value is UTF-8.
    #[must_use]
    pub fn text(&self, attribute: &str) -> Option<&str> {
        match self.values(attribute) {
            [value] => std::str::from_utf8(value).ok(),
            _ => None,
        }
    }

    /// Returns the values of an attribute that are UTF-8.
    pub fn texts(&self, attribute: &str) -> impl Iterator<Item = &str> {
        self.values(attribute).iter().filter_map(|value| std::str::from_utf8(value).ok())
    }
}

/// A change of an entry. No `Debug`: a value may be a password.
#[derive(Clone, PartialEq, Eq)]
pub enum AttributeChange {
    /// Adds values to an attribute.
    Add(String, Vec<Vec<u8>>),
    /// Deletes these values of an attribute; without values, the whole attribute.
    Delete(String, Vec<Vec<u8>>),
    /// Replaces all values of an attribute.
    Replace(String, Vec<Vec<u8>>),
}

impl AttributeChange {
    /// Returns a change that replaces all values of the attribute by `value`.
    #[must_use]
    pub fn replace(attribute: &str, value: impl Into<Vec<u8>>) -> Self {
        Self::Replace(attribute.to_owned(), vec![value.into()])
    }

    /// Returns the name of the attribute, and the values.
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

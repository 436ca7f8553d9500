//! Lines that a component asks for or that its entry in the catalog allows: a grant, or an act with
//! any target.

use super::line::{DatabasePlugins, Grant, OutboundProtocol};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A grant, or an act with any target, that a component asks for or that its entry in the catalog
/// allows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum GrantPattern {
    /// Any target of an act.
    Any(AnyTarget),
    /// A single grant.
    Of(Grant),
}

/// An act that a component may ask for without a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnyTarget {
    /// `http`.
    Http,
    /// `sql`.
    Sql,
    /// `ldap`.
    Ldap,
    /// `database`.
    Database,
}

const TARGETLESS: [(AnyTarget, &str); 4] = [
    (AnyTarget::Http, "http"),
    (AnyTarget::Sql, "sql"),
    (AnyTarget::Ldap, "ldap"),
    (AnyTarget::Database, "database"),
];

impl GrantPattern {
    /// Returns the grant, if the ask has a target.
    #[must_use]
    pub fn grant(&self) -> Option<&Grant> {
        match self {
            Self::Of(grant) => Some(grant),
            Self::Any(_) => None,
        }
    }

    /// Returns whether the ask covers the target.
    pub(super) fn covers(&self, wanted: &Grant) -> bool {
        match self {
            Self::Of(grant) => grant.covers(wanted),
            Self::Any(act) => matches!(
                (act, wanted),
                (AnyTarget::Http, Grant::Http { .. } | Grant::Anywhere(OutboundProtocol::Http))
                    | (AnyTarget::Sql, Grant::Sql { .. })
                    | (
                        AnyTarget::Ldap,
                        Grant::Ldap { .. } | Grant::Anywhere(OutboundProtocol::Ldap)
                    )
                    | (AnyTarget::Database, Grant::Database(_))
            ),
        }
    }

    /// Returns the grant of a mount whose operator set no grants. There is no such grant for `sql`:
    /// a connection must name each server.
    #[must_use]
    pub fn as_grant(&self) -> Option<Grant> {
        match self {
            Self::Of(grant) => Some(grant.clone()),
            Self::Any(AnyTarget::Database) => Some(Grant::Database(DatabasePlugins::Any)),
            Self::Any(AnyTarget::Http) => Some(Grant::Anywhere(OutboundProtocol::Http)),
            Self::Any(AnyTarget::Ldap) => Some(Grant::Anywhere(OutboundProtocol::Ldap)),
            Self::Any(AnyTarget::Sql) => None,
        }
    }
}

impl TryFrom<String> for GrantPattern {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<GrantPattern> for String {
    fn from(ask: GrantPattern) -> Self {
        ask.to_string()
    }
}

impl fmt::Display for GrantPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any(act) => {
                let named = TARGETLESS.iter().find(|(candidate, _)| candidate == act);
                f.write_str(named.map_or("", |(_, word)| word))
            }
            Self::Of(grant) => grant.fmt(f),
        }
    }
}

impl FromStr for GrantPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match TARGETLESS.iter().find(|(_, word)| *word == text) {
            Some((act, _)) => Ok(Self::Any(*act)),
            None => text.parse().map(Self::Of),
        }
    }
}

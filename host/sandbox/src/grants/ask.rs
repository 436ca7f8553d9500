//! What a component asks for, and what its entry in the catalog allows: a grant, or an act with its
//! target left open.

use super::line::{DatabasePlugins, Grant, Outward};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// What a component asks for, or what its entry in the catalog allows at most: a grant, or an act
/// for any target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Ask {
    /// Any target of that act.
    Any(AnyTarget),
    /// That grant.
    Of(Grant),
}

/// An act that may be asked for without a target.
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

impl Ask {
    /// The grant, where it has a target.
    #[must_use]
    pub fn grant(&self) -> Option<&Grant> {
        match self {
            Self::Of(grant) => Some(grant),
            Self::Any(_) => None,
        }
    }

    /// Whether that target is among what it is for.
    pub(super) fn covers(&self, wanted: &Grant) -> bool {
        match self {
            Self::Of(grant) => grant.covers(wanted),
            Self::Any(act) => matches!(
                (act, wanted),
                (AnyTarget::Http, Grant::Http { .. } | Grant::Anywhere(Outward::Http))
                    | (AnyTarget::Sql, Grant::Sql { .. })
                    | (AnyTarget::Ldap, Grant::Ldap { .. } | Grant::Anywhere(Outward::Ldap))
                    | (AnyTarget::Database, Grant::Database(_))
            ),
        }
    }

    /// What a mount that says nothing of its own is granted of it, as a line. `sql` has none: what
    /// is dialled must be named by a connection.
    #[must_use]
    pub fn as_grant(&self) -> Option<Grant> {
        match self {
            Self::Of(grant) => Some(grant.clone()),
            Self::Any(AnyTarget::Database) => Some(Grant::Database(DatabasePlugins::Any)),
            Self::Any(AnyTarget::Http) => Some(Grant::Anywhere(Outward::Http)),
            Self::Any(AnyTarget::Ldap) => Some(Grant::Anywhere(Outward::Ldap)),
            Self::Any(AnyTarget::Sql) => None,
        }
    }
}

impl TryFrom<String> for Ask {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Ask> for String {
    fn from(ask: Ask) -> Self {
        ask.to_string()
    }
}

impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any(act) => {
                let named = TARGETLESS.iter().find(|(known, _)| known == act);
                f.write_str(named.map_or("", |(_, word)| word))
            }
            Self::Of(grant) => grant.fmt(f),
        }
    }
}

impl FromStr for Ask {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match TARGETLESS.iter().find(|(_, word)| *word == text) {
            Some((act, _)) => Ok(Self::Any(*act)),
            None => text.parse().map(Self::Of),
        }
    }
}

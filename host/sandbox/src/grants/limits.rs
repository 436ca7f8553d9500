//! The limits that a mount has by its lines, and which of several lines holds.
//!
//! A mount's line counts before what its component asks for, that before the default; the catalog's
//! ceiling, and the most that the server grants at all, are above all of them.

use super::Grants;
use super::ask::{AnyTarget, Ask};
use super::line::Grant;
use super::rights::{Maker, Rights};
use crate::limits::{LimitLine, LimitWord, Limits, UNBOUNDED};
use bulkhead_store::StoredLimit;

impl Limits {
    /// The limits of a mount whose lines are `rights`. A component that a caller brought raises
    /// nothing above the default by asking for it: the catalog's entry, or where that has no
    /// ceiling the mount, has to allow it.
    #[must_use]
    pub fn of(rights: &Rights<'_>) -> Self {
        let mut limits = Self::default();
        for word in LimitWord::all() {
            let (usual, most) = (word.get(&limits), word.get(&Self::CEILING));
            let line = |asks: &[Ask]| asks.iter().find_map(|ask| value_in(ask.grant()?, word));
            let unsaid = if rights.maker == Maker::Official { most } else { usual };
            let ceiling = rights.ceiling.map(|ceiling| line(ceiling).unwrap_or(unsaid));
            let granted = rights.granted.unwrap_or_default();
            let granted = granted.iter().find_map(|grant| value_in(grant, word));
            let value = match (granted, line(rights.asked)) {
                (Some(granted), _) => granted.min(ceiling.unwrap_or(most)),
                (None, Some(asked)) => asked.min(ceiling.unwrap_or(unsaid)),
                (None, None) => usual.min(ceiling.unwrap_or(UNBOUNDED)),
            };
            word.set(&mut limits, value);
        }
        limits
    }

    /// Returns the limit of stored bytes of the mount of those grants, plus `more` bytes, with the
    /// command that raises the limit.
    #[must_use]
    pub fn stored(&self, grants: &Grants, mount: &str, more: u64) -> StoredLimit {
        let raised = self.raised("stored").and_then(|line| grants.command(&line));
        let raised = raised.map(|command| format!(", or allow more: {command}"));
        StoredLimit {
            mount: mount.to_owned(),
            most: self.stored_bytes.saturating_add(more),
            name: grants.mount.to_string(),
            remedy: format!("delete what is not needed{}", raised.unwrap_or_default()),
        }
    }

    /// The line that doubles the limit of that name; `None` where the server grants no more, and of
    /// what no line sets.
    pub(crate) fn raised(&self, name: &str) -> Option<Grant> {
        let word = LimitWord::named(name)?;
        let (value, most) = (word.get(self), word.get(&Self::CEILING));
        let doubled = LimitLine::new(word, value.saturating_mul(2).min(most));
        (value < most).then_some(Grant::Limit(doubled))
    }
}

impl Grant {
    /// Whether it is a deadline within which no effect could begin, so that what reaches outside
    /// could neither be made nor revoked.
    #[must_use]
    pub fn hinders_effects(&self) -> bool {
        let seconds = value_in(self, LimitWord::Deadline);
        seconds.is_some_and(|seconds| seconds < Limits::LEAST_EFFECTFUL.as_secs())
    }

    /// Whether it allows acts whose effects are outside of the mount.
    #[must_use]
    pub fn reaches_outside(&self) -> bool {
        matches!(
            self,
            Self::Http { .. }
                | Self::Sql { .. }
                | Self::Ldap { .. }
                | Self::Anywhere(_)
                | Self::Database(_)
        )
    }
}

impl Ask {
    /// As [`Grant::reaches_outside`].
    #[must_use]
    pub fn reaches_outside(&self) -> bool {
        match self {
            Self::Any(AnyTarget::Http | AnyTarget::Sql | AnyTarget::Ldap | AnyTarget::Database) => {
                true
            }
            Self::Of(grant) => grant.reaches_outside(),
        }
    }
}

/// What a ceiling of those lines allows of the limit of `line`: of one that it does not name, the
/// default.
pub(super) fn most_below(ceiling: &[Ask], line: &LimitLine) -> LimitLine {
    let word = line.word();
    let named = ceiling.iter().find_map(|ask| value_in(ask.grant()?, word));
    LimitLine::new(word, named.unwrap_or_else(|| word.get(&Limits::default())))
}

/// What `grant` sets the limit to.
fn value_in(grant: &Grant, word: LimitWord) -> Option<u64> {
    match grant {
        Grant::Limit(line) => line.value_of(word),
        _ => None,
    }
}

#[cfg(test)]
mod tests;

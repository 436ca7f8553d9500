//! The limits of a mount, computed from its lines.
//!
//! A mount's line takes precedence over the component's ask, and the ask over the default. The
//! catalog's ceiling and the server's own maximum bound the result.

use super::Grants;
use super::ask::{AnyTarget, GrantPattern};
use super::line::Grant;
use super::rights::{GrantLayers, Publisher};
use crate::limits::{LimitLine, LimitWord, MountLimits, UNBOUNDED};
use bulkhead_store::StoredLimit;

impl MountLimits {
    /// Computes the limits of a mount with the lines `rights`. An uploaded component cannot raise a
    /// limit above the default by asking for more: the catalog's entry must allow the limit or,
    /// without a ceiling in the catalog, the mount must grant the limit.
    #[must_use]
    pub fn of(rights: &GrantLayers<'_>) -> Self {
        let mut limits = Self::default();
        for word in LimitWord::all() {
            let (usual, most) = (word.get(&limits), word.get(&Self::CEILING));
            let line =
                |asks: &[GrantPattern]| asks.iter().find_map(|ask| value_in(ask.grant()?, word));
            let unsaid = if rights.maker == Publisher::Official { most } else { usual };
            let ceiling = rights.ceiling.map(|ceiling| line(ceiling).unwrap_or(unsaid));
            let granted = rights.granted.unwrap_or_default();
            let granted = granted.iter().find_map(|grant| value_in(grant, word));
            let value = match (granted, line(rights.asked)) {
                (Some(granted), _) => granted.min(ceiling.unwrap_or(most)),
                (None, Some(ask)) => ask.min(ceiling.unwrap_or(unsaid)),
                (None, None) => usual.min(ceiling.unwrap_or(UNBOUNDED)),
            };
            word.set(&mut limits, value);
        }
        limits
    }

    /// Returns the limit of a mount's stored bytes, plus `more` bytes, with the command that raises
    /// the limit. `grants` are the grants of the mount.
    #[must_use]
    pub fn stored(&self, grants: &Grants, mount: &str, more: u64) -> StoredLimit {
        let raised = self.raised_limit("stored").and_then(|line| grants.command(&line));
        let raised = raised.map(|command| format!(", or allow more: {command}"));
        StoredLimit {
            counter: mount.to_owned(),
            most: self.stored_bytes.saturating_add(more),
            name: format!("mount {}", grants.mount),
            remedy: format!("delete what is not needed{}", raised.unwrap_or_default()),
        }
    }

    /// Returns the line that doubles the named limit, up to the server's maximum. `None`: the limit
    /// is at the maximum, or no line sets a limit of that name.
    pub(crate) fn raised_limit(&self, name: &str) -> Option<Grant> {
        let word = LimitWord::named(name)?;
        let (value, most) = (word.get(self), word.get(&Self::CEILING));
        let doubled = LimitLine::new(word, value.saturating_mul(2).min(most));
        (value < most).then_some(Grant::Limit(doubled))
    }
}

impl Grant {
    /// Returns whether the grant is a deadline too short to begin an effect. The mount could then
    /// neither create nor revoke anything outside.
    #[must_use]
    pub fn prevents_effects(&self) -> bool {
        let seconds = value_in(self, LimitWord::Deadline);
        seconds.is_some_and(|seconds| seconds < MountLimits::LEAST_EFFECTFUL.as_secs())
    }

    /// Returns whether the grant allows acts with effects outside the mount.
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

impl GrantPattern {
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

/// Returns the value that a ceiling allows for the limit of `line`: the ceiling's own value, or the
/// default.
pub(super) fn ceiling_limit(ceiling: &[GrantPattern], line: &LimitLine) -> LimitLine {
    let word = line.word();
    let named = ceiling.iter().find_map(|ask| value_in(ask.grant()?, word));
    LimitLine::new(word, named.unwrap_or_else(|| word.get(&MountLimits::default())))
}

/// Returns the value of the limit `word` if `grant` sets that limit.
fn value_in(grant: &Grant, word: LimitWord) -> Option<u64> {
    match grant {
        Grant::Limit(line) => line.value_of(word),
        _ => None,
    }
}

#[cfg(test)]
mod tests;

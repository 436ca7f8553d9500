//! Proofs: external groups and alias metadata, as the login of a token established them.
//!
//! This file prevents a token from using rights that another login proved. An auth method may give
//! several callers the same alias (for example, a common alias for all logins by a role), which
//! gives these callers the same entity. Each token therefore keeps its own [`LoginProof`]. The
//! entity's record describes the latest login only.

use super::alias::{Alias, ProvenGroups};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Facts that the login of a token proved. The facts count for this token and its descendants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoginProof {
    /// Accessor of the mount of the login.
    accessor: String,
    /// Id of the alias.
    alias: String,
    /// Name that the alias had at the login.
    name: String,
    /// Metadata of the alias.
    metadata: BTreeMap<String, String>,
    /// `None` if the login did not name groups.
    groups: Option<ProvenGroups>,
}

impl LoginProof {
    /// Returns the proof of a login by `alias`.
    pub(super) fn of(
        alias: &Alias,
        metadata: BTreeMap<String, String>,
        groups: Option<ProvenGroups>,
    ) -> Self {
        let Alias { id, name, mount, .. } = alias;
        let accessor = mount.accessor.clone();
        Self { accessor, alias: id.clone(), name: name.clone(), metadata, groups }
    }

    /// Keeps the groups of an `earlier` proof of the same alias if this proof does not name groups.
    pub(crate) fn keep_groups_of(self, earlier: Option<&Self>) -> Self {
        let is_same = |earlier: &&Self| earlier.alias == self.alias && earlier.name == self.name;
        let earlier_groups = earlier.filter(is_same).and_then(|earlier| earlier.groups.clone());
        Self { groups: self.groups.or(earlier_groups), ..self }
    }

    fn is_of(&self, alias: &Alias) -> bool {
        alias.id == self.alias && alias.is(&self.accessor, &self.name)
    }
}

/// The part of an alias that counts for a token.
pub(super) struct EffectiveAlias<'a> {
    pub(super) metadata: &'a BTreeMap<String, String>,
    /// `None` if no groups are known.
    pub(super) groups: Option<&'a ProvenGroups>,
}

/// Selects the facts about `alias` that count for a token with the proof `own`.
///
/// At the mount of the token's login only `own` counts, as long as the alias has the id and name
/// that were proven. At every other mount the latest login counts. A token without a proof was made
/// by an earlier release; no alias counts for such a token until its renewal.
pub(super) fn effective_alias<'a>(
    alias: &'a Alias,
    own: Option<&'a LoginProof>,
) -> Option<EffectiveAlias<'a>> {
    let own = own?;
    if own.is_of(alias) {
        return Some(EffectiveAlias { metadata: &own.metadata, groups: own.groups.as_ref() });
    }
    let is_elsewhere = alias.mount.accessor != own.accessor;
    is_elsewhere
        .then_some(EffectiveAlias { metadata: &alias.metadata, groups: Some(&alias.groups) })
}

#[cfg(test)]
mod tests;

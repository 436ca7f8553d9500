//! What all rules for one pattern say together, whichever policies they come from.
//!
//! The attack this file stops: a second policy that loosens what the first one forbids. `deny`
//! anywhere wipes everything that the others grant for its pattern, and so do bounds that no
//! request can meet.

use super::super::capability::Capability;
use super::super::constraints::Constraints;
use super::super::parse::Rule;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The answer for every path on which this pattern is the closest.
#[derive(Debug, Default)]
pub(super) struct Access {
    /// What is granted, and the names of the policies that grant it.
    granting: BTreeMap<Capability, Arc<[Arc<str>]>>,
    /// What is granted, as words in alphabetical order.
    pub(super) words: Arc<[String]>,
    /// What the rules say about parameters.
    pub(super) constraints: Constraints,
    /// A rule bounds the time that the response is wrapped for, so it must be wrapped.
    pub(super) wrapped_only: bool,
    /// A rule says `deny`, or the rules together say what no request can meet.
    pub(super) denies: bool,
}

impl Access {
    /// Denies everything.
    pub(super) fn denial() -> Self {
        Self { denies: true, ..Self::default() }
    }

    /// The policies that grant `capability`; `None` if none does.
    pub(super) fn granting(&self, capability: Capability) -> Option<&Arc<[Arc<str>]>> {
        self.granting.get(&capability)
    }

    /// Whether anything is granted.
    pub(super) fn allows(&self) -> bool {
        !self.words.is_empty()
    }

    /// Whether `capability` is granted.
    pub(super) fn holds(&self, capability: Capability) -> bool {
        self.granting.contains_key(&capability)
    }
}

/// An [`Access`] while rules are still being added to it, in any order.
#[derive(Default)]
pub(super) struct Joined {
    granting: BTreeMap<Capability, Vec<Arc<str>>>,
    constraints: Constraints,
    /// Seconds; 0 while no rule sets it.
    min_wrapping_ttl: u64,
    /// Seconds; 0 while no rule sets it.
    max_wrapping_ttl: u64,
    denies: bool,
}

impl Joined {
    /// Adds what a rule of `policy` says.
    pub(super) fn add(&mut self, policy: &Arc<str>, rule: &Rule) {
        for capability in &rule.capabilities {
            let policies = self.granting.entry(*capability).or_default();
            if !policies.contains(policy) {
                policies.push(Arc::clone(policy));
            }
        }
        self.denies |= rule.capabilities.contains(&Capability::Deny);
        self.constraints.merge(&rule.constraints);
        self.min_wrapping_ttl = smallest_set(self.min_wrapping_ttl, rule.min_wrapping_ttl);
        self.max_wrapping_ttl = smallest_set(self.max_wrapping_ttl, rule.max_wrapping_ttl);
    }

    /// What the rules say, now that all are known.
    pub(super) fn finish(self) -> Access {
        let impossible =
            self.max_wrapping_ttl != 0 && self.max_wrapping_ttl < self.min_wrapping_ttl;
        if self.denies || impossible {
            return Access::denial();
        }
        let effective = self.granting.keys().filter(|capability| capability.has_effect());
        Access {
            words: effective.map(|capability| capability.word().to_owned()).collect(),
            granting: self
                .granting
                .into_iter()
                .map(|(capability, policies)| (capability, policies.into()))
                .collect(),
            constraints: self.constraints,
            wrapped_only: self.min_wrapping_ttl != 0 || self.max_wrapping_ttl != 0,
            denies: false,
        }
    }
}

/// The smaller of two durations of which 0 means "not set".
fn smallest_set(one: u64, other: u64) -> u64 {
    if one == 0 || other == 0 { one.max(other) } else { one.min(other) }
}

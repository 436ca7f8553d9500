//! The combined answer of all rules for the same pattern, from any number of policies.
//!
//! Prevents a second policy from loosening a restriction of the first. A `deny` in any rule removes
//! every grant for the pattern, and so do wrapping bounds that no request can meet.

use super::super::capability::Capability;
use super::super::constraints::Constraints;
use super::super::parse::Rule;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The answer for every path that has this pattern as its closest pattern.
#[derive(Debug, Default)]
pub(super) struct Access {
    /// The granted capabilities, each with the names of the policies that grant the capability.
    granting: BTreeMap<Capability, Arc<[Arc<str>]>>,
    /// The granted capabilities as words, in alphabetical order.
    pub(super) words: Arc<[String]>,
    /// The rules' restrictions on parameters.
    pub(super) constraints: Constraints,
    /// True if a rule bounds the response-wrapping TTL, so that only a wrapped response is allowed.
    pub(super) wrapped_only: bool,
    /// True if a rule says `deny`, or if the wrapping bounds contradict each other.
    pub(super) denies: bool,
}

impl Access {
    /// Returns an access that denies everything.
    pub(super) fn denial() -> Self {
        Self { denies: true, ..Self::default() }
    }

    /// Returns the policies that grant `capability`; `None` if no policy does.
    pub(super) fn granting(&self, capability: Capability) -> Option<&Arc<[Arc<str>]>> {
        self.granting.get(&capability)
    }

    /// Returns the capabilities as words; `deny` alone if the access denies everything.
    pub(super) fn shown(&self) -> Vec<String> {
        if self.denies { vec![Capability::Deny.word().to_owned()] } else { self.words.to_vec() }
    }

    /// Returns true if any capability is granted.
    pub(super) fn allows(&self) -> bool {
        !self.words.is_empty()
    }

    /// Returns true if `capability` is granted.
    pub(super) fn holds(&self, capability: Capability) -> bool {
        self.granting.contains_key(&capability)
    }
}

/// An [`Access`] under construction; rules may be added in any order.
#[derive(Default)]
pub(super) struct Joined {
    granting: BTreeMap<Capability, Vec<Arc<str>>>,
    constraints: Constraints,
    /// Seconds; 0 while no rule sets a minimum.
    min_wrapping_ttl: u64,
    /// Seconds; 0 while no rule sets a maximum.
    max_wrapping_ttl: u64,
    denies: bool,
}

impl Joined {
    /// Adds a rule of `policy`.
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

    /// Returns the finished access after all rules were added.
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

/// Returns the smaller of two durations; 0 means "not set".
fn smallest_set(one: u64, other: u64) -> u64 {
    if one == 0 || other == 0 { one.max(other) } else { one.min(other) }
}

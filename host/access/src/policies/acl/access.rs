//! The combined answer of all rules for the same pattern, from any number of policies.
//!
//! This file prevents a second policy from loosening a restriction of the first. A `deny` in any
//! rule removes every grant for the pattern, and so do wrapping bounds that no request can meet.

use super::super::capability::Capability;
use super::super::constraints::ParameterConstraints;
use super::super::parse::Rule;
use bulkhead_wire::duration;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The answer for every path that has this pattern as its closest pattern.
#[derive(Debug, Default)]
pub(super) struct CombinedAccess {
    /// The granted capabilities, each with the names of the policies that grant the capability.
    granting: BTreeMap<Capability, Arc<[Arc<str>]>>,
    /// The granted capabilities as words, in alphabetical order.
    pub(super) words: Arc<[String]>,
    /// The rules' restrictions on parameters.
    pub(super) constraints: ParameterConstraints,
    /// The rules' bounds on response wrapping.
    pub(super) wrapping: WrappingBounds,
    /// True if a rule says `deny`, or if the wrapping bounds contradict each other.
    pub(super) denies: bool,
}

impl CombinedAccess {
    /// Returns an access that denies everything.
    pub(super) fn deny_all() -> Self {
        Self { denies: true, ..Self::default() }
    }

    /// Returns the policies that grant `capability`; `None` if no policy does.
    pub(super) fn granting_policies(&self, capability: Capability) -> Option<&Arc<[Arc<str>]>> {
        self.granting.get(&capability)
    }

    /// Returns the capabilities as words; `deny` alone if the access denies everything.
    pub(super) fn capability_words(&self) -> Vec<String> {
        if self.denies { vec![Capability::Deny.word().to_owned()] } else { self.words.to_vec() }
    }

    /// Returns true if any capability is granted.
    pub(super) fn allows(&self) -> bool {
        !self.words.is_empty()
    }

    /// Returns true if `capability` is granted.
    pub(super) fn has_capability(&self, capability: Capability) -> bool {
        self.granting.contains_key(&capability)
    }
}

/// Bounds on the lifetime of wrapping tokens, in seconds; 0 while no rule sets the bound. With a
/// bound, only a wrapped response is allowed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WrappingBounds {
    min: u64,
    max: u64,
}

impl WrappingBounds {
    /// Checks the requested lifetime.
    ///
    /// # Errors
    /// The end of the sentence of the refusal.
    pub(super) fn check(self, wrap_ttl: Option<u64>) -> Result<(), String> {
        let Self { min, max } = self;
        let why = match wrap_ttl {
            None if min != 0 || max != 0 => "unless the response is wrapped".to_owned(),
            Some(ttl) if ttl < min => {
                format!("with a wrapping time shorter than {}", duration::show(min))
            }
            Some(ttl) if max != 0 && ttl > max => {
                format!("with a wrapping time longer than {}", duration::show(max))
            }
            _ => return Ok(()),
        };
        Err(format!("{why}; send X-Vault-Wrap-TTL with {}", self.allowed()))
    }

    /// Describes the lifetimes that the bounds allow.
    fn allowed(self) -> String {
        match (self.min, self.max) {
            (min, 0) => format!("{} or more", duration::show(min)),
            (0, max) => format!("{} or less", duration::show(max)),
            (min, max) => format!("{} to {}", duration::show(min), duration::show(max)),
        }
    }
}

/// A [`CombinedAccess`] under construction; rules may be added in any order.
#[derive(Default)]
pub(super) struct AccessBuilder {
    granting: BTreeMap<Capability, Vec<Arc<str>>>,
    constraints: ParameterConstraints,
    wrapping: WrappingBounds,
    denies: bool,
}

impl AccessBuilder {
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
        self.wrapping.min = smallest_set(self.wrapping.min, rule.min_wrapping_ttl);
        self.wrapping.max = smallest_set(self.wrapping.max, rule.max_wrapping_ttl);
    }

    /// Returns the finished access after all rules were added.
    pub(super) fn finish(self) -> CombinedAccess {
        let WrappingBounds { min, max } = self.wrapping;
        let impossible = max != 0 && max < min;
        if self.denies || impossible {
            return CombinedAccess::deny_all();
        }
        let effective = self.granting.keys().filter(|capability| capability.has_effect());
        CombinedAccess {
            words: effective.map(|capability| capability.word().to_owned()).collect(),
            granting: self
                .granting
                .into_iter()
                .map(|(capability, policies)| (capability, policies.into()))
                .collect(),
            constraints: self.constraints,
            wrapping: self.wrapping,
            denies: false,
        }
    }
}

/// Returns the smaller of two durations; 0 means "not set".
fn smallest_set(one: u64, other: u64) -> u64 {
    if one == 0 || other == 0 { one.max(other) } else { one.min(other) }
}

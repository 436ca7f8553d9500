//! A token's policies as one decision: may it do this, on this path, with these parameters?
//!
//! The attack this file stops: asking about things instead of doing them. A refusal says what the token may not do
//! and never whether the path exists (decision P11): whoever may neither create nor update is always told that they
//! may not update, whichever it would have been.

use super::capability::Capability;
use super::constraints::Constraints;
use super::parse::{Policy, Rule};
use super::pattern::Pattern;
use bulkhead_wire::description::{Field, Operation};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Everything that a token's policies say.
#[derive(Debug)]
pub struct Acl {
    held: Held,
}

#[derive(Debug)]
enum Held {
    /// The root policy.
    Everything,
    Rules(Rules),
}

/// What a caller wants to do.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// Canonical: no slash at either end, for LIST too.
    pub path: &'a str,
    /// A write is already told apart into create and update.
    pub operation: Operation,
    /// The endpoint needs `sudo` besides the ordinary capability.
    pub sudo: bool,
    /// Body or query fields, without what the path captured: policies speak of parameters, not of paths.
    pub fields: &'a Map<String, Value>,
    /// The fields that the endpoint knows, by which names in policies are folded. Empty if it declares none.
    pub schema: &'a [Field],
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Yes, and all that the token may do on this path, as words in alphabetical order.
    Granted {
        /// `["root"]` for the root policy.
        capabilities: Vec<String>,
    },
    /// No, and the sentence for the caller.
    Denied(String),
}

impl Acl {
    /// What `policies` say together. Without a rule, nothing is allowed.
    pub fn new<'a>(policies: impl IntoIterator<Item = &'a Policy>) -> Self {
        let mut merged: BTreeMap<Pattern, Access> = BTreeMap::new();
        for rule in policies.into_iter().flat_map(|policy| &policy.rules) {
            let access = Access::of(rule);
            match merged.get_mut(&rule.pattern) {
                Some(known) => known.merge(access),
                None => {
                    merged.insert(rule.pattern.clone(), access);
                }
            }
        }
        Self { held: Held::Rules(Rules::of(merged)) }
    }

    /// The root policy: everything is allowed.
    #[must_use]
    pub fn root() -> Self {
        Self { held: Held::Everything }
    }

    /// Answers one request.
    #[must_use]
    pub fn check(&self, question: &Question<'_>) -> Verdict {
        let rules = match &self.held {
            Held::Everything => {
                return Verdict::Granted { capabilities: vec![super::ROOT.to_owned()] };
            }
            Held::Rules(rules) => rules,
        };
        let access = match question.operation {
            Operation::List => rules.access_to_list(question.path),
            _ => rules.access_to(question.path),
        };
        match judge(access, question) {
            Ok(capabilities) => Verdict::Granted { capabilities },
            Err(why) => Verdict::Denied(why),
        }
    }

    /// What the token may do on a path, as people ask it: `["root"]`, `["deny"]`, or words in alphabetical order.
    ///
    /// `path` is taken as written, but for a `/` in front: `roles/` asks for the rules of listing, `roles` does not.
    #[must_use]
    pub fn capabilities(&self, path: &str) -> Vec<String> {
        let rules = match &self.held {
            Held::Everything => return vec![super::ROOT.to_owned()],
            Held::Rules(rules) => rules,
        };
        let words = rules.access_to(path.trim_start_matches('/')).map(Access::words).unwrap_or_default();
        if words.is_empty() { vec![Capability::Deny.word().to_owned()] } else { words }
    }
}

/// Rules by how they are found: those for one path by that path, the others from the closest to the loosest.
#[derive(Debug)]
struct Rules {
    exact: HashMap<String, Access>,
    ranked: Vec<(Pattern, Access)>,
}

impl Rules {
    fn of(merged: BTreeMap<Pattern, Access>) -> Self {
        // From the closest to the loosest, so that the first that matches is the one that counts.
        let (exact, ranked): (Vec<_>, Vec<_>) = merged.into_iter().rev().partition(|(pattern, _)| pattern.is_exact());
        Self { exact: exact.into_iter().map(|(pattern, access)| (pattern.into_body(), access)).collect(), ranked }
    }

    fn access_to(&self, path: &str) -> Option<&Access> {
        self.exact.get(path).or_else(|| self.closest(path))
    }

    /// A list speaks of the folder, `roles/`; rules that name it without its slash count where none names it with.
    fn access_to_list(&self, path: &str) -> Option<&Access> {
        let folder = format!("{path}/");
        let exact = self.exact.get(&folder).or_else(|| self.exact.get(path));
        exact.or_else(|| self.closest(&folder)).or_else(|| self.closest(path))
    }

    fn closest(&self, path: &str) -> Option<&Access> {
        self.ranked.iter().find(|(pattern, _)| pattern.matches(path)).map(|(_, access)| access)
    }
}

/// What all rules for one pattern say together.
#[derive(Debug, Default)]
struct Access {
    capabilities: BTreeSet<Capability>,
    constraints: Constraints,
    /// A rule bounds the time that the response is wrapped for, so it must be wrapped.
    wrapped_only: bool,
}

impl Access {
    fn of(rule: &Rule) -> Self {
        if rule.capabilities.contains(&Capability::Deny) {
            return Self::nothing();
        }
        Self {
            capabilities: rule.capabilities.clone(),
            constraints: rule.constraints.clone(),
            wrapped_only: rule.min_wrapping_ttl != 0 || rule.max_wrapping_ttl != 0,
        }
    }

    fn nothing() -> Self {
        Self { capabilities: BTreeSet::from([Capability::Deny]), ..Self::default() }
    }

    fn merge(&mut self, other: Self) {
        if self.holds(Capability::Deny) || other.holds(Capability::Deny) {
            *self = Self::nothing();
            return;
        }
        self.constraints.merge(&other.constraints);
        self.capabilities.extend(other.capabilities);
        self.wrapped_only |= other.wrapped_only;
    }

    fn holds(&self, capability: Capability) -> bool {
        self.capabilities.contains(&capability)
    }

    fn words(&self) -> Vec<String> {
        self.capabilities.iter().filter(|c| c.has_effect()).map(|c| c.word().to_owned()).collect()
    }
}

/// The capabilities on the path if `question` is granted.
///
/// # Errors
/// The sentence for the caller.
fn judge(access: Option<&Access>, question: &Question<'_>) -> Result<Vec<String>, String> {
    let nothing = Access::nothing();
    let access = access.unwrap_or(&nothing);
    let refused = |why: &str| {
        let act = format!("this token may not {} {}", told(access, question.operation), question.path);
        if why.is_empty() { act } else { format!("{act} {why}") }
    };
    if !access.holds(needed(question.operation)) {
        return Err(refused(""));
    }
    if question.sudo && !access.holds(Capability::Sudo) {
        return Err(refused("without sudo; its policy needs that capability for this path too"));
    }
    if access.wrapped_only {
        return Err(refused("unless the response is wrapped, which this build cannot do"));
    }
    if has_parameters(question.operation) {
        access.constraints.check(question.fields, question.schema).map_err(|why| refused(&why))?;
    }
    Ok(access.words())
}

fn needed(operation: Operation) -> Capability {
    match operation {
        Operation::Create => Capability::Create,
        Operation::Read => Capability::Read,
        Operation::Update => Capability::Update,
        Operation::Patch => Capability::Patch,
        Operation::Delete => Capability::Delete,
        Operation::List => Capability::List,
    }
}

fn has_parameters(operation: Operation) -> bool {
    !matches!(operation, Operation::List | Operation::Delete)
}

/// The word for a refused operation. That a write would have created is told only to those who may write at all.
fn told(access: &Access, operation: Operation) -> &'static str {
    let may_write = access.holds(Capability::Create) || access.holds(Capability::Update);
    match operation {
        Operation::Create if !may_write => Operation::Update.word(),
        other => other.word(),
    }
}

#[cfg(test)]
mod tests;

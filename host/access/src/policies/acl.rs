//! Access decision: may a token with these policies do this, on this path, with these parameters?
//!
//! Prevents a caller from learning about objects through refusals. A refusal names the denied
//! action and never says whether the path exists (decision P11): a caller without `create` and
//! `update` is always told that the token may not update, even if the write would have created the
//! object.

mod access;
mod rules;

use super::capability::Capability;
use super::identity::Identity;
use super::parse::Policy;
use super::pattern::Pattern;
use super::spelling;
use super::template::Unresolved;
use crate::log::Cause;
use access::{Access, Joined};
use bulkhead_wire::description::{Field, Operation};
use rules::{Denial, Rules, Ruling};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The rules of all policies of a token.
#[derive(Debug)]
pub struct Acl {
    held: Held,
}

#[derive(Debug)]
enum Held {
    /// The root policy: every question gets the same answer.
    Everything(Granted),
    Rules(Rules),
}

/// The action that a caller requests.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// Canonical path: no slash at either end, also for LIST.
    pub path: &'a str,
    /// The operation. A write is already classified as create or update.
    pub operation: Operation,
    /// True if the endpoint needs `sudo` in addition to the ordinary capability.
    pub sudo: bool,
    /// Requested lifetime of the wrapping token, in seconds; `None` if the answer is not to be
    /// wrapped.
    pub wrap_ttl: Option<u64>,
    /// Body or query fields without the values captured from the path: policies restrict
    /// parameters, not path segments.
    pub fields: &'a Map<String, Value>,
    /// The endpoint's declared fields, used to resolve parameter names in policies. Empty if the
    /// endpoint declares no fields.
    pub schema: &'a [Field],
}

/// The answer to a [`Question`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The action is allowed.
    Granted(Granted),
    /// The action is denied; the text is the sentence for the caller.
    Denied(String),
}

/// The capabilities granted, and the policies that grant them. Shared with the [`Acl`], so that an
/// answer copies nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Granted {
    /// All capabilities of the token on this path, in alphabetical order; `["root"]` for the root
    /// policy.
    pub capabilities: Arc<[String]>,
    /// Names of the policies that grant the requested action, in the token's order.
    pub policies: Arc<[Arc<str>]>,
}

/// Rules by their paths, each with the capabilities of its closest policies.
#[derive(Debug)]
pub struct ListedRules {
    /// Paths without wildcards.
    pub exact: BTreeMap<String, Vec<String>>,
    /// Patterns with wildcards, without a `*` at the end.
    pub patterns: BTreeMap<String, Vec<String>>,
}

/// A rule that is skipped for a caller because the caller's value must not stand in a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// The policy that contains the rule.
    pub policy: String,
    /// The attribute and the fault of its value. The value itself is not shown.
    pub why: String,
}

impl Cause for Skipped {
    fn words(&self) -> String {
        self.why.clone()
    }
}

impl Acl {
    /// Combines `policies` for a caller without an entity. Everything that no rule grants is
    /// denied.
    pub fn new<'a>(policies: impl IntoIterator<Item = &'a Policy>) -> Self {
        let (acl, _) = Self::of_caller(policies, &Identity::default());
        acl
    }

    /// Combines `policies` for the caller `identity`. Also returns the rules that were skipped
    /// because a value of the caller must not stand in a path.
    ///
    /// A rule that uses a value the caller does not have is skipped silently, because the rule is
    /// meant for other callers. A `deny` is never skipped: if its path cannot be resolved, the rule
    /// denies every path that some value could produce.
    pub fn of_caller<'a>(
        policies: impl IntoIterator<Item = &'a Policy>,
        identity: &Identity,
    ) -> (Self, Vec<Skipped>) {
        let mut joined: BTreeMap<Pattern, Joined> = BTreeMap::new();
        let (mut skipped, mut denials) = (Vec::new(), Vec::new());
        for policy in policies {
            let name: Arc<str> = Arc::from(policy.name.as_str());
            for rule in &policy.rules {
                let why = match rule.path.resolve(identity) {
                    Ok(pattern) => {
                        let pattern = pattern.into_owned();
                        for pattern in spelling::respelt(&pattern).into_iter().chain([pattern]) {
                            joined.entry(pattern).or_default().add(&name, rule);
                        }
                        continue;
                    }
                    Err(why) => why,
                };
                if rule.capabilities.contains(&Capability::Deny) {
                    denials.extend(Denial::of(&rule.path, &why));
                }
                if let Unresolved::Refused(why) = why {
                    skipped.push(Skipped { policy: policy.name.clone(), why });
                }
            }
        }
        (Self { held: Held::Rules(Rules::of(joined, denials)) }, skipped)
    }

    /// Returns the rules, for a user interface that shows only the allowed actions. `None` for the
    /// root policy, which has no rules.
    #[must_use]
    pub fn listed(&self) -> Option<ListedRules> {
        let Held::Rules(rules) = &self.held else { return None };
        let listed = |(path, access): (&str, &access::Access)| (path.to_owned(), access.shown());
        Some(ListedRules {
            exact: rules.exact_paths().map(listed).collect(),
            patterns: rules.patterns().map(listed).collect(),
        })
    }

    /// Returns the root policy: everything is allowed.
    #[must_use]
    pub fn root() -> Self {
        let granted = Granted {
            capabilities: Arc::from([super::ROOT.to_owned()]),
            policies: Arc::from([Arc::from(super::ROOT)]),
        };
        Self { held: Held::Everything(granted) }
    }

    /// Answers a request.
    #[must_use]
    pub fn check(&self, question: &Question<'_>) -> Verdict {
        let rules = match &self.held {
            Held::Everything(granted) => return Verdict::Granted(granted.clone()),
            Held::Rules(rules) => rules,
        };
        judge(ruling(rules, question), question).map_or_else(Verdict::Denied, Verdict::Granted)
    }

    /// Answers a request without checking its parameters.
    #[must_use]
    pub fn check_apart_from_parameters(&self, question: &Question<'_>) -> Verdict {
        let rules = match &self.held {
            Held::Everything(granted) => return Verdict::Granted(granted.clone()),
            Held::Rules(rules) => rules,
        };
        let judged = judge_act(ruling(rules, question), question);
        judged.map_or_else(Verdict::Denied, |(granted, _)| Verdict::Granted(granted))
    }

    /// Returns true if the answer depends on the request's parameters.
    #[must_use]
    pub fn speaks_of_parameters(&self, question: &Question<'_>) -> bool {
        let Held::Rules(rules) = &self.held else { return false };
        let Ruling { access, other } = ruling(rules, question);
        let mut counting = access.into_iter().chain(other);
        has_parameters(question.operation) && counting.any(|access| !access.constraints.are_none())
    }

    /// Returns true if the token may do anything at `folder`, which ends in a slash, or below.
    #[must_use]
    pub fn reaches(&self, folder: &str) -> bool {
        match &self.held {
            Held::Everything(_) => true,
            Held::Rules(rules) => rules.allow_below(folder),
        }
    }

    /// Returns the token's capabilities on a path, in the form of the capabilities endpoints:
    /// `["root"]`, `["deny"]`, or words in alphabetical order.
    ///
    /// `path` is used as written, without a leading `/`: `roles/` asks for the rules for listing
    /// `roles`.
    #[must_use]
    pub fn capabilities(&self, path: &str) -> Vec<String> {
        let rules = match &self.held {
            Held::Everything(granted) => return granted.capabilities.to_vec(),
            Held::Rules(rules) => rules,
        };
        let path = path.trim_start_matches('/');
        let ruling = match path.strip_suffix('/') {
            Some(folder) => rules.ruling_of_list(folder),
            None => rules.ruling(path),
        };
        let granting = ruling.access.filter(|_| !ruling.denies());
        let words = granting.map(|access| access.words.to_vec()).unwrap_or_default();
        if words.is_empty() { vec![Capability::Deny.word().to_owned()] } else { words }
    }

    /// Returns the number of patterns.
    pub(super) fn len(&self) -> usize {
        match &self.held {
            Held::Everything(_) => 1,
            Held::Rules(rules) => rules.len(),
        }
    }
}

fn ruling<'a>(rules: &'a Rules, question: &Question<'_>) -> Ruling<'a> {
    match question.operation {
        Operation::List => rules.ruling_of_list(question.path),
        _ => rules.ruling(question.path),
    }
}

/// Returns the grant for `question`.
///
/// # Errors
/// The sentence for the caller.
fn judge(ruling: Ruling<'_>, question: &Question<'_>) -> Result<Granted, String> {
    let (granted, access) = judge_act(ruling, question)?;
    if has_parameters(question.operation) {
        for access in std::iter::once(access).chain(ruling.other) {
            access
                .constraints
                .check(question.fields, question.schema)
                .map_err(|why| refusal(Some(access), question, &why))?;
        }
    }
    Ok(granted)
}

/// Returns the grant for `question` without checking parameters, and the access that grants.
///
/// # Errors
/// The sentence for the caller.
fn judge_act<'a>(
    ruling: Ruling<'a>,
    question: &Question<'_>,
) -> Result<(Granted, &'a Access), String> {
    let access = ruling.access.filter(|_| !ruling.denies());
    let granting = access
        .and_then(|access| Some((access, access.granting(capability_for(question.operation))?)));
    let Some((access, policies)) = granting else {
        return Err(refusal(access, question, ""));
    };
    let refused = |why: &str| Err(refusal(Some(access), question, why));
    if question.sudo && !access.holds(Capability::Sudo) {
        return refused("without sudo; its policy needs that capability for this path too");
    }
    if let Err(why) = access.wrapping.check(question.wrap_ttl) {
        return refused(&why);
    }
    let granted =
        Granted { capabilities: Arc::clone(&access.words), policies: Arc::clone(policies) };
    Ok((granted, access))
}

/// Builds the sentence of a refusal; `why` ends the sentence.
fn refusal(access: Option<&Access>, question: &Question<'_>, why: &str) -> String {
    let act =
        format!("this token may not {} {}", refused_act(access, question.operation), question.path);
    if why.is_empty() { act } else { format!("{act} {why}") }
}

fn capability_for(operation: Operation) -> Capability {
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

/// Returns the word for a refused operation. Only callers with a write capability on the path learn
/// that a write would have created the object.
fn refused_act(access: Option<&Access>, operation: Operation) -> &'static str {
    let may_write = access
        .is_some_and(|access| access.holds(Capability::Create) || access.holds(Capability::Update));
    match operation {
        Operation::Create if !may_write => Operation::Update.word(),
        other => other.word(),
    }
}

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod naive;
#[cfg(test)]
mod tests;

//! Access decision: may a token with these policies do this, on this path, with these parameters?
//!
//! This file prevents a caller from learning about objects through refusals. A refusal names the
//! denied action and never says whether the path exists (decision P11): a caller without `create`
//! and `update` is always told that the token may not update, even if the write would have created
//! the object.

mod access;
mod rules;

use super::capability::Capability;
use super::identity::TemplateIdentity;
use super::parse::Policy;
use super::pattern::PathPattern;
use super::spelling;
use super::template::UnresolvedReason;
use crate::log::LogCause;
use access::{AccessBuilder, CombinedAccess};
use bulkhead_wire::description::{Field, Operation};
use rules::{ApplicableRules, RuleIndex, UnresolvedDenial};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The rules of all policies of a token.
#[derive(Debug)]
pub struct Acl {
    held: AclContent,
}

#[derive(Debug)]
enum AclContent {
    /// The root policy: every question gets the same answer.
    Everything(GrantedAccess),
    Rules(RuleIndex),
}

/// The action that a caller requests.
#[derive(Clone, Copy, Debug)]
pub struct AccessRequest<'a> {
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

/// The answer to an [`AccessRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessVerdict {
    /// The action is allowed.
    Granted(GrantedAccess),
    /// The action is denied; the text is the sentence for the caller.
    Denied(String),
}

/// The capabilities granted, and the policies that grant them. Shared with the [`Acl`], so that an
/// answer copies nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GrantedAccess {
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
pub struct SkippedRule {
    /// The policy that contains the rule.
    pub policy: String,
    /// The attribute and the fault of its value. The value itself is not shown.
    pub why: String,
}

impl LogCause for SkippedRule {
    fn words(&self) -> String {
        self.why.clone()
    }
}

impl Acl {
    /// Combines `policies` for a caller without an entity. Everything that no rule grants is
    /// denied.
    pub fn new<'a>(policies: impl IntoIterator<Item = &'a Policy>) -> Self {
        let (acl, _) = Self::of_caller(policies, &TemplateIdentity::default());
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
        identity: &TemplateIdentity,
    ) -> (Self, Vec<SkippedRule>) {
        let mut joined: BTreeMap<PathPattern, AccessBuilder> = BTreeMap::new();
        let (mut skipped, mut denials) = (Vec::new(), Vec::new());
        for policy in policies {
            let name: Arc<str> = Arc::from(policy.name.as_str());
            for rule in &policy.rules {
                let why = match rule.path.resolve(identity) {
                    Ok(pattern) => {
                        let pattern = pattern.into_owned();
                        for pattern in
                            spelling::respell_pattern(&pattern).into_iter().chain([pattern])
                        {
                            joined.entry(pattern).or_default().add(&name, rule);
                        }
                        continue;
                    }
                    Err(why) => why,
                };
                if rule.capabilities.contains(&Capability::Deny) {
                    denials.extend(UnresolvedDenial::of(&rule.path, &why));
                }
                if let UnresolvedReason::Refused(why) = why {
                    skipped.push(SkippedRule { policy: policy.name.clone(), why });
                }
            }
        }
        (Self { held: AclContent::Rules(RuleIndex::of(joined, denials)) }, skipped)
    }

    /// Returns the rules, for a user interface that shows only the allowed actions. `None` for the
    /// root policy, which has no rules.
    #[must_use]
    pub fn listed(&self) -> Option<ListedRules> {
        let AclContent::Rules(rules) = &self.held else { return None };
        let listed = |(path, access): (&str, &access::CombinedAccess)| {
            (path.to_owned(), access.capability_words())
        };
        Some(ListedRules {
            exact: rules.exact_paths().map(listed).collect(),
            patterns: rules.patterns().map(listed).collect(),
        })
    }

    /// Returns the root policy: everything is allowed.
    #[must_use]
    pub fn root() -> Self {
        let granted = GrantedAccess {
            capabilities: Arc::from([super::ROOT.to_owned()]),
            policies: Arc::from([Arc::from(super::ROOT)]),
        };
        Self { held: AclContent::Everything(granted) }
    }

    /// Answers a request.
    #[must_use]
    pub fn check(&self, question: &AccessRequest<'_>) -> AccessVerdict {
        let rules = match &self.held {
            AclContent::Everything(granted) => return AccessVerdict::Granted(granted.clone()),
            AclContent::Rules(rules) => rules,
        };
        decide_request(find_rules(rules, question), question)
            .map_or_else(AccessVerdict::Denied, AccessVerdict::Granted)
    }

    /// Answers a request without checking its parameters.
    #[must_use]
    pub fn check_apart_from_parameters(&self, question: &AccessRequest<'_>) -> AccessVerdict {
        let rules = match &self.held {
            AclContent::Everything(granted) => return AccessVerdict::Granted(granted.clone()),
            AclContent::Rules(rules) => rules,
        };
        let judged = judge_act(find_rules(rules, question), question);
        judged.map_or_else(AccessVerdict::Denied, |(granted, _)| AccessVerdict::Granted(granted))
    }

    /// Returns true if the answer depends on the request's parameters.
    #[must_use]
    pub fn speaks_of_parameters(&self, question: &AccessRequest<'_>) -> bool {
        let AclContent::Rules(rules) = &self.held else { return false };
        let ApplicableRules { access, other } = find_rules(rules, question);
        let mut counting = access.into_iter().chain(other);
        has_parameters(question.operation) && counting.any(|access| !access.constraints.are_none())
    }

    /// Returns true if the token may do anything at `folder`, which ends in a slash, or below.
    #[must_use]
    pub fn may_reach(&self, folder: &str) -> bool {
        match &self.held {
            AclContent::Everything(_) => true,
            AclContent::Rules(rules) => rules.allow_below(folder),
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
            AclContent::Everything(granted) => return granted.capabilities.to_vec(),
            AclContent::Rules(rules) => rules,
        };
        let path = path.trim_start_matches('/');
        let ruling = match path.strip_suffix('/') {
            Some(folder) => rules.ruling_of_list(folder),
            None => rules.find_applicable(path),
        };
        let granting = ruling.access.filter(|_| !ruling.denies());
        let words = granting.map(|access| access.words.to_vec()).unwrap_or_default();
        if words.is_empty() { vec![Capability::Deny.word().to_owned()] } else { words }
    }

    /// Returns the number of patterns.
    pub(super) fn len(&self) -> usize {
        match &self.held {
            AclContent::Everything(_) => 1,
            AclContent::Rules(rules) => rules.len(),
        }
    }
}

fn find_rules<'a>(rules: &'a RuleIndex, question: &AccessRequest<'_>) -> ApplicableRules<'a> {
    match question.operation {
        Operation::List => rules.ruling_of_list(question.path),
        _ => rules.find_applicable(question.path),
    }
}

/// Returns the grant for `question`.
///
/// # Errors
/// The sentence for the caller.
fn decide_request(
    ruling: ApplicableRules<'_>,
    question: &AccessRequest<'_>,
) -> Result<GrantedAccess, String> {
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
    ruling: ApplicableRules<'a>,
    question: &AccessRequest<'_>,
) -> Result<(GrantedAccess, &'a CombinedAccess), String> {
    let access = ruling.access.filter(|_| !ruling.denies());
    let granting = access.and_then(|access| {
        Some((access, access.granting_policies(capability_for(question.operation))?))
    });
    let Some((access, policies)) = granting else {
        return Err(refusal(access, question, ""));
    };
    let refused = |why: &str| Err(refusal(Some(access), question, why));
    if question.sudo && !access.has_capability(Capability::Sudo) {
        return refused("without sudo; the policy needs the capability sudo for this path too");
    }
    if let Err(why) = access.wrapping.check(question.wrap_ttl) {
        return refused(&why);
    }
    let granted =
        GrantedAccess { capabilities: Arc::clone(&access.words), policies: Arc::clone(policies) };
    Ok((granted, access))
}

/// Builds the sentence of a refusal; `why` ends the sentence.
fn refusal(access: Option<&CombinedAccess>, question: &AccessRequest<'_>, why: &str) -> String {
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
fn refused_act(access: Option<&CombinedAccess>, operation: Operation) -> &'static str {
    let may_write = access.is_some_and(|access| {
        access.has_capability(Capability::Create) || access.has_capability(Capability::Update)
    });
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

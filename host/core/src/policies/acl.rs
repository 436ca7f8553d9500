//! A token's policies as one decision: may it do this, on this path, with these parameters?
//!
//! The attack this file stops: asking about things instead of doing them. A refusal says what the
//! token may not do and never whether the path exists (decision P11): a caller who may neither
//! create nor update is always told that they may not update, whichever it would have been.

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

/// Everything that a token's policies say.
#[derive(Debug)]
pub struct Acl {
    held: Held,
}

#[derive(Debug)]
enum Held {
    /// The root policy: the same answer to every question.
    Everything(Granted),
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
    /// Body or query fields, without what the path captured: policies speak of parameters, not of
    /// paths.
    pub fields: &'a Map<String, Value>,
    /// The fields that the endpoint knows, by which names in policies are folded. Empty if it
    /// declares none.
    pub schema: &'a [Field],
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Yes.
    Granted(Granted),
    /// No, and the sentence for the caller.
    Denied(String),
}

/// What was granted, and by whom. Shared with the [`Acl`], so that an answer copies nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Granted {
    /// All that the token may do on this path, as words in alphabetical order; `["root"]` for the
    /// root policy.
    pub capabilities: Arc<[String]>,
    /// Names of the policies that grant what was asked, in the token's order.
    pub policies: Arc<[Arc<str>]>,
}

/// A rule that does not count for a caller, because what the caller is called must not stand in a
/// path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// The policy that holds the rule.
    pub policy: String,
    /// Which value, and what is wrong with it. The value is not shown.
    pub why: String,
}

impl Cause for Skipped {
    fn words(&self) -> String {
        self.why.clone()
    }
}

impl Acl {
    /// What `policies` say together to a caller without an entity. Without a rule, nothing is
    /// allowed.
    pub fn new<'a>(policies: impl IntoIterator<Item = &'a Policy>) -> Self {
        let (acl, _) = Self::of_caller(policies, &Identity::default());
        acl
    }

    /// What `policies` say together to the caller who is `identity`, and the rules that were left
    /// out because of a value that must not stand in a path. A rule about something that the caller
    /// does not have is left out in silence: it speaks of others. No `deny` is left out: one that
    /// cannot be resolved denies what it would with any value.
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

    /// The root policy: everything is allowed.
    #[must_use]
    pub fn root() -> Self {
        let granted = Granted {
            capabilities: Arc::from([super::ROOT.to_owned()]),
            policies: Arc::from([Arc::from(super::ROOT)]),
        };
        Self { held: Held::Everything(granted) }
    }

    /// Answers one request.
    #[must_use]
    pub fn check(&self, question: &Question<'_>) -> Verdict {
        let rules = match &self.held {
            Held::Everything(granted) => return Verdict::Granted(granted.clone()),
            Held::Rules(rules) => rules,
        };
        judge(ruling(rules, question), question).map_or_else(Verdict::Denied, Verdict::Granted)
    }

    /// Answers one request without asking what its parameters are.
    #[must_use]
    pub fn check_apart_from_parameters(&self, question: &Question<'_>) -> Verdict {
        let rules = match &self.held {
            Held::Everything(granted) => return Verdict::Granted(granted.clone()),
            Held::Rules(rules) => rules,
        };
        let judged = judge_act(ruling(rules, question), question);
        judged.map_or_else(Verdict::Denied, |(granted, _)| Verdict::Granted(granted))
    }

    /// Whether what the request's parameters are matters to the answer.
    #[must_use]
    pub fn speaks_of_parameters(&self, question: &Question<'_>) -> bool {
        let Held::Rules(rules) = &self.held else { return false };
        let Ruling { access, other } = ruling(rules, question);
        let mut counting = access.into_iter().chain(other);
        has_parameters(question.operation) && counting.any(|access| !access.constraints.are_none())
    }

    /// May the token do anything at all at `folder`, which ends in a slash, or below it?
    #[must_use]
    pub fn reaches(&self, folder: &str) -> bool {
        match &self.held {
            Held::Everything(_) => true,
            Held::Rules(rules) => rules.allow_below(folder),
        }
    }

    /// What the token may do on a path, as people ask it: `["root"]`, `["deny"]`, or words in
    /// alphabetical order.
    ///
    /// `path` is taken as written, but for a `/` in front: `roles/` asks for the rules of listing
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

    /// How many patterns are held.
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

/// What `question` is granted.
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

/// What `question` is granted as far as its parameters do not matter, by the access that grants it.
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
    if access.wrapped_only {
        return refused("unless the response is wrapped, which this build cannot do");
    }
    let granted =
        Granted { capabilities: Arc::clone(&access.words), policies: Arc::clone(policies) };
    Ok((granted, access))
}

/// The sentence of a refusal; `why` ends it.
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

/// The word for a refused operation. That a write would have created is told only to those who may
/// write at all.
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

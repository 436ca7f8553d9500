//! From a policy's text to its rules.
//!
//! The attack this file stops: a restriction that is written, accepted and not enforced. A word
//! that is not known here, and one that would restrict by means that this build does not have,
//! refuses the whole policy.

use super::capability::Capability;
use super::constraints::{Constraints, Lists};
use super::reference::Reference;
use super::template::RulePath;
use bulkhead_wire::duration;
use bulkhead_wire::failure::{Failure, quoted};
use bulkhead_wire::hcl::{self, Item, Node, SyntaxError};
use bulkhead_wire::spelling::hint;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt;

/// Largest text of a policy, in bytes.
pub const MAX_TEXT: usize = 512 << 10;
/// Most rules of one policy. Every request of its tokens is held against those that hold a
/// wildcard.
pub const MAX_RULES: usize = 5_000;
/// Most values that one rule lists for one parameter. Each element of a list in a request is held
/// against all of them.
pub const MAX_VALUES: usize = 500;

/// A policy that was understood completely.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// Canonical.
    pub name: String,
    /// In the order of the text; one pattern may stand in several.
    pub rules: Vec<Rule>,
}

/// One `path "…" { … }`.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Which paths it speaks of.
    pub path: RulePath,
    /// What it grants; alone, if it holds [`Capability::Deny`]. None is possible, and grants
    /// nothing.
    pub capabilities: BTreeSet<Capability>,
    /// What it says about parameters.
    pub constraints: Constraints,
    /// Shortest wrapping that a response must have, in seconds; 0 when not set.
    pub min_wrapping_ttl: u64,
    /// Longest wrapping that a response may have, in seconds; 0 when not set.
    pub max_wrapping_ttl: u64,
}

/// Why a text is no policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyError {
    /// Counted from 1.
    pub line: usize,
    /// What was wrong and what to write instead.
    pub message: String,
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for PolicyError {}

impl From<SyntaxError> for PolicyError {
    fn from(error: SyntaxError) -> Self {
        Self { line: error.line, message: format!("column {}: {}", error.column, error.message) }
    }
}

impl From<PolicyError> for Failure {
    /// 400, with the words that clients of this field look for in front.
    fn from(error: PolicyError) -> Self {
        Self::invalid(format!("failed to parse policy: {error}"))
    }
}

impl Policy {
    /// Reads `text`, which is HCL1 or JSON, as the policy `name`. A name inside the text has no
    /// effect.
    ///
    /// # Errors
    /// The first thing that is not understood, or that could not be enforced, with its line; and a
    /// text beyond [`MAX_TEXT`], [`MAX_RULES`], [`MAX_VALUES`] or the bounds of [`hcl::parse`].
    pub fn parse(name: &str, text: &str) -> Result<Self, PolicyError> {
        if text.len() > MAX_TEXT {
            let message = format!(
                "the policy has {} bytes; at most {MAX_TEXT} are read; split it into several",
                text.len()
            );
            return Err(PolicyError { line: 1, message });
        }
        let mut rules = Vec::new();
        for item in &hcl::parse(text)?.items {
            match item.key.as_str() {
                "path" if rules.len() == MAX_RULES => {
                    let message = format!(
                        "the policy has more than {MAX_RULES} paths; split it into several"
                    );
                    return Err(at(item, message));
                }
                "path" => rules.push(rule(item)?),
                "name" => {
                    text_of(item)?;
                }
                other => {
                    let hint = hint(other, &["path", "name"]);
                    return Err(at(item, format!("unknown key {}{hint}", quoted(other))));
                }
            }
        }
        Ok(Self { name: name.to_owned(), rules })
    }

    /// What must be known of a caller to say what the policy grants; each as often as it is named.
    pub(super) fn references(&self) -> impl Iterator<Item = &Reference> {
        self.rules.iter().flat_map(|rule| rule.path.references())
    }
}

fn rule(item: &Item) -> Result<Rule, PolicyError> {
    let ([label], Node::Block(body)) = (item.labels.as_slice(), &item.value) else {
        return Err(at(
            item,
            "a path is written as one pattern and a block, such as path \"database/creds/*\" { … }",
        ));
    };
    let mut rule = Rule {
        path: RulePath::parse(label)
            .map_err(|why| at(item, format!("path {} {why}", quoted(label))))?,
        capabilities: BTreeSet::new(),
        constraints: Constraints::default(),
        min_wrapping_ttl: 0,
        max_wrapping_ttl: 0,
    };
    let mut seen = BTreeSet::new();
    for part in &body.items {
        if !seen.insert(part.key.as_str()) {
            return Err(at(
                part,
                format!("{} is given twice for one path; join the two", quoted(&part.key)),
            ));
        }
        apply(&mut rule, part)?;
    }
    if rule.capabilities.contains(&Capability::Deny) {
        rule.capabilities = BTreeSet::from([Capability::Deny]);
    }
    if rule.max_wrapping_ttl != 0 && rule.max_wrapping_ttl < rule.min_wrapping_ttl {
        return Err(at(
            item,
            "max_wrapping_ttl is shorter than min_wrapping_ttl; no request could meet both",
        ));
    }
    Ok(rule)
}

const KEYS: &[&str] = &[
    "capabilities",
    "policy",
    "allowed_parameters",
    "denied_parameters",
    "required_parameters",
    "min_wrapping_ttl",
    "max_wrapping_ttl",
    "comment",
];

/// Puts what one key says into the rule.
fn apply(rule: &mut Rule, item: &Item) -> Result<(), PolicyError> {
    if !item.labels.is_empty() {
        return Err(at(
            item,
            format!("{} takes no label; write {} = …", quoted(&item.key), item.key),
        ));
    }
    match item.key.as_str() {
        "capabilities" => {
            for word in texts_of(item)? {
                rule.capabilities.insert(capability(item, word)?);
            }
        }
        "policy" => rule.capabilities.extend(legacy_word(item)?),
        "allowed_parameters" => rule.constraints.allowed = lists_of(item)?,
        "denied_parameters" => rule.constraints.denied = lists_of(item)?,
        "required_parameters" => {
            rule.constraints.required =
                texts_of(item)?.into_iter().map(str::to_lowercase).collect();
        }
        "min_wrapping_ttl" => rule.min_wrapping_ttl = seconds_of(item)?,
        "max_wrapping_ttl" => rule.max_wrapping_ttl = seconds_of(item)?,
        "comment" => {
            text_of(item)?;
        }
        restriction @ ("mfa_methods"
        | "control_group"
        | "pagination_limit"
        | "expiration"
        | "list_scan_response_keys_filter_path") => {
            let message = format!(
                "{restriction} restricts access in a way that this build cannot enforce; remove \
                 it, and the access \
                 that it should restrict with it"
            );
            return Err(at(item, message));
        }
        other => {
            return Err(at(item, format!("unknown key {}{}", quoted(other), hint(other, KEYS))));
        }
    }
    Ok(())
}

fn capability(item: &Item, word: &str) -> Result<Capability, PolicyError> {
    Capability::of_word(word).ok_or_else(|| {
        let hint = hint(word, &Capability::ALL.map(Capability::word));
        at(item, format!("unknown capability {}{hint}", quoted(word)))
    })
}

/// The capabilities behind the word of older policies: `policy = "read"`.
fn legacy_word(item: &Item) -> Result<Vec<Capability>, PolicyError> {
    use Capability::{Create, Delete, Deny, List, Read, Sudo, Update};
    let word = text_of(item)?;
    match word {
        "deny" => Ok(vec![Deny]),
        "read" => Ok(vec![Read, List]),
        "write" => Ok(vec![Create, Read, Update, Delete, List]),
        "sudo" => Ok(vec![Create, Read, Update, Delete, List, Sudo]),
        other => {
            let hint = hint(other, &["deny", "read", "write", "sudo"]);
            Err(at(item, format!("unknown value {} of policy{hint}", quoted(other))))
        }
    }
}

fn text_of(item: &Item) -> Result<&str, PolicyError> {
    match &item.value {
        Node::Text(text) => Ok(text),
        other => Err(unlike(item, "a text", other)),
    }
}

fn texts_of(item: &Item) -> Result<Vec<&str>, PolicyError> {
    let Node::List(elements) = &item.value else {
        return Err(unlike(item, "a list of texts", &item.value));
    };
    let texts = elements.iter().map(|element| match element {
        Node::Text(text) => Ok(text.as_str()),
        other => Err(unlike(item, "a list of texts", other)),
    });
    texts.collect()
}

/// Whole seconds, never negative.
fn seconds_of(item: &Item) -> Result<u64, PolicyError> {
    let value = match &item.value {
        Node::Text(text) => Value::from(text.as_str()),
        Node::Number(number) => Value::Number(number.clone()),
        other => return Err(unlike(item, "a duration", other)),
    };
    duration::seconds(&value).map_err(|why| at(item, format!("{}: {why}", item.key)))
}

/// Values by parameter: `{ ttl = ["1h", 60], name = [] }`.
fn lists_of(item: &Item) -> Result<Lists, PolicyError> {
    const SHAPE: &str = "a block of lists, such as { ttl = [\"1h\"], name = [] }";
    let Node::Block(body) = &item.value else {
        return Err(unlike(item, SHAPE, &item.value));
    };
    let mut lists = Lists::new();
    for parameter in &body.items {
        let (Node::List(values), []) = (&parameter.value, parameter.labels.as_slice()) else {
            return Err(unlike(item, SHAPE, &parameter.value));
        };
        if values.len() > MAX_VALUES {
            let key = quoted(&parameter.key);
            return Err(at(
                parameter,
                format!("parameter {key} lists more than {MAX_VALUES} values; use \"*\" in them"),
            ));
        }
        let values =
            values.iter().map(|value| plain(parameter, value)).collect::<Result<_, _>>()?;
        if lists.insert(parameter.key.to_lowercase(), values).is_some() {
            return Err(at(
                parameter,
                format!("parameter {} is given twice; join the two", quoted(&parameter.key)),
            ));
        }
    }
    Ok(lists)
}

/// A value that a parameter can be compared with.
fn plain(item: &Item, node: &Node) -> Result<Value, PolicyError> {
    match node {
        Node::Text(text) => Ok(Value::from(text.as_str())),
        Node::Number(number) => Ok(Value::Number(number.clone())),
        Node::Bool(flag) => Ok(Value::Bool(*flag)),
        Node::List(values) => values.iter().map(|value| plain(item, value)).collect(),
        Node::Block(_) => {
            Err(unlike(item, "a list of texts, numbers, flags or lists of them", node))
        }
    }
}

fn unlike(item: &Item, expected: &str, got: &Node) -> PolicyError {
    at(item, format!("{} is {expected}, not {}", quoted(&item.key), got.kind()))
}

fn at(item: &Item, message: impl Into<String>) -> PolicyError {
    PolicyError { line: item.line, message: message.into() }
}

#[cfg(test)]
mod tests;

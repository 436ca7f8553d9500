//! Parser from a policy's text to its rules.
//!
//! This file prevents a restriction that is written and accepted but not enforced. The whole policy
//! is refused if it contains an unknown word or a restriction that this build cannot enforce.

use super::capability::Capability;
use super::constraints::{ParameterConstraints, ParameterLists};
use super::reference::TemplateReference;
use super::template::RulePath;
use bulkhead_wire::duration;
use bulkhead_wire::failure::{Failure, quoted};
use bulkhead_wire::hcl::{self, HclItem, HclValue, SyntaxError};
use bulkhead_wire::spelling::hint;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt;

/// Maximum size of a policy text, in bytes.
pub const MAX_TEXT: usize = 512 << 10;
/// Maximum number of rules in a policy. Every request of its tokens is compared with the rules that
/// contain a wildcard.
pub const MAX_RULES: usize = 5_000;
/// Maximum number of values that a rule lists for a parameter. Each element of a list in a request
/// is compared with every listed value.
pub const MAX_VALUES: usize = 500;

/// A completely parsed policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// Canonical name.
    pub name: String,
    /// Rules in the order of the text; several rules may have the same pattern.
    pub rules: Vec<Rule>,
}

/// A `path "…" { … }` block.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// The paths of the rule.
    pub path: RulePath,
    /// Granted capabilities. [`Capability::Deny`] stands alone. An empty set is possible and grants
    /// nothing.
    pub capabilities: BTreeSet<Capability>,
    /// Restrictions on parameters.
    pub constraints: ParameterConstraints,
    /// Minimum wrapping TTL of a response, in seconds; 0 if not set.
    pub min_wrapping_ttl: u64,
    /// Maximum wrapping TTL of a response, in seconds; 0 if not set.
    pub max_wrapping_ttl: u64,
}

/// The reason a text is not a valid policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyError {
    /// Line number, counted from 1.
    pub line: usize,
    /// The fault and its remedy.
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
    /// Returns a 400 failure; the message begins with the words that existing clients look for.
    fn from(error: PolicyError) -> Self {
        Self::invalid(format!("failed to parse policy: {error}"))
    }
}

impl Policy {
    /// Parses `text`, which is HCL1 or JSON, as the policy `name`. A name inside the text is
    /// ignored.
    ///
    /// # Errors
    /// The first part of the text that is unknown or cannot be enforced, with its line; also a text
    /// beyond [`MAX_TEXT`], [`MAX_RULES`], [`MAX_VALUES`] or the limits of [`hcl::parse`].
    pub fn parse(name: &str, text: &str) -> Result<Self, PolicyError> {
        if text.len() > MAX_TEXT {
            let message = format!(
                "the policy has {} bytes; at most {MAX_TEXT} are read; split the policy into \
                 several",
                text.len()
            );
            return Err(PolicyError { line: 1, message });
        }
        let mut rules = Vec::new();
        for item in &hcl::parse(text)?.items {
            match item.key.as_str() {
                "path" if rules.len() == MAX_RULES => {
                    let message = format!(
                        "the policy has more than {MAX_RULES} paths; split the policy into several"
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

    /// Returns the caller attributes that the policy's paths use, with repetitions.
    pub(super) fn references(&self) -> impl Iterator<Item = &TemplateReference> {
        self.rules.iter().flat_map(|rule| rule.path.references())
    }
}

fn rule(item: &HclItem) -> Result<Rule, PolicyError> {
    let ([label], HclValue::Block(body)) = (item.labels.as_slice(), &item.value) else {
        return Err(at(
            item,
            "a path is written as one pattern and a block, such as path \"database/creds/*\" { … }",
        ));
    };
    let mut rule = Rule {
        path: RulePath::parse(label)
            .map_err(|why| at(item, format!("path {} {why}", quoted(label))))?,
        capabilities: BTreeSet::new(),
        constraints: ParameterConstraints::default(),
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

/// Applies a key of the block to the rule.
fn apply(rule: &mut Rule, item: &HclItem) -> Result<(), PolicyError> {
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
                "{restriction} restricts access, and this build cannot enforce such a restriction; \
                 remove {restriction} together with the restricted access"
            );
            return Err(at(item, message));
        }
        other => {
            return Err(at(item, format!("unknown key {}{}", quoted(other), hint(other, KEYS))));
        }
    }
    Ok(())
}

fn capability(item: &HclItem, word: &str) -> Result<Capability, PolicyError> {
    Capability::of_word(word).ok_or_else(|| {
        let hint = hint(word, &Capability::ALL.map(Capability::word));
        at(item, format!("unknown capability {}{hint}", quoted(word)))
    })
}

/// Returns the capabilities behind the older form `policy = "read"`.
fn legacy_word(item: &HclItem) -> Result<Vec<Capability>, PolicyError> {
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

fn text_of(item: &HclItem) -> Result<&str, PolicyError> {
    match &item.value {
        HclValue::Text(text) => Ok(text),
        other => Err(type_error(item, "a text", other)),
    }
}

fn texts_of(item: &HclItem) -> Result<Vec<&str>, PolicyError> {
    let HclValue::List(elements) = &item.value else {
        return Err(type_error(item, "a list of texts", &item.value));
    };
    let texts = elements.iter().map(|element| match element {
        HclValue::Text(text) => Ok(text.as_str()),
        other => Err(type_error(item, "a list of texts", other)),
    });
    texts.collect()
}

/// Reads a duration as whole seconds, never negative.
fn seconds_of(item: &HclItem) -> Result<u64, PolicyError> {
    let value = match &item.value {
        HclValue::Text(text) => Value::from(text.as_str()),
        HclValue::Number(number) => Value::Number(number.clone()),
        other => return Err(type_error(item, "a duration", other)),
    };
    duration::seconds(&value).map_err(|why| at(item, format!("{}: {why}", item.key)))
}

/// Reads values by parameter: `{ ttl = ["1h", 60], name = [] }`.
fn lists_of(item: &HclItem) -> Result<ParameterLists, PolicyError> {
    const SHAPE: &str = "a block of lists, such as { ttl = [\"1h\"], name = [] }";
    let HclValue::Block(body) = &item.value else {
        return Err(type_error(item, SHAPE, &item.value));
    };
    let mut lists = ParameterLists::new();
    for parameter in &body.items {
        let (HclValue::List(values), []) = (&parameter.value, parameter.labels.as_slice()) else {
            return Err(type_error(item, SHAPE, &parameter.value));
        };
        if values.len() > MAX_VALUES {
            let key = quoted(&parameter.key);
            return Err(at(
                parameter,
                format!(
                    "parameter {key} lists more than {MAX_VALUES} values; use \"*\" in the values"
                ),
            ));
        }
        let values = values
            .iter()
            .map(|value| parse_plain_value(parameter, value))
            .collect::<Result<_, _>>()?;
        if lists.insert(parameter.key.to_lowercase(), values).is_some() {
            return Err(at(
                parameter,
                format!("parameter {} is given twice; join the two", quoted(&parameter.key)),
            ));
        }
    }
    Ok(lists)
}

/// Returns a value that can be compared with a parameter.
fn parse_plain_value(item: &HclItem, node: &HclValue) -> Result<Value, PolicyError> {
    match node {
        HclValue::Text(text) => Ok(Value::from(text.as_str())),
        HclValue::Number(number) => Ok(Value::Number(number.clone())),
        HclValue::Bool(flag) => Ok(Value::Bool(*flag)),
        HclValue::List(values) => {
            values.iter().map(|value| parse_plain_value(item, value)).collect()
        }
        HclValue::Block(_) => {
            Err(type_error(item, "a list of texts, numbers, flags or lists", node))
        }
    }
}

fn type_error(item: &HclItem, expected: &str, got: &HclValue) -> PolicyError {
    at(item, format!("{} is {expected}, not {}", quoted(&item.key), got.kind()))
}

fn at(item: &HclItem, message: impl Into<String>) -> PolicyError {
    PolicyError { line: item.line, message: message.into() }
}

#[cfg(test)]
mod tests;

//! Parser from a password policy's text to its rules.
//!
//! This file prevents a rule that is written and accepted but not enforced: an unknown word refuses
//! the whole policy.

use super::{CharacterRule, MAX_RULES, MAX_TEXT, PasswordPolicy};
use crate::alphabet::Alphabet;
use crate::failure::{Failure, quoted};
use crate::hcl::{self, HclBody, HclItem, HclValue};
use crate::spelling::hint;

/// The only kind of rule.
const CHARSET: &str = "charset";

pub(super) fn parse(text: &str) -> Result<PasswordPolicy, Failure> {
    if text.len() > MAX_TEXT {
        let bytes = text.len();
        return Err(refused(format!("the policy has {bytes} bytes; at most {MAX_TEXT} are read")));
    }
    let body = hcl::parse(text).map_err(|error| refused(error.to_string()))?;
    read(&body).map_err(refused)
}

/// Returns 400 with the reason.
fn refused(why: String) -> Failure {
    Failure::invalid(format!("failed to parse password policy: {why}"))
}

fn read(body: &HclBody) -> Result<PasswordPolicy, String> {
    let (mut length, mut rules) = (None, Vec::new());
    for item in &body.items {
        match item.key.as_str() {
            "length" if length.is_some() => return Err(at(item, "length is given twice")),
            "length" => length = Some(number(item)?),
            "rule" => rules.extend(rules_of(item)?),
            other => {
                let hint = hint(other, &["length", "rule"]);
                return Err(at(item, &format!("unknown key {}{hint}", quoted(other))));
            }
        }
        if rules.len() > MAX_RULES {
            return Err(at(item, &format!("there are more than {MAX_RULES} rules; join some")));
        }
    }
    let length = length.ok_or("length is missing; write length = 20")?;
    if rules.is_empty() {
        return Err("there is no rule; write rule \"charset\" { charset = \"…\" }".to_owned());
    }
    PasswordPolicy::of(length, rules)
}

/// Returns the rules of an item: `rule "charset" { … }`, or in JSON an object with a rule or a list
/// of rules for each kind.
fn rules_of(item: &HclItem) -> Result<Vec<CharacterRule>, String> {
    match (item.labels.as_slice(), &item.value) {
        ([kind], HclValue::Block(body)) => Ok(vec![rule(item, kind, body)?]),
        ([], HclValue::Block(kinds)) => {
            let mut rules = Vec::new();
            for kind in &kinds.items {
                for body in blocks(kind)? {
                    rules.push(rule(kind, &kind.key, body)?);
                }
            }
            Ok(rules)
        }
        _ => Err(at(item, "a rule is written as rule \"charset\" { charset = \"…\" }")),
    }
}

fn blocks(kind: &HclItem) -> Result<Vec<&HclBody>, String> {
    let nodes = match &kind.value {
        HclValue::List(nodes) => nodes.as_slice(),
        node => std::slice::from_ref(node),
    };
    let mut blocks = Vec::with_capacity(nodes.len());
    for node in nodes {
        match node {
            HclValue::Block(body) => blocks.push(body),
            other => return Err(at(kind, &format!("a rule is a block, not {}", other.kind()))),
        }
    }
    Ok(blocks)
}

fn rule(item: &HclItem, kind: &str, body: &HclBody) -> Result<CharacterRule, String> {
    if kind != CHARSET {
        let hint = hint(kind, &[CHARSET]);
        return Err(at(item, &format!("unknown kind of rule {}{hint}", quoted(kind))));
    }
    let (mut alphabet, mut at_least) = (None, None);
    for part in &body.items {
        let is_new = match part.key.as_str() {
            "charset" => alphabet.replace(charset(part)?).is_none(),
            "min-chars" => at_least.replace(number(part)?).is_none(),
            other => {
                let hint = hint(other, &["charset", "min-chars"]);
                return Err(at(part, &format!("unknown key {}{hint}", quoted(other))));
            }
        };
        if !is_new {
            return Err(at(part, &format!("{} is given twice in the same rule", part.key)));
        }
    }
    let alphabet = alphabet.ok_or_else(|| at(item, "charset is missing; write charset = \"…\""))?;
    Ok(CharacterRule { alphabet, at_least: at_least.unwrap_or_default() })
}

fn charset(item: &HclItem) -> Result<Alphabet, String> {
    let HclValue::Text(text) = &item.value else {
        return Err(at(item, &format!("charset is a text, not {}", item.value.kind())));
    };
    Alphabet::of(text).map_err(|why| at(item, &format!("charset: {why}")))
}

/// Returns a whole number that is not negative.
fn number(item: &HclItem) -> Result<usize, String> {
    let number = match &item.value {
        HclValue::Number(number) => number.as_u64().and_then(|number| usize::try_from(number).ok()),
        other => {
            return Err(at(item, &format!("{} is a number, not {}", item.key, other.kind())));
        }
    };
    let why = || at(item, &format!("{} is a whole number, 0 or more", item.key));
    number.filter(|_| item.labels.is_empty()).ok_or_else(why)
}

fn at(item: &HclItem, message: &str) -> String {
    format!("line {}: {message}", item.line)
}

//! What a rule says about parameters: which must be there, which may not, and with what values.
//!
//! The attacks this file stops: a second name of a setting that the policy does not use (see
//! `parameters.rs`; everything that was sent is checked), a required parameter in a spelling that the endpoint ignores, a value in another form than the
//! policy wrote it (`"1h"` and `3600`), and a forbidden value hidden among others in a list. What
//! is allowed is read narrowly, what is denied widely.

use super::parameters::{Parameter, canonical, counts_as, deferring};
use bulkhead_wire::description::Field;
use bulkhead_wire::duration;
use bulkhead_wire::failure::quoted;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use unicode_normalization::UnicodeNormalization;

/// Values by the lower-case name of their parameter; no values means any value.
pub type Lists = BTreeMap<String, Vec<Value>>;

/// The parameter part of a rule, or of several merged ones.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Constraints {
    /// If not empty, no other parameters may be given. The name `*` stands for all that are not
    /// named.
    pub allowed: Lists,
    /// These may not be given. The name `*` stands for all.
    pub denied: Lists,
    /// Lower-case names that must be given.
    pub required: BTreeSet<String>,
}

impl Constraints {
    /// Adds those of another rule for the same pattern: what either names counts.
    pub(super) fn merge(&mut self, other: &Self) {
        merge_lists(&mut self.allowed, &other.allowed);
        merge_lists(&mut self.denied, &other.denied);
        self.required.extend(other.required.iter().cloned());
    }

    /// Whether `fields` may be given on a route with this `schema`.
    ///
    /// # Errors
    /// The end of the sentence "this token may not update x …". It shows names, never values.
    pub(super) fn check(
        &self,
        fields: &Map<String, Value>,
        schema: &[Field],
    ) -> Result<(), String> {
        if self.are_none() {
            return Ok(());
        }
        let given = Parameter::all(fields, schema);
        let every: Vec<&Parameter<'_>> = given.iter().flat_map(Parameter::flattened).collect();
        let is_given = |name: &str| every.iter().any(|one| one.is_read && one.name == name);
        if let Some(name) = self.required.iter().find(|name| !is_given(&canonical(name, schema))) {
            return Err(format!("without parameter {}, which its policy requires", quoted(name)));
        }
        if self.denied.contains_key("*") && !given.is_empty() {
            return Err("with any parameter".to_owned());
        }
        check_denied(&denied_by_field(&self.denied, schema), &every)?;
        if self.allowed.is_empty() {
            return Ok(());
        }
        let allowed = Allowed { lists: by_field(&self.allowed, schema), schema };
        given.iter().try_for_each(|parameter| allowed.check(parameter))
    }

    fn are_none(&self) -> bool {
        self.allowed.is_empty() && self.denied.is_empty() && self.required.is_empty()
    }
}

/// Lists by the canonical name of their field; several where a policy names one field twice.
type FieldLists<'a> = BTreeMap<String, Vec<&'a Vec<Value>>>;

fn by_field<'a>(lists: &'a Lists, schema: &[Field]) -> FieldLists<'a> {
    let mut found = FieldLists::new();
    for (name, list) in lists {
        found.entry(canonical(name, schema)).or_default().push(list);
    }
    found
}

/// As [`by_field`]. What is forbidden of a parameter that counts as another is so of that one too.
fn denied_by_field<'a>(lists: &'a Lists, schema: &[Field]) -> FieldLists<'a> {
    let mut found = by_field(lists, schema);
    for (name, list) in lists.iter().filter(|(_, list)| !list.is_empty()) {
        if let Some(other) = counts_as(name, schema) {
            found.entry(other).or_default().push(list);
        }
    }
    found
}

fn check_denied(denied: &FieldLists<'_>, given: &[&Parameter<'_>]) -> Result<(), String> {
    for parameter in given {
        let Parameter { name, counts_as, value, .. } = parameter;
        let by_settings = parameter.by_settings();
        let is_listed = |list: &Vec<Value>| {
            holds_any(value, list)
                || by_settings.as_ref().is_some_and(|settings| holds_any(settings, list))
        };
        let names = std::iter::once(name).chain(counts_as);
        let mut lists = names.filter_map(|name| denied.get(name)).flatten();
        if lists.any(|list| list.is_empty() || is_listed(list)) {
            return Err(format!("with parameter {}, or not with this value of it", quoted(name)));
        }
    }
    Ok(())
}

/// What a rule allows, on a route with this schema.
struct Allowed<'a> {
    lists: FieldLists<'a>,
    schema: &'a [Field],
}

impl Allowed<'_> {
    /// Whether `parameter` may be given: by its own name, by that of which it says something, or
    /// as a group of which each setting may be given. What is inside of a group that may be given
    /// is held against the rules that name it.
    fn check(&self, parameter: &Parameter<'_>) -> Result<(), String> {
        let Parameter { name, value, members, .. } = parameter;
        if parameter.defers && !self.lists.contains_key(name) {
            return Ok(());
        }
        let counted = parameter.counts_as.as_ref().filter(|other| self.lists.contains_key(*other));
        match (self.lists.get(name), counted) {
            (Some(own), _) if parameter.defers && !admits(own, value) => return Ok(()),
            (Some(own), counted) => {
                let is_any = own.iter().any(|list| list.is_empty());
                if !admits(own, value) || is_any && !self.admits_as(counted, value) {
                    return Err(not_with_this_value(name));
                }
            }
            (None, Some(_)) if !self.admits_as(counted, value) => {
                return Err(not_with_this_value(name));
            }
            (None, Some(_)) => {}
            (None, None) => return self.check_unnamed(parameter),
        }
        self.check_named(members)
    }

    /// One that no rule names: all of its settings may be given, or it may as one of the others.
    fn check_unnamed(&self, parameter: &Parameter<'_>) -> Result<(), String> {
        let Parameter { name, value, members, .. } = parameter;
        if !parameter.holds_others && !members.is_empty() && !self.lists.contains_key("*") {
            return members.iter().try_for_each(|member| self.check(member));
        }
        let Some(others) = self.lists.get("*") else {
            return Err(format!("with parameter {}, which its policy does not list", quoted(name)));
        };
        if !admits(others, value) {
            return Err(not_with_this_value(name));
        }
        self.check_named(members)
    }

    /// Those of `members` of which a rule speaks by name.
    fn check_named(&self, members: &[Parameter<'_>]) -> Result<(), String> {
        let is_named = |name: &String| self.lists.contains_key(name);
        for member in members {
            if is_named(&member.name) || member.counts_as.as_ref().is_some_and(is_named) {
                self.check(member)?;
            } else {
                self.check_named(&member.members)?;
            }
        }
        Ok(())
    }

    /// Whether the parameter `counted` may have `value`, or may leave the word to another.
    fn admits_as(&self, counted: Option<&String>, value: &Value) -> bool {
        let Some((name, lists)) = counted.and_then(|name| self.lists.get_key_value(name)) else {
            return true;
        };
        let may_defer =
            deferring(name, self.schema).is_some_and(|word| admits(lists, &Value::from(word)));
        may_defer || admits(lists, value)
    }
}

fn admits(lists: &[&Vec<Value>], value: &Value) -> bool {
    lists.iter().any(|list| list.is_empty() || holds_only(value, list))
}

fn not_with_this_value(name: &str) -> String {
    format!("with this value of parameter {}; its policy lists others", quoted(name))
}

/// A list without values allows or denies any value, so it wins over one with values.
fn merge_lists(lists: &mut Lists, other: &Lists) {
    for (name, values) in other {
        match lists.get_mut(name) {
            Some(known) if known.is_empty() || values.is_empty() => known.clear(),
            Some(known) => known.extend(values.iter().cloned()),
            None => {
                lists.insert(name.clone(), values.clone());
            }
        }
    }
}

/// Whether everything in `asked` is listed. An empty list is not: it often means "no restriction"
/// to its endpoint.
fn holds_only(asked: &Value, list: &[Value]) -> bool {
    if is_listed(asked, list) {
        return true;
    }
    match asked {
        Value::Array(items) => !items.is_empty() && items.iter().all(|item| is_listed(item, list)),
        Value::Object(entries) => {
            !entries.is_empty() && entries.iter().all(|entry| is_listed(&pair(entry), list))
        }
        _ => false,
    }
}

/// Whether anything in `asked` is listed, or could be read as something listed, however deep it
/// stands.
fn holds_any(asked: &Value, list: &[Value]) -> bool {
    if list.iter().any(|written| may_mean(asked, written)) {
        return true;
    }
    match asked {
        Value::Array(items) => items.iter().any(|item| holds_any(item, list)),
        Value::Object(entries) => {
            entries.iter().any(|entry| holds_any(entry.1, list) || is_listed(&pair(entry), list))
        }
        _ => false,
    }
}

/// An entry of a map as policies and clients also write it: `key=value`.
fn pair((key, value): (&String, &Value)) -> Value {
    scalar(value).map_or(Value::Null, |text| format!("{key}={text}").into())
}

fn is_listed(asked: &Value, list: &[Value]) -> bool {
    list.iter().any(|written| is_same(asked, written))
}

/// Whether a value of a request is what a policy wrote.
fn is_same(asked: &Value, written: &Value) -> bool {
    match (asked, written) {
        (_, Value::String(any)) if any == "*" => true,
        (Value::Bool(flag), _) if flag_of(written) == Some(*flag) => true,
        (Value::Number(asked), Value::Number(written)) => {
            let fractional = asked.is_f64() || written.is_f64();
            asked == written || fractional && asked.as_f64() == written.as_f64()
        }
        (Value::Number(number), Value::String(text)) => {
            // A duration reaches policy as seconds, in any form that it was sent in.
            matches_glob(text, &number.to_string())
                || seconds_of(written).is_some() && seconds_of(written) == number.as_u64()
        }
        _ => match (scalar(asked), scalar(written)) {
            (Some(asked), Some(written)) => matches_glob(&written, &asked),
            _ => asked == written,
        },
    }
}

/// Whether the endpoint could read a value as what a policy forbids. Values of fields without a
/// kind come as they were sent, so that `"TRUE"` may be a flag and `"60m"` the 3600 of the policy.
fn may_mean(asked: &Value, written: &Value) -> bool {
    let is_flag = match written {
        Value::Bool(_) => true,
        Value::String(text) => {
            text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false")
        }
        _ => false,
    };
    let seconds = seconds_of(asked);
    let is_like = match (scalar(asked), scalar(written)) {
        (Some(asked), Some(written)) => matches_glob(&folded(&written), &folded(&asked)),
        _ => false,
    };
    is_same(asked, written)
        || is_like
        || is_flag && flag_of(asked).is_some() && flag_of(asked) == flag_of(written)
        || seconds.is_some() && seconds == seconds_of(written)
}

/// A text without what endpoints drop from names and paths: case, white space around it, slashes at
/// its ends.
fn folded(text: &str) -> String {
    let text: String = text.nfc().collect();
    text.trim().trim_matches('/').to_lowercase()
}

/// The seconds that a number or a text may stand for.
fn seconds_of(value: &Value) -> Option<u64> {
    match value {
        Value::String(text) if text.trim().is_empty() => None,
        _ => duration::seconds(value).ok(),
    }
}

/// The flag that a value means, in any form in which a client may send it.
fn flag_of(value: &Value) -> Option<bool> {
    match scalar(value)?.to_lowercase().as_str() {
        "1" | "t" | "true" => Some(true),
        "0" | "f" | "false" | "" => Some(false),
        _ => None,
    }
}

/// Text, number or flag written out.
fn scalar(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::String(text) => Some(Cow::Borrowed(text)),
        Value::Number(number) => Some(Cow::Owned(number.to_string())),
        Value::Bool(flag) => Some(Cow::Owned(flag.to_string())),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// A `*` in front and at the end stands for any text; elsewhere it is a star.
fn matches_glob(pattern: &str, text: &str) -> bool {
    match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(middle), Some(_)) => text.contains(middle.strip_suffix('*').unwrap_or(middle)),
        (Some(end), None) => text.ends_with(end),
        (None, Some(start)) => text.starts_with(start),
        (None, None) => text == pattern,
    }
}

#[cfg(test)]
mod tests;

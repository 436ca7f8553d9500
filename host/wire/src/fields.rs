//! Reads the fields of a call by the field schema of its route: aliases, kinds, defaults, marks.
//!
//! The attacks this file prevents: a second spelling of a field unknown to policy (all names are
//! folded to the canonical name before the policy check), and a secret repeated by the message of a
//! refusal.

#[cfg(test)]
mod tests;

use crate::coercion::{accepted_forms, coerce, type_of};
use crate::description::{Field, FieldKind, Route, Verb};
use crate::failure::{Failure, FailureKind, quoted};
use crate::name::is_name;
use serde_json::{Map, Value};
use std::fmt;

/// The fields under their canonical names, coerced to their kinds.
#[derive(Clone, Default, PartialEq)]
pub struct FoldedFields {
    /// Known fields and captures. On routes with open fields, also the other fields, unchanged.
    pub values: Map<String, Value>,
    /// Names unknown to the route, sorted; empty on routes with open fields.
    pub unknown: Vec<String>,
    /// Body fields, by canonical name, overridden by a different value in the path.
    pub overridden: Vec<String>,
    /// Durations, numbers and flags, by canonical name, given only as an empty text.
    pub unsaid: Vec<String>,
}

impl FoldedFields {
    /// Drops fields given as an empty text when a write updates an existing object (decision A6).
    /// Tools and forms send unknown settings as an empty text, and an empty text must not lift a
    /// limit. `0` and `false` are kept, and so is the empty text of a text, list or map, because an
    /// empty text is a valid value there.
    pub fn drop_blank(&mut self, route: &Route, creating: bool) {
        if !creating && route.existence.is_some() {
            self.unsaid.drain(..).for_each(|name| drop(self.values.remove(&name)));
        }
    }
}

/// Shows names, never values.
impl fmt::Debug for FoldedFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Folded")
            .field("values", &self.values.keys().collect::<Vec<_>>())
            .field("unknown", &self.unknown)
            .field("overridden", &self.overridden)
            .field("unsaid", &self.unsaid)
            .finish()
    }
}

/// Folds the fields of a call. `null` means absent, except for PATCH, where `null` removes a
/// member. The path wins over the body. On a verbatim route, the fields are the body as sent,
/// without the captures.
///
/// # Errors
/// 400 for a value not accepted by its kind, or for two different values under two names of one
/// field; 404 for a capture that should be a name and is not.
pub fn fold_names(
    route: &Route,
    input: &Map<String, Value>,
    captures: &[(String, String)],
) -> Result<FoldedFields, Failure> {
    let mut folded = FoldedFields::default();
    if route.verbatim {
        captures.iter().try_for_each(|(name, text)| read_capture(route, name, text).map(drop))?;
        folded.values.clone_from(input);
        return Ok(folded);
    }
    let (named, others) = assign(route, input);
    for (field, spellings) in named {
        if captures.iter().all(|(name, _)| *name != field.name) {
            folded.values.insert(field.name.clone(), single_value(field, &spellings)?);
            if is_blank(field.kind, &spellings) {
                folded.unsaid.push(field.name.clone());
            }
        }
    }
    for (name, text) in captures {
        let value = read_capture(route, name, text)?;
        if contradicts(route, name, &value, input) {
            folded.overridden.push(name.clone());
        }
        folded.values.insert(name.clone(), value);
    }
    for (name, value) in others {
        if route.open_fields {
            folded.values.insert(name.clone(), value.clone());
        } else {
            folded.unknown.push(name.clone());
        }
    }
    folded.unknown.sort_unstable();
    Ok(folded)
}

/// Applies exclusive groups, defaults and required fields. The caller must know by now whether the
/// call creates an object.
///
/// Defaults and required fields apply only to a create or on a route without `existence`, because a
/// partial update keeps all fields not mentioned (decision A6).
///
/// # Errors
/// 400 with the name of the field or fields; 500 for a default unfit for its kind.
pub fn apply_defaults(
    route: &Route,
    values: &mut Map<String, Value>,
    creating: bool,
) -> Result<(), Failure> {
    check_exclusive(route, values)?;
    if !creating && route.existence.is_some() {
        return Ok(());
    }
    let is_due = |field: &&Field| {
        !values.contains_key(&field.name) && !has_exclusive_conflict(route, values, &field.name)
    };
    let due: Vec<&Field> = route.fields.iter().filter(is_due).collect();
    for field in due {
        let Some(default) = &field.default else { continue };
        let value = coerce(field.kind, default).map_err(|_| {
            Failure::internal(format!(
                "the default of field {} is not of the field's kind",
                field.name
            ))
        })?;
        values.insert(field.name.clone(), value);
    }
    let is_missing =
        |field: &&Field| field.required && values.get(&field.name).is_none_or(is_empty);
    match route.fields.iter().find(is_missing) {
        Some(field) => {
            Err(Failure::invalid(format!("{} is required: {}", field.name, field.about)))
        }
        None => Ok(()),
    }
}

/// Returns `value` as `field` reads it, or `None` if the value does not fit.
#[must_use]
pub fn value_of(field: &Field, value: &Value) -> Option<Value> {
    coerce(field.kind, value).ok()
}

/// Returns every non-empty text inside the values of fields marked secret, under the canonical name
/// or any alias, and of secret settings inside other fields.
///
/// The texts of a secret field of the kind [`FieldKind::Any`] are left out: such a value is a
/// document that the component keeps, too large for a search in each message, and no credential
/// that another server might repeat.
#[must_use]
pub fn secrets<'a>(fields: &'a [Field], values: &'a Map<String, Value>) -> Vec<&'a str> {
    let mut found = Vec::new();
    for field in fields {
        let names = std::iter::once(&field.name).chain(&field.aliases);
        for value in names.filter_map(|name| values.get(name)) {
            match value {
                _ if field.secret && field.kind == FieldKind::Any => {}
                value if field.secret => collect_texts(value, &mut found),
                Value::Object(inside) => found.extend(secrets(&field.members, inside)),
                pairs if holds_secrets(field) => found.extend(secrets_of_pairs(field, pairs)),
                _ => {}
            }
        }
    }
    found
}

/// Returns the values of all `name=value` texts with a secret setting of `field` as name, and every
/// text that is not such a pair.
fn secrets_of_pairs<'a>(field: &Field, pairs: &'a Value) -> Vec<&'a str> {
    let mut texts = Vec::new();
    collect_texts(pairs, &mut texts);
    let secret = |text: &'a str| match text.split_once('=') {
        Some((name, value)) => {
            let is_of = |inside: &&Field| has_name(inside, name.trim());
            field.members.iter().find(is_of).is_some_and(holds_secrets).then_some(value)
        }
        None => Some(text),
    };
    texts.into_iter().filter_map(secret).filter(|text| !text.is_empty()).collect()
}

/// Returns whether the field, or any setting inside, is secret.
fn holds_secrets(field: &Field) -> bool {
    field.secret || field.members.iter().any(holds_secrets)
}

type SpelledValue<'a> = (&'a String, &'a Value);

/// Splits the input into the route's fields, each with all spellings given, and the unknown names.
fn assign<'a>(
    route: &'a Route,
    input: &'a Map<String, Value>,
) -> (Vec<(&'a Field, Vec<SpelledValue<'a>>)>, Vec<SpelledValue<'a>>) {
    let is_patch = route.verb == Verb::Patch;
    let entries = || input.iter().filter(|(_, value)| is_patch || !value.is_null());
    let named = route.fields.iter().filter_map(|field| {
        let spellings: Vec<SpelledValue<'_>> =
            entries().filter(|(name, _)| has_name(field, name)).collect();
        (!spellings.is_empty()).then_some((field, spellings))
    });
    let unknown =
        entries().filter(|(name, _)| !route.fields.iter().any(|field| has_name(field, name)));
    (named.collect(), unknown.collect())
}

/// Returns whether `name` is the canonical name of the field, or an alias.
pub(crate) fn has_name(field: &Field, name: &str) -> bool {
    field.name == name || field.aliases.iter().any(|alias| alias == name)
}

/// Returns the value shared by all spellings of a field, or a refusal if spellings differ.
fn single_value(field: &Field, spellings: &[SpelledValue<'_>]) -> Result<Value, Failure> {
    let mut first: Option<(&String, Value)> = None;
    for (name, value) in spellings {
        let coerced = match value {
            // `null` removes a member in a merge patch (RFC 7396).
            Value::Null => Value::Null,
            value => {
                coerce(field.kind, value).map_err(|got| refusal_of(field, name, value, got))?
            }
        };
        match &first {
            Some((other, agreed)) if *agreed != coerced => {
                let message = format!(
                    "{other} and {name} are two names of the same field and differ: give only one"
                );
                return Err(Failure::invalid(message));
            }
            Some(_) => {}
            None => first = Some((name, coerced)),
        }
    }
    first
        .map(|(_, value)| value)
        .ok_or_else(|| Failure::internal(format!("field {} came without a value", field.name)))
}

/// Returns whether a flag, number or duration was given only as an empty text, under all of its
/// names.
fn is_blank(kind: FieldKind, spellings: &[SpelledValue<'_>]) -> bool {
    let is_empty = |value: &Value| value.as_str().is_some_and(|text| text.trim().is_empty());
    matches!(kind, FieldKind::Bool | FieldKind::Int | FieldKind::Duration)
        && spellings.iter().all(|(_, value)| is_empty(value))
}

/// Returns the refusal of a value. `got` may show the value, so only the type is told for a field
/// that is secret or contains a secret setting.
fn refusal_of(field: &Field, name: &str, value: &Value, got: String) -> Failure {
    let got = if holds_secrets(field) { type_of(value).to_owned() } else { got };
    Failure::invalid(format!("{name}: {got} is not {}", accepted_forms(field.kind)))
}

fn read_capture(route: &Route, name: &str, text: &str) -> Result<Value, Failure> {
    let Some(field) = route.fields.iter().find(|field| field.name == name) else {
        return Err(Failure::internal(format!(
            "no field describes capture {name} of {}",
            route.path
        )));
    };
    if field.kind == FieldKind::Name && !is_name(text) {
        let message =
            format!("no such path: {} is not {}", quoted(text), accepted_forms(FieldKind::Name));
        return Err(Failure::new(FailureKind::NotFound, message));
    }
    let value = Value::from(text);
    coerce(field.kind, &value).map_err(|got| refusal_of(field, name, &value, got))
}

/// Returns whether the body contradicts the path. The body's value is not validated, because the
/// path always wins.
fn contradicts(route: &Route, name: &str, value: &Value, input: &Map<String, Value>) -> bool {
    let Some(field) = route.fields.iter().find(|field| field.name == name) else {
        return false;
    };
    let mut spellings = input.iter().filter(|(key, sent)| !sent.is_null() && has_name(field, key));
    spellings.any(|(_, sent)| coerce(field.kind, sent).as_ref() != Ok(value))
}

fn check_exclusive(route: &Route, values: &Map<String, Value>) -> Result<(), Failure> {
    for group in &route.exclusive {
        let mut names = group.iter().filter(|name| values.get(*name).is_some_and(counts_as_given));
        if let (Some(first), Some(second)) = (names.next(), names.next()) {
            return Err(Failure::invalid(format!(
                "{first} and {second} exclude each other: give only one"
            )));
        }
    }
    Ok(())
}

/// Returns whether another field of the same exclusive group is in use; a default must not be set
/// then.
fn has_exclusive_conflict(route: &Route, values: &Map<String, Value>, name: &str) -> bool {
    let groups = route.exclusive.iter().filter(|group| group.iter().any(|member| member == name));
    groups.flatten().any(|member| member != name && values.get(member).is_some_and(counts_as_given))
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Returns whether a value sets anything, as exclusive groups and field rights count. `0` and
/// `false` do not count: numbers, durations and booleans read an empty text as `0` or `false`, and
/// clients send both to switch a field off.
pub(crate) fn counts_as_given(value: &Value) -> bool {
    let off = value.as_bool() == Some(false) || value.as_f64() == Some(0.0);
    !off && !is_empty(value)
}

fn collect_texts<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::String(text) if !text.is_empty() => found.push(text),
        Value::Array(list) => list.iter().for_each(|item| collect_texts(item, found)),
        Value::Object(map) => map.values().for_each(|item| collect_texts(item, found)),
        _ => {}
    }
}

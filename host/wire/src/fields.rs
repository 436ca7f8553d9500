//! The fields of a call, made sense of by the field schema of its route: aliases, kinds, defaults,
//! marks.
//!
//! The attacks it stops: a second spelling of a field that policy does not know (everything is
//! folded to the canonical name before policy looks), and a secret repeated by the message that
//! refuses it.

#[cfg(test)]
mod tests;

use crate::coercion::{coerce, forms, type_of};
use crate::description::{Field, FieldKind, Route, Verb};
use crate::failure::{Failure, Kind, quoted};
use crate::name::is_name;
use serde_json::{Map, Value};
use std::fmt;

/// The fields under their canonical names, coerced.
#[derive(Clone, Default, PartialEq)]
pub struct Folded {
    /// Known fields and captures; on routes with open fields, the others too, as they came.
    pub values: Map<String, Value>,
    /// Names that the route does not know, sorted; empty on routes with open fields.
    pub unknown: Vec<String>,
    /// Body fields, by canonical name, whose value gave way to a different one in the path.
    pub overridden: Vec<String>,
    /// Durations, numbers and flags, by canonical name, that came as an empty text alone.
    pub unsaid: Vec<String>,
}

impl Folded {
    /// Drops what an update of something that exists leaves open (decision A6): tools and forms
    /// write a setting that they do not know as an empty text, and a limit must not end by that.
    /// `0` and `false` are said; so is the empty text of a text, a list or a map, whose value it
    /// is.
    pub fn drop_unsaid(&mut self, route: &Route, creating: bool) {
        if !creating && route.existence.is_some() {
            self.unsaid.drain(..).for_each(|name| drop(self.values.remove(&name)));
        }
    }
}

/// Shows names, never values.
impl fmt::Debug for Folded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Folded")
            .field("values", &self.values.keys().collect::<Vec<_>>())
            .field("unknown", &self.unknown)
            .field("overridden", &self.overridden)
            .field("unsaid", &self.unsaid)
            .finish()
    }
}

/// Folds what came with a call. `null` is absent, but for PATCH, where it removes a member; what
/// the path says wins over the body.
///
/// # Errors
/// 400 for a value that its kind does not accept, or two different values under two names of one
/// field; 404 for a capture that should be a name and is none.
pub fn fold(
    route: &Route,
    input: &Map<String, Value>,
    captures: &[(String, String)],
) -> Result<Folded, Failure> {
    let (named, others) = assign(route, input);
    let mut folded = Folded::default();
    for (field, spellings) in named {
        if captures.iter().all(|(name, _)| *name != field.name) {
            folded.values.insert(field.name.clone(), single_value(field, &spellings)?);
            if is_unsaid(field.kind, &spellings) {
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

/// Completes a call once it is known whether it creates: exclusive groups, defaults, required
/// fields.
///
/// Defaults and required fields count only when something is created, or on a route without
/// existence, because a partial update keeps what it does not mention (decision A6).
///
/// # Errors
/// 400 that names the field or the fields; 500 for a default that does not fit its kind.
pub fn complete(
    route: &Route,
    values: &mut Map<String, Value>,
    creating: bool,
) -> Result<(), Failure> {
    check_exclusive(route, values)?;
    if !creating && route.existence.is_some() {
        return Ok(());
    }
    let is_due = |field: &&Field| {
        !values.contains_key(&field.name) && !has_rival(route, values, &field.name)
    };
    let due: Vec<&Field> = route.fields.iter().filter(is_due).collect();
    for field in due {
        let Some(default) = &field.default else { continue };
        let value = coerce(field.kind, default).map_err(|_| {
            Failure::internal(format!("the default of field {} does not fit its kind", field.name))
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

/// `value` as `field` reads it; `None` where it does not fit.
#[must_use]
pub fn value_of(field: &Field, value: &Value) -> Option<Value> {
    coerce(field.kind, value).ok()
}

/// Every text inside the values of fields marked secret, whichever of their names they stand under,
/// and of the secret settings inside of others. Empty ones are left out.
#[must_use]
pub fn secrets<'a>(fields: &'a [Field], values: &'a Map<String, Value>) -> Vec<&'a str> {
    let mut found = Vec::new();
    for field in fields {
        let names = std::iter::once(&field.name).chain(&field.aliases);
        for value in names.filter_map(|name| values.get(name)) {
            match value {
                value if field.secret => collect_texts(value, &mut found),
                Value::Object(inside) => found.extend(secrets(&field.members, inside)),
                pairs if holds_secrets(field) => found.extend(secrets_of_pairs(field, pairs)),
                _ => {}
            }
        }
    }
    found
}

/// The values of `name=value` whose field inside of `field` is secret, and what is no pair.
fn secrets_of_pairs<'a>(field: &Field, pairs: &'a Value) -> Vec<&'a str> {
    let mut texts = Vec::new();
    collect_texts(pairs, &mut texts);
    let secret = |text: &'a str| match text.split_once('=') {
        Some((name, value)) => {
            let is_of = |inside: &&Field| answers_to(inside, name.trim());
            field.members.iter().find(is_of).is_some_and(holds_secrets).then_some(value)
        }
        None => Some(text),
    };
    texts.into_iter().filter_map(secret).filter(|text| !text.is_empty()).collect()
}

/// Whether the field is secret, or one inside of it.
fn holds_secrets(field: &Field) -> bool {
    field.secret || field.members.iter().any(holds_secrets)
}

type Spelling<'a> = (&'a String, &'a Value);

/// Sorts the input into the route's fields, each with the spellings it came under, and the names
/// that no field has.
fn assign<'a>(
    route: &'a Route,
    input: &'a Map<String, Value>,
) -> (Vec<(&'a Field, Vec<Spelling<'a>>)>, Vec<Spelling<'a>>) {
    let is_patch = route.verb == Verb::Patch;
    let given = || input.iter().filter(|(_, value)| is_patch || !value.is_null());
    let named = route.fields.iter().filter_map(|field| {
        let spellings: Vec<Spelling<'_>> =
            given().filter(|(name, _)| answers_to(field, name)).collect();
        (!spellings.is_empty()).then_some((field, spellings))
    });
    let unknown =
        given().filter(|(name, _)| !route.fields.iter().any(|field| answers_to(field, name)));
    (named.collect(), unknown.collect())
}

fn answers_to(field: &Field, name: &str) -> bool {
    field.name == name || field.aliases.iter().any(|alias| alias == name)
}

/// The one value that all spellings of a field say.
fn single_value(field: &Field, spellings: &[Spelling<'_>]) -> Result<Value, Failure> {
    let mut first: Option<(&String, Value)> = None;
    for (name, value) in spellings {
        let coerced = match value {
            // A merge patch removes a member by it (RFC 7396).
            Value::Null => Value::Null,
            value => coerce(field.kind, value).map_err(|got| refuse(field, name, value, got))?,
        };
        match &first {
            Some((other, agreed)) if *agreed != coerced => {
                let message = format!(
                    "{other} and {name} are two names of one field and differ: give one of them"
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

/// Whether a kind of value that no text is came as an empty one, under each of its names.
fn is_unsaid(kind: FieldKind, spellings: &[Spelling<'_>]) -> bool {
    let is_empty = |value: &Value| value.as_str().is_some_and(|text| text.trim().is_empty());
    matches!(kind, FieldKind::Bool | FieldKind::Int | FieldKind::Duration)
        && spellings.iter().all(|(_, value)| is_empty(value))
}

/// `got` may show the value, so a field that is secret, or may hold what is, says only what type
/// came.
fn refuse(field: &Field, name: &str, value: &Value, got: String) -> Failure {
    let got = if holds_secrets(field) { type_of(value).to_owned() } else { got };
    Failure::invalid(format!("{name}: {got} is not {}", forms(field.kind)))
}

fn read_capture(route: &Route, name: &str, text: &str) -> Result<Value, Failure> {
    let Some(field) = route.fields.iter().find(|field| field.name == name) else {
        return Err(Failure::internal(format!(
            "no field describes capture {name} of {}",
            route.path
        )));
    };
    if field.kind == FieldKind::Name && !is_name(text) {
        let message = format!("no such path: {} is not {}", quoted(text), forms(FieldKind::Name));
        return Err(Failure::new(Kind::NotFound, message));
    }
    let value = Value::from(text);
    coerce(field.kind, &value).map_err(|got| refuse(field, name, &value, got))
}

/// Whether the body says something else than the path. Such a value is not even checked: it never
/// counts.
fn contradicts(route: &Route, name: &str, value: &Value, input: &Map<String, Value>) -> bool {
    let Some(field) = route.fields.iter().find(|field| field.name == name) else {
        return false;
    };
    let mut given = input.iter().filter(|(key, given)| !given.is_null() && answers_to(field, key));
    given.any(|(_, given)| coerce(field.kind, given).as_ref() != Ok(value))
}

fn check_exclusive(route: &Route, values: &Map<String, Value>) -> Result<(), Failure> {
    for group in &route.exclusive {
        let mut given = group.iter().filter(|name| values.get(*name).is_some_and(is_used));
        if let (Some(first), Some(second)) = (given.next(), given.next()) {
            return Err(Failure::invalid(format!(
                "{first} and {second} exclude each other: give one of them"
            )));
        }
    }
    Ok(())
}

/// Whether another field of one of its groups is in use, so that a default must stay away.
fn has_rival(route: &Route, values: &Map<String, Value>, name: &str) -> bool {
    let groups = route.exclusive.iter().filter(|group| group.iter().any(|member| member == name));
    groups.flatten().any(|member| member != name && values.get(member).is_some_and(is_used))
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

/// `0` and `false` are how numbers, durations and booleans write an empty text, and how a client
/// switches one off.
fn is_used(value: &Value) -> bool {
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

//! What a caller sent, as the parameters of which rules speak.
//!
//! The attack this file stops: one setting under a name that the rule does not use. Names on both
//! sides are folded by the route's schema: aliases and old names, in upper or lower case. A group
//! of settings is the settings inside of it too, and a value that sets two things is held against
//! the rules for both.

use bulkhead_wire::description::Field;
use bulkhead_wire::fields;
use serde_json::{Map, Value};
use std::borrow::Cow;

/// What was sent under one name. Two names of one field are two of these, and both must pass.
pub(super) struct Parameter<'a> {
    /// Canonical, in lower case.
    pub(super) name: String,
    /// Canonical, in lower case: the parameter that its value sets too.
    pub(super) counts_as: Option<String>,
    pub(super) value: Cow<'a, Value>,
    /// Whether the endpoint reads it under the name that was sent. Fields are known by their exact
    /// spelling, so that `TTL` is nothing to an endpoint that takes `ttl`: it is held against what
    /// is forbidden, but is not there.
    pub(super) is_read: bool,
    /// It leaves the word to another one that was sent and counts as it.
    pub(super) defers: bool,
    /// The settings inside of it; none where it is no group.
    pub(super) members: Vec<Self>,
    /// Whether something is inside of it that is none of its settings.
    pub(super) holds_others: bool,
}

impl<'a> Parameter<'a> {
    /// What was sent, by the fields of the endpoint. `null` is absent.
    pub(super) fn all(sent: &'a Map<String, Value>, schema: &[Field]) -> Vec<Self> {
        let given = sent.iter().filter(|(_, value)| !value.is_null());
        let mut all: Vec<Self> =
            given.map(|(name, value)| Self::of(name, Cow::Borrowed(value), schema)).collect();
        let said: Vec<String> = all.iter().flat_map(Self::said_of_others).collect();
        for parameter in &mut all {
            parameter.defers = parameter.defers && said.contains(&parameter.name);
        }
        all
    }

    /// Itself and what is inside of it, however deep.
    pub(super) fn flattened(&self) -> Vec<&Self> {
        let inside = self.members.iter().flat_map(Self::flattened);
        std::iter::once(self).chain(inside).collect()
    }

    /// A group by the canonical names of the settings inside of it; `None` for what is no group.
    pub(super) fn by_settings(&self) -> Option<Value> {
        let settings = self.members.iter();
        let entries = settings.map(|one| (one.name.clone(), one.value.clone().into_owned()));
        (!self.members.is_empty()).then(|| Value::Object(entries.collect()))
    }

    fn of(sent: &str, value: Cow<'a, Value>, schema: &[Field]) -> Self {
        let field = field(sent, schema);
        let (members, holds_others) = field.map(|field| inside(field, &value)).unwrap_or_default();
        let deferring = field.and_then(|field| field.deferring.as_deref());
        Self {
            name: canonical(sent, schema),
            counts_as: field
                .and_then(|field| field.counts_as.as_ref())
                .map(|other| canonical(other, schema)),
            is_read: field.is_none_or(|field| names(field).any(|name| name == sent)),
            defers: deferring.is_some() && value.as_str() == deferring,
            value,
            members,
            holds_others,
        }
    }

    /// The parameters of which it, or a setting inside of it, says something.
    fn said_of_others(&self) -> Vec<String> {
        let says = |one: &&Self| one.value.as_str() != Some("");
        let others = self.flattened().into_iter().filter(says);
        others.filter_map(|one| one.counts_as.clone()).collect()
    }
}

/// The settings inside of a group, and whether it holds anything else. Read as the same settings
/// are that stand alone, so that `"60m"` is the 3600 that a rule may speak of.
fn inside(group: &Field, value: &Value) -> (Vec<Parameter<'static>>, bool) {
    let Some(entries) = value.as_object().filter(|_| !group.members.is_empty()) else {
        return (Vec::new(), true);
    };
    let given = || entries.iter().filter(|(_, value)| !value.is_null());
    let known = given().filter_map(|(name, value)| {
        let read = fields::value_of(field(name, &group.members)?, value);
        let value = Cow::Owned(read.unwrap_or_else(|| value.clone()));
        Some(Parameter::of(name, value, &group.members))
    });
    let holds_others = given().any(|(name, _)| field(name, &group.members).is_none());
    (known.collect(), holds_others)
}

/// The lower-case canonical name of a field that a rule calls `name`: of one that has an older name
/// too, the new one.
pub(super) fn canonical(name: &str, schema: &[Field]) -> String {
    let new = |field: &'_ Field| field.old_name_of.clone().unwrap_or_else(|| field.name.clone());
    let field = field(name, schema).or_else(|| member(name, schema));
    field.map_or_else(|| name.to_owned(), new).to_lowercase()
}

/// The parameter that a rule's `name` counts as, if it does.
pub(super) fn counts_as(name: &str, schema: &[Field]) -> Option<String> {
    let field = field(name, schema).or_else(|| member(name, schema))?;
    field.counts_as.as_ref().map(|other| canonical(other, schema))
}

/// The value by which the field `name` leaves the word to another.
pub(super) fn deferring<'a>(name: &str, schema: &'a [Field]) -> Option<&'a str> {
    field(name, schema)?.deferring.as_deref()
}

/// The setting inside of a group, however deep, that a rule means by `name`.
fn member<'a>(name: &str, schema: &'a [Field]) -> Option<&'a Field> {
    schema
        .iter()
        .find_map(|group| field(name, &group.members).or_else(|| member(name, &group.members)))
}

/// The field that a rule means by `name`, in upper or lower case.
fn field<'a>(name: &str, schema: &'a [Field]) -> Option<&'a Field> {
    schema.iter().find(|field| names(field).any(|known| known.eq_ignore_ascii_case(name)))
}

fn names(field: &Field) -> impl Iterator<Item = &String> {
    std::iter::once(&field.name).chain(&field.aliases)
}

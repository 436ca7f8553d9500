//! Parameters of a request, under the names that policy rules use.
//!
//! This file prevents setting a parameter under a name that the rule does not use. Names on both
//! sides are resolved by the route's schema: aliases and old names, in upper or lower case. A group
//! of settings is also checked setting by setting, and a value that sets two things is checked
//! against the rules for both.

use bulkhead_wire::description::Field;
use bulkhead_wire::fields;
use serde_json::{Map, Value};
use std::borrow::Cow;

/// A sent parameter. Two names of the same field are two parameters, and both must pass.
pub(super) struct SentParameter<'a> {
    /// Canonical name in lower case.
    pub(super) name: String,
    /// Canonical lower-case name of another parameter that this parameter's value also sets.
    pub(super) counts_as: Option<String>,
    pub(super) value: Cow<'a, Value>,
    /// True if the endpoint reads the parameter under the sent name. Endpoints match the exact
    /// spelling: an endpoint that takes `ttl` ignores `TTL`. An ignored parameter is checked
    /// against denials, but does not satisfy a required parameter.
    pub(super) is_read: bool,
    /// True if the parameter has its deferring value and another sent parameter that counts as this
    /// parameter decides instead.
    pub(super) defers: bool,
    /// The settings inside a group; empty if the parameter is not a group.
    pub(super) members: Vec<Self>,
    /// True if the value contains anything that is not a declared setting of the group.
    pub(super) holds_others: bool,
}

impl<'a> SentParameter<'a> {
    /// Returns the sent parameters, resolved by the endpoint's fields. `null` counts as absent.
    pub(super) fn all(sent: &'a Map<String, Value>, schema: &[Field]) -> Vec<Self> {
        let entries = sent.iter().filter(|(_, value)| !value.is_null());
        let mut all: Vec<Self> =
            entries.map(|(name, value)| Self::of(name, Cow::Borrowed(value), schema)).collect();
        let said: Vec<String> = all.iter().flat_map(Self::said_of_others).collect();
        for parameter in &mut all {
            parameter.defers = parameter.defers && said.contains(&parameter.name);
        }
        all
    }

    /// Returns the parameter and all settings inside, at any depth.
    pub(super) fn flatten_settings(&self) -> Vec<&Self> {
        let inside = self.members.iter().flat_map(Self::flatten_settings);
        std::iter::once(self).chain(inside).collect()
    }

    /// Returns a group as an object keyed by canonical setting names; `None` if the parameter is
    /// not a group.
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

    /// Returns the other parameters that this parameter, or a setting inside, also sets.
    fn said_of_others(&self) -> Vec<String> {
        let says = |one: &&Self| one.value.as_str() != Some("");
        let others = self.flatten_settings().into_iter().filter(says);
        others.filter_map(|one| one.counts_as.clone()).collect()
    }
}

/// Returns the settings inside a group, and whether the value contains anything else. Values are
/// read like the same settings outside a group, so that `"60m"` becomes the 3600 of a rule.
fn inside(group: &Field, value: &Value) -> (Vec<SentParameter<'static>>, bool) {
    let Some(entries) = value.as_object().filter(|_| !group.members.is_empty()) else {
        return (Vec::new(), true);
    };
    let non_null_entries = || entries.iter().filter(|(_, value)| !value.is_null());
    let parameters = non_null_entries().filter_map(|(name, value)| {
        let read = fields::value_of(field(name, &group.members)?, value);
        let value = Cow::Owned(read.unwrap_or_else(|| value.clone()));
        Some(SentParameter::of(name, value, &group.members))
    });
    let holds_others = non_null_entries().any(|(name, _)| field(name, &group.members).is_none());
    (parameters.collect(), holds_others)
}

/// Returns the lower-case canonical name of a field that a rule calls `name`. For an old name, this
/// is the new name.
pub(super) fn canonical(name: &str, schema: &[Field]) -> String {
    let new = |field: &'_ Field| field.old_name_of.clone().unwrap_or_else(|| field.name.clone());
    let field = field(name, schema).or_else(|| member(name, schema));
    field.map_or_else(|| name.to_owned(), new).to_lowercase()
}

/// Returns the other parameter that a rule's `name` counts as.
pub(super) fn counts_as(name: &str, schema: &[Field]) -> Option<String> {
    let field = field(name, schema).or_else(|| member(name, schema))?;
    field.counts_as.as_ref().map(|other| canonical(other, schema))
}

/// Returns the value that makes the field `name` defer to another field.
pub(super) fn deferring_value<'a>(name: &str, schema: &'a [Field]) -> Option<&'a str> {
    field(name, schema)?.deferring.as_deref()
}

/// Returns the setting inside a group, at any depth, that a rule calls `name`.
fn member<'a>(name: &str, schema: &'a [Field]) -> Option<&'a Field> {
    schema
        .iter()
        .find_map(|group| field(name, &group.members).or_else(|| member(name, &group.members)))
}

/// Returns the field that a rule calls `name`, ignoring case.
fn field<'a>(name: &str, schema: &'a [Field]) -> Option<&'a Field> {
    schema.iter().find(|field| names(field).any(|spelling| spelling.eq_ignore_ascii_case(name)))
}

fn names(field: &Field) -> impl Iterator<Item = &String> {
    std::iter::once(&field.name).chain(&field.aliases)
}

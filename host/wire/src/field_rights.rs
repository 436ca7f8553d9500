//! Rights of fields: finds the fields of a request that need `sudo` and change something.
//!
//! The attack this file prevents: a new field on an old endpoint gives its callers a power that the
//! right to the endpoint never meant, because policies were written before the field existed. A
//! value that changes nothing needs no more than the right to the endpoint, because clients send
//! all settings of an object with each change.

#[cfg(test)]
mod tests;

use crate::description::{Field, Route};
use crate::fields::{counts_as_given, has_name, value_of};
use serde_json::{Map, Value};

/// Values of an object before the request, by canonical name. Settings inside a group are members
/// of the group's object.
#[derive(Clone, Debug, PartialEq)]
pub enum PresentValues {
    /// The values. A missing value counts as an empty value of its field.
    Known(Map<String, Value>),
    /// The object has values that the host cannot read: every sent value counts as a change.
    Unknown,
}

impl PresentValues {
    /// Returns the values of an object that does not exist yet: the defaults of the row.
    #[must_use]
    pub fn defaults(route: &Route) -> Self {
        let default = |field: &Field| Some((field.name.clone(), field.default.clone()?));
        Self::Known(route.fields.iter().filter_map(default).collect())
    }
}

/// Returns whether any field, or any setting inside a field, needs `sudo`.
#[must_use]
pub fn declare_sudo(fields: &[Field]) -> bool {
    fields.iter().any(|field| field.sudo || declare_sudo(&field.members))
}

/// Returns whether `sent` has a field that needs `sudo`.
#[must_use]
pub fn has_sudo_field(fields: &[Field], sent: &Map<String, Value>) -> bool {
    sent.iter().any(|(name, value)| {
        let field = fields.iter().find(|field| has_name(field, name));
        field.is_some_and(|field| field.sudo || has_sudo_member(field, value))
    })
}

fn has_sudo_member(field: &Field, value: &Value) -> bool {
    let group = group_of(field, value);
    group.is_some_and(|group| has_sudo_field(&field.members, &group))
}

/// Returns the names of the fields that need `sudo` and whose values in `sent` differ from the
/// values in `present`. A setting inside a group is named with its group: `config.grants`.
#[must_use]
pub fn changed_sudo_fields(
    fields: &[Field],
    sent: &Map<String, Value>,
    present: &PresentValues,
) -> Vec<String> {
    let mut changed = Vec::new();
    for (name, value) in sent {
        let Some(field) = fields.iter().find(|field| has_name(field, name)) else { continue };
        if field.sudo {
            changed.extend(is_change(field, value, present).then(|| field.name.clone()));
        } else if let Some(group) = group_of(field, value) {
            let inside = changed_sudo_fields(&field.members, &group, &present.inside(field));
            changed.extend(inside.into_iter().map(|member| format!("{}.{member}", field.name)));
        }
    }
    changed
}

impl PresentValues {
    /// Returns the values inside a group.
    fn inside(&self, group: &Field) -> Self {
        match self {
            Self::Known(values) => {
                let inside = values.get(&group.name).and_then(Value::as_object);
                Self::Known(inside.cloned().unwrap_or_default())
            }
            Self::Unknown => Self::Unknown,
        }
    }
}

/// Returns the settings inside a value, if the field is a group and the value an object.
fn group_of(field: &Field, value: &Value) -> Option<Map<String, Value>> {
    if field.members.is_empty() {
        return None;
    }
    value_of(field, value)?.as_object().cloned()
}

fn is_change(field: &Field, sent: &Value, present: &PresentValues) -> bool {
    match present {
        PresentValues::Known(values) => !is_same(field, sent, values.get(&field.name)),
        PresentValues::Unknown => true,
    }
}

/// Returns whether `sent` leaves the value of the field as it is. In a group, settings that are not
/// sent stay.
fn is_same(field: &Field, sent: &Value, present: Option<&Value>) -> bool {
    if let Some(group) = group_of(field, sent) {
        let present = present.and_then(Value::as_object);
        return group.iter().all(|(name, value)| {
            let member = field.members.iter().find(|member| has_name(member, name));
            let canonical = member.map_or(name, |member| &member.name);
            let before = present.and_then(|present| present.get(canonical));
            match member {
                Some(member) => is_same(member, value, before),
                None => before.map_or_else(|| !counts_as_given(value), |before| before == value),
            }
        });
    }
    let read = |value: &Value| value_of(field, value).unwrap_or_else(|| value.clone());
    match present {
        Some(present) => read(sent) == read(present),
        None => !counts_as_given(&read(sent)),
    }
}

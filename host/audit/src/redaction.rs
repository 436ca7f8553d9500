//! Redaction of the data of a request or an answer.
//!
//! This file prevents a secret in the audit file, at any depth of the data. Every text is hashed.
//! If the mount's route table marks a member secret, in any row and under any alias, numbers,
//! booleans and keys of the member are hashed too, even if the mount or the device would show the
//! member.
//!
//! A name is a text of the caller, too: a form that consists of a token is a field with the token
//! as its name. A line shows a name only where a row declares the name or asks for names
//! ([`MemberNames`], decision H81), and hashes every other name with all values below.
//!
//! Also prevents a line much longer than its request: a hash takes 80 bytes where an empty text
//! takes
//! 3. The data of a line are bounded ([`super::bounds`]). A member that is too long becomes a
//!    single digest, and members without room are only counted.

use super::bounds::{MEMBER, NAME};
use super::digests::MemberDigests;
use super::hashing::HashingKey;
use super::json;
use bulkhead_wire::description::{Field, FieldKind};
use bulkhead_wire::route::RouteTable;
use serde_json::{Map, Value};
use std::borrow::Cow;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The readable part of a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ValueReadability {
    /// The whole value.
    Clear,
    /// Numbers, booleans, keys and timestamps; other texts are hashed.
    Values,
    /// Only the structure.
    Nothing,
}

/// The names of an object's members that a line may show.
#[derive(Clone, Copy)]
pub(super) enum MemberNames<'a> {
    /// All names, at any depth: the server or a component chose the names, or a field takes any
    /// value.
    Shown,
    /// The names of this object, which are the keys of a map of texts; no names below.
    Keys,
    /// The names of these fields, and below each field the names that its kind asks for. All names
    /// of this object if `is_open`.
    Declared { fields: &'a [Field], is_open: bool },
    /// No names: the caller chose the names, and no row asked for them.
    Hidden,
}

impl<'a> MemberNames<'a> {
    /// Returns the names inside the member `name`; `None` if the name itself is hidden.
    fn inside(self, name: &str) -> Option<Self> {
        match self {
            Self::Shown => Some(Self::Shown),
            Self::Keys => Some(Self::Hidden),
            Self::Hidden => None,
            Self::Declared { fields, is_open } => {
                let is_named = |field: &&Field| {
                    field.name == name || field.aliases.iter().any(|alias| alias == name)
                };
                match fields.iter().find(is_named) {
                    Some(field) => Some(Self::of_field(field)),
                    None => is_open.then_some(Self::Hidden),
                }
            }
        }
    }

    /// Returns the names inside a value of `field`. An object in place of a text has none.
    fn of_field(field: &'a Field) -> Self {
        match field.kind {
            _ if !field.members.is_empty() => {
                Self::Declared { fields: &field.members, is_open: false }
            }
            FieldKind::Any => Self::Shown,
            FieldKind::Map => Self::Keys,
            _ => Self::Hidden,
        }
    }

    /// Returns the names inside the items of a list.
    fn in_list(self) -> Self {
        if matches!(self, Self::Keys) { Self::Hidden } else { self }
    }
}

/// The redaction rules for the data of a single request or answer on a single device.
pub(super) struct RedactionRules<'a> {
    pub(super) hashing: &'a HashingKey,
    /// The route table, which marks secret names. Without a table, nothing is shown.
    pub(super) table: Option<&'a RouteTable>,
    /// The names of the data's own members that may be shown.
    pub(super) names: MemberNames<'a>,
    /// Members that the mount shows: its `audit_non_hmac_request_keys` or
    /// `audit_non_hmac_response_keys`.
    pub(super) clear: &'a [String],
    /// True if the device shows all members that are not marked secret.
    pub(super) raw: bool,
}

/// The members that the data of a line leave out.
#[derive(Default)]
pub(super) struct OmittedMembers {
    /// Number of members that left no trace in the line.
    pub(super) members: usize,
    /// Digests of the members that are too long.
    pub(super) digests: MemberDigests,
}

/// A value does not fit into its place.
struct ValueTooLarge;

impl RedactionRules<'_> {
    /// Writes the members of `data` as an object, in order, until `most` bytes are used. Returns
    /// the omitted members. Digests count towards `most`.
    pub(super) fn object<'a>(
        &self,
        data: impl IntoIterator<Item = (&'a String, &'a Value)>,
        most: usize,
        out: &mut Vec<u8>,
    ) -> OmittedMembers {
        let end = out.len().saturating_add(most);
        let mut left_out = OmittedMembers::default();
        let mut object = json::JsonObject::begin(out);
        for (name, value) in data {
            // After the first member that does not fit, no further member is inspected.
            if left_out.members > 0 || !self.member((name, value), end, &mut object, &mut left_out)
            {
                left_out.members += 1;
            }
        }
        object.end();
        left_out
    }

    /// Writes a member, or its digest. Returns `false` if neither fits before `end`.
    fn member(
        &self,
        (name, value): (&str, &Value),
        end: usize,
        object: &mut json::JsonObject<'_>,
        left_out: &mut OmittedMembers,
    ) -> bool {
        let (mark, digested) = (object.next_position(), left_out.digests.written());
        let end = end.saturating_sub(digested);
        let ends = end.min(object.written().saturating_add(MEMBER));
        let (shown_name, shown, inside) = self.member_shown(name);
        if self.value(value, (shown, inside), ends, object.key(&shown_name)).is_ok() {
            return true;
        }
        object.remove_after(mark);
        match value {
            // The digest of a text is the plain hash of the text, so that readers can search for
            // it.
            Value::String(text) => {
                left_out.digests.add_hash(&self.hashing.hash(text), &shown_name, 1);
            }
            _ => left_out.digests.add(self.hashing, &shown_name, value, count(value)),
        }
        let fits = object.written() + left_out.digests.written() - digested <= end;
        if !fits {
            left_out.digests.cut(digested);
        }
        fits
    }

    /// Returns a member of the data as a line shows it: the name, the readability of the value, and
    /// the names inside the value.
    fn member_shown<'n>(&self, name: &'n str) -> (Cow<'n, str>, ValueReadability, MemberNames<'_>) {
        match (self.shown(name), self.names.inside(name)) {
            (ValueReadability::Clear, _) => {
                (self.name(name), ValueReadability::Clear, MemberNames::Shown)
            }
            (shown, Some(inside)) if self.table.is_some() => (self.name(name), shown, inside),
            _ => (self.hashing.hash(name).into(), ValueReadability::Nothing, MemberNames::Hidden),
        }
    }

    /// Returns the name for display. A long name is hashed, because it is most likely not a name.
    fn name<'n>(&self, name: &'n str) -> Cow<'n, str> {
        if name.len() <= NAME { name.into() } else { self.hashing.hash(name).into() }
    }

    fn shown(&self, name: &str) -> ValueReadability {
        match self.table {
            None => ValueReadability::Nothing,
            Some(table) if table.is_secret(name) => ValueReadability::Nothing,
            Some(_) if self.raw || self.clear.iter().any(|clear| clear == name) => {
                ValueReadability::Clear
            }
            Some(_) => ValueReadability::Values,
        }
    }

    /// Writes a value that must end before `end`. On [`ValueTooLarge`], part of the value may be
    /// written.
    fn value(
        &self,
        value: &Value,
        (shown, names): (ValueReadability, MemberNames<'_>),
        end: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), ValueTooLarge> {
        match value {
            Value::Array(list) => {
                out.push(b'[');
                for (index, item) in list.iter().enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    self.value(item, (shown, names.in_list()), end, out)?;
                }
                out.push(b']');
            }
            Value::Object(map) => self.nested(map, (shown, names), end, out)?,
            Value::String(text)
                if shown == ValueReadability::Nothing
                    || (shown == ValueReadability::Values && !is_timestamp(text)) =>
            {
                self.hash(text, out);
            }
            Value::Bool(_) | Value::Number(_) if shown == ValueReadability::Nothing => {
                self.hash(&value.to_string(), out)
            }
            Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {
                let room = end.saturating_sub(out.len());
                if !json::value_within(value, room, out) {
                    return Err(ValueTooLarge);
                }
            }
        }
        if out.len() > end { Err(ValueTooLarge) } else { Ok(()) }
    }

    fn nested(
        &self,
        map: &Map<String, Value>,
        (shown, names): (ValueReadability, MemberNames<'_>),
        end: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), ValueTooLarge> {
        let mut object = json::JsonObject::begin(out);
        for (name, value) in map {
            let is_secret = self.table.is_some_and(|table| table.is_secret(name));
            let (name, shown, inside) = match (shown, names.inside(name)) {
                (ValueReadability::Values, None) | (ValueReadability::Nothing, _) => {
                    let name = Cow::Owned(self.hashing.hash(name));
                    (name, ValueReadability::Nothing, MemberNames::Hidden)
                }
                (_, inside) if is_secret => {
                    let inside = inside.unwrap_or(MemberNames::Hidden);
                    (self.name(name), ValueReadability::Nothing, inside)
                }
                (shown, inside) => (self.name(name), shown, inside.unwrap_or(MemberNames::Shown)),
            };
            self.value(value, (shown, inside), end, object.key(&name))?;
        }
        object.end();
        Ok(())
    }

    fn hash(&self, text: &str, out: &mut Vec<u8>) {
        out.push(b'"');
        self.hashing.push(text.as_bytes(), out);
        out.push(b'"');
    }
}

/// Returns the number of values inside a value. An empty list or object counts as 1.
fn count(value: &Value) -> usize {
    match value {
        Value::Array(list) => list.iter().map(count).sum::<usize>().max(1),
        Value::Object(map) => map.values().map(count).sum::<usize>().max(1),
        _ => 1,
    }
}

/// Returns whether `text` is an RFC 3339 timestamp, which is shown (decision H20).
fn is_timestamp(text: &str) -> bool {
    // Two bytes rule out nearly every other text.
    let bytes = text.as_bytes();
    bytes.get(4) == Some(&b'-')
        && bytes.get(10) == Some(&b'T')
        && OffsetDateTime::parse(text, &Rfc3339).is_ok()
}

#[cfg(test)]
mod tests;

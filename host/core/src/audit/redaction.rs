//! What of a request's and an answer's data may be read in a line.
//!
//! The attack this file stops: a secret in the audit file, wherever it was put. Every text is
//! hashed, however deep it lies. Of a member that the mount's route table marks secret, in any of
//! its rows and under any of its names, numbers, booleans and keys are hashed, too, by the
//! mount or the device would show.
//!
//! And a line that is longer than the request that it tells of: a hash takes eighty bytes where an
//! empty text takes three. The data of a line have a bound ([`super::bounds`]). A member that is
//! too long stands as one digest, and members for which there is no room are told by their number.

use super::bounds::{MEMBER, NAME};
use super::digests::Digests;
use super::hashing::Hashing;
use super::json;
use bulkhead_wire::route::Table;
use serde_json::{Map, Value};
use std::borrow::Cow;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// How much of a value may be read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    /// All of it.
    Clear,
    /// Numbers, booleans, keys and points in time; texts as hashes.
    Values,
    /// Nothing but its shape.
    Nothing,
}

/// The rules for the data of one request or answer on one device.
pub(super) struct Redaction<'a> {
    pub(super) hashing: &'a Hashing,
    /// Knows which names are secret. Without one nothing is known of the data, and nothing but keys
    /// is shown.
    pub(super) table: Option<&'a Table>,
    /// Members that the mount shows: its `audit_non_hmac_request_keys` or
    /// `audit_non_hmac_response_keys`.
    pub(super) clear: &'a [String],
    /// The device shows what is not marked secret.
    pub(super) raw: bool,
}

/// The members that the data of a line leave out.
#[derive(Default)]
pub(super) struct LeftOut {
    /// Members of which the line has nothing.
    pub(super) members: usize,
    /// Members that are too long.
    pub(super) digests: Digests,
}

/// A value does not fit into its place.
struct Full;

impl Redaction<'_> {
    /// Writes the members of `data` as an object, from the first on as many as fit into `most`
    /// bytes. Returns what is left out: the digests take their bytes of `most`, too.
    pub(super) fn object<'a>(
        &self,
        data: impl IntoIterator<Item = (&'a String, &'a Value)>,
        most: usize,
        out: &mut Vec<u8>,
    ) -> LeftOut {
        let end = out.len().saturating_add(most);
        let mut left_out = LeftOut::default();
        let mut object = json::Object::begin(out);
        for (name, value) in data {
            // Behind the first one that does not fit nothing is looked at.
            if left_out.members > 0 || !self.member((name, value), end, &mut object, &mut left_out)
            {
                left_out.members += 1;
            }
        }
        object.end();
        left_out
    }

    /// Writes one member, or its digest. `false` where neither fits before `end`.
    fn member(
        &self,
        (name, value): (&str, &Value),
        end: usize,
        object: &mut json::Object<'_>,
        left_out: &mut LeftOut,
    ) -> bool {
        let (mark, digested) = (object.mark(), left_out.digests.written());
        let end = end.saturating_sub(digested);
        let ends = end.min(object.written().saturating_add(MEMBER));
        let shown_name = self.name(name);
        if self.value(value, self.shown(name), ends, object.key(&shown_name)).is_ok() {
            return true;
        }
        object.cut(mark);
        match value {
            // That of a text is its hash, by which it is looked for.
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

    /// A name as it is shown: a long one is most likely no name.
    fn name<'n>(&self, name: &'n str) -> Cow<'n, str> {
        shown_name(self.hashing, name)
    }

    fn shown(&self, name: &str) -> Shown {
        match self.table {
            None => Shown::Nothing,
            Some(table) if table.is_secret(name) => Shown::Nothing,
            Some(_) if self.raw || self.clear.iter().any(|clear| clear == name) => Shown::Clear,
            Some(_) => Shown::Values,
        }
    }

    /// Writes a value that is to end before `end`. Where it does not, part of it may be written.
    fn value(
        &self,
        value: &Value,
        shown: Shown,
        end: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), Full> {
        match value {
            Value::Array(list) => {
                out.push(b'[');
                for (index, item) in list.iter().enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    self.value(item, shown, end, out)?;
                }
                out.push(b']');
            }
            Value::Object(map) => self.nested(map, shown, end, out)?,
            Value::String(text)
                if shown == Shown::Nothing || (shown == Shown::Values && !is_timestamp(text)) =>
            {
                self.hash(text, out);
            }
            Value::Bool(_) | Value::Number(_) if shown == Shown::Nothing => {
                self.hash(&value.to_string(), out)
            }
            Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {
                let room = end.saturating_sub(out.len());
                if !json::value_within(value, room, out) {
                    return Err(Full);
                }
            }
        }
        if out.len() > end { Err(Full) } else { Ok(()) }
    }

    fn nested(
        &self,
        map: &Map<String, Value>,
        shown: Shown,
        end: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), Full> {
        let mut object = json::Object::begin(out);
        for (name, value) in map {
            let is_secret = self.table.is_some_and(|table| table.is_secret(name));
            let (name, shown) = match shown {
                Shown::Nothing => (Cow::Owned(self.hashing.hash(name)), shown),
                _ if is_secret => (self.name(name), Shown::Nothing),
                _ => (self.name(name), shown),
            };
            self.value(value, shown, end, object.key(&name))?;
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

/// The name of a member as a line shows it: a long one stands as its hash.
pub(super) fn shown_name<'n>(hashing: &Hashing, name: &'n str) -> Cow<'n, str> {
    if name.len() <= NAME { name.into() } else { hashing.hash(name).into() }
}

/// The number of values inside a value, empty lists and objects included.
fn count(value: &Value) -> usize {
    match value {
        Value::Array(list) => list.iter().map(count).sum::<usize>().max(1),
        Value::Object(map) => map.values().map(count).sum::<usize>().max(1),
        _ => 1,
    }
}

/// Whether `text` is a point in time as RFC 3339 writes it, which is shown (decision H20).
fn is_timestamp(text: &str) -> bool {
    // Nearly every text is something else, which two bytes tell.
    let bytes = text.as_bytes();
    bytes.get(4) == Some(&b'-')
        && bytes.get(10) == Some(&b'T')
        && OffsetDateTime::parse(text, &Rfc3339).is_ok()
}

#[cfg(test)]
mod tests;

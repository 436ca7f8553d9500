//! What of a request's and an answer's data may be read in a line.
//!
//! The attack this file stops: a secret in the audit file, wherever it was put. Every text is
//! hashed, however deep it lies. Of a member that the mount's route table marks secret, in any of
//! its rows and under any of its names, numbers, booleans and keys are hashed, too, by the
//! mount or the device would show.
//!
//! A hash takes eighty bytes where two may suffice in a request: where the sender is not trusted
//! with the operator's disk, a line takes so many bytes of data and no more.

use super::hashing::Hashing;
use super::json;
use bulkhead_wire::route::Table;
use serde_json::{Map, Value};
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

impl Redaction<'_> {
    /// Writes the members of `data` as an object, from the first on as many as fit into `most`
    /// bytes. Returns the number of the others.
    pub(super) fn object(
        &self,
        data: &Map<String, Value>,
        most: usize,
        out: &mut Vec<u8>,
    ) -> usize {
        let end = out.len().saturating_add(most);
        let mut object = json::Object::begin(out);
        let mut shown = 0;
        for (name, value) in data {
            let before = object.written();
            self.value(value, self.shown(name), end, object.key(name));
            if object.written() > end {
                object.cut(before, shown == 0);
                break;
            }
            shown += 1;
        }
        object.end();
        data.len() - shown
    }

    fn shown(&self, name: &str) -> Shown {
        match self.table {
            None => Shown::Nothing,
            Some(table) if table.is_secret(name) => Shown::Nothing,
            Some(_) if self.raw || self.clear.iter().any(|clear| clear == name) => Shown::Clear,
            Some(_) => Shown::Values,
        }
    }

    /// Writes a value, of which nothing counts any more once `out` is longer than `end`.
    fn value(&self, value: &Value, shown: Shown, end: usize, out: &mut Vec<u8>) {
        match value {
            Value::Array(list) => {
                out.push(b'[');
                for (index, item) in list.iter().enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    if out.len() > end {
                        return;
                    }
                    self.value(item, shown, end, out);
                }
                out.push(b']');
            }
            Value::Object(map) => self.write_nested(map, shown, end, out),
            Value::Null => json::value(value, out),
            Value::String(text)
                if shown == Shown::Nothing || (shown == Shown::Values && !is_timestamp(text)) =>
            {
                self.hash(text, out);
            }
            Value::Bool(_) | Value::Number(_) if shown == Shown::Nothing => {
                self.hash(&value.to_string(), out)
            }
            Value::String(_) | Value::Bool(_) | Value::Number(_) => json::value(value, out),
        }
    }

    fn write_nested(&self, map: &Map<String, Value>, shown: Shown, end: usize, out: &mut Vec<u8>) {
        let mut object = json::Object::begin(out);
        for (name, value) in map {
            if object.written() > end {
                return;
            }
            match shown {
                Shown::Nothing => {
                    self.value(value, shown, end, object.key(&self.hashing.hash(name)))
                }
                _ if self.table.is_some_and(|table| table.is_secret(name)) => {
                    self.value(value, Shown::Nothing, end, object.key(name));
                }
                _ => self.value(value, shown, end, object.key(name)),
            }
        }
        object.end();
    }

    fn hash(&self, text: &str, out: &mut Vec<u8>) {
        out.push(b'"');
        self.hashing.push(text.as_bytes(), out);
        out.push(b'"');
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
mod tests {
    use super::*;
    use bulkhead_wire::description::{Field, FieldKind, Route, Verb};
    use serde_json::json;

    fn table() -> Table {
        let aliased = Field::new("password", FieldKind::Any, "").secret();
        let fields = vec![
            Field { aliases: vec!["bindpass".to_owned()], ..aliased },
            Field::new("ttl", FieldKind::Duration, ""),
            Field::new("username", FieldKind::String, ""),
        ];
        Table::new(vec![Route { fields, ..Route::new(Verb::Write, "config", "") }]).unwrap()
    }

    /// What a line holds of `data`, with `h:` in front of what was hashed.
    fn shown(data: &Value, described: bool, clear: &[&str], raw: bool) -> Value {
        let (hashing, table) = (Hashing::new(b"key"), table());
        let clear: Vec<String> = clear.iter().map(|name| (*name).to_owned()).collect();
        let redaction =
            Redaction { hashing: &hashing, table: described.then_some(&table), clear: &clear, raw };
        let mut out = Vec::new();
        assert_eq!(redaction.object(data.as_object().unwrap(), usize::MAX, &mut out), 0);
        serde_json::from_slice(&out).unwrap()
    }

    fn hash(text: &str) -> Value {
        json!(Hashing::new(b"key").hash(text))
    }

    #[test]
    fn texts_are_hashed_at_any_depth_and_numbers_booleans_keys_and_times_are_shown() {
        let data = json!({
            "username": "root", "ttl": 60, "on": true, "none": null, "at": "2026-11-21T17:33:56.5Z",
            "deep": [{ "a": ["b", 2, [["c"]]] }], "empty": "",
        });
        let seen = json!({
            "username": hash("root"), "ttl": 60, "on": true, "none": null,
            "at": "2026-11-21T17:33:56.5Z",
            "deep": [{ "a": [hash("b"), 2, [[hash("c")]]] }], "empty": hash(""),
        });
        assert_eq!(shown(&data, true, &[], false), seen);
    }

    #[test]
    fn of_what_is_marked_secret_nothing_is_shown_but_its_shape() {
        for name in ["password", "bindpass"] {
            let at = "2026-11-21T17:33:56Z";
            let data = json!({ name: [4711, true, { at: at, "k": null }] });
            let time = Hashing::new(b"key").hash("2026-11-21T17:33:56Z");
            let key = Hashing::new(b"key").hash("k");
            let seen = json!({ name: [hash("4711"), hash("true"), { &time: time, key: null }] });
            for (clear, raw) in [(&[][..], false), (&[name][..], false), (&[][..], true)] {
                assert_eq!(shown(&data, true, clear, raw), seen);
            }
        }
    }

    #[test]
    fn what_is_marked_secret_is_found_below_other_members_too() {
        let data =
            json!({ "details": { "password": 1234, "host": "h", "inner": [{ "bindpass": "p" }] } });
        let inner = json!([{ "bindpass": hash("p") }]);
        let seen = json!({
            "details": { "password": hash("1234"), "host": "h", "inner": inner }
        });
        assert_eq!(shown(&data, true, &["details"], false), seen);
        assert_eq!(shown(&data, true, &[], true), seen);
    }

    #[test]
    fn a_mount_shows_the_members_that_it_names_and_a_raw_device_all() {
        let data = json!({ "username": "root", "unknown": { "a": "b" } });
        let named = json!({ "username": "root", "unknown": { "a": hash("b") } });
        assert_eq!(shown(&data, true, &["username", "a"], false), named);
        assert_eq!(shown(&data, true, &[], true), data);
    }

    #[test]
    fn of_data_that_no_table_describes_nothing_is_shown() {
        let data = json!({ "pin": 1234, "password": "p", "list": [{ "k": false }] });
        let key = Hashing::new(b"key").hash("k");
        let seen =
            json!({ "pin": hash("1234"), "password": hash("p"), "list": [{ key: hash("false") }] });
        for raw in [false, true] {
            assert_eq!(shown(&data, false, &["pin"], raw), seen);
        }
    }

    #[test]
    fn what_only_looks_like_a_time_is_hashed() {
        for text in [
            "2026-11-21",
            "2026-13-21T17:33:56Z",
            "2026-11-21T17:33:56Z and more",
            "abcd-ef-ghTij:kl:mnZ",
        ] {
            assert_eq!(
                shown(&json!({ "at": text }), true, &[], false),
                json!({ "at": hash(text) }),
                "{text}"
            );
        }
    }

    #[test]
    fn what_does_not_fit_is_left_out_whole_and_its_number_is_told() {
        let (hashing, table) = (Hashing::new(b"key"), table());
        let redaction =
            Redaction { hashing: &hashing, table: Some(&table), clear: &[], raw: false };
        let zeros = Value::Array(vec![json!(""); 10_000]);
        for (data, left, shown) in [
            (json!({ "a": 1, "b": zeros, "c": 2 }), 2, json!({ "a": 1 })),
            (json!({ "a": { "b": zeros } }), 1, json!({})),
            (
                json!({ "a": 1, "b": "x".repeat(10_000) }),
                0,
                json!({ "a": 1, "b": hash(&"x".repeat(10_000)) }),
            ),
        ] {
            let mut out = Vec::new();
            assert_eq!(redaction.object(data.as_object().unwrap(), 100, &mut out), left);
            assert_eq!(serde_json::from_slice::<Value>(&out).unwrap(), shown);
            assert!(out.capacity() < 1 << 10, "{}", out.capacity());
        }
    }

    #[test]
    fn hostile_keys_and_texts_cannot_leave_their_place() {
        let data = json!({
            "a\"},\"type\":\"response": 1, "line\nbreak": "\u{0}\u{2028}\"", "\u{7f}": {}
        });
        let (hashing, table) = (Hashing::new(b"key"), table());
        let redaction = Redaction { hashing: &hashing, table: Some(&table), clear: &[], raw: true };
        let mut out = Vec::new();
        redaction.object(data.as_object().unwrap(), usize::MAX, &mut out);
        assert!(!out.contains(&b'\n'));
        assert_eq!(serde_json::from_slice::<Value>(&out).unwrap(), data);
    }
}

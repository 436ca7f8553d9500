//! Strict JSON parsing of outside input: request bodies, component descriptions, and component
//! answers.
//!
//! The attacks this file prevents: two values for one key, with the policy check reading one and
//! the engine the other; nesting that exhausts the stack; and small texts that grow a hundredfold
//! in memory (`[0,0,0,…`).

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::cell::Cell;
use std::fmt;

/// Maximum number of values in one text, containers included. A value takes at least 32 bytes of
/// memory but as little as two bytes of text, so the size limit alone is not enough. `serde_json`
/// itself limits nesting to 128.
pub const VALUES_MAX: u32 = 200_000;

/// Maximum number of values read by [`members`].
pub const MEMBERS_MAX: u32 = 512;

/// Memory of a text besides its bytes, in bytes: a separate allocation.
const TEXT_SIZE: u64 = 32;
/// Memory of any other value, or of a list with its first value, in bytes: a slot in a list
/// allocated for four values and doubled when full, or half a tree node in an object.
const VALUE_SIZE: u64 = 160;
/// Memory of an object with one member, in bytes: a whole tree node.
const OBJECT_SIZE: u64 = 736;

/// Maximum length of a key repeated in an error, in characters.
const MAX_SHOWN_KEY: usize = 64;

/// Returns whether a body is empty. Go clients send `null` if they have no fields.
fn is_empty_body(bytes: &[u8]) -> bool {
    matches!(bytes.trim_ascii(), b"" | b"null")
}

/// Reads a body that must be one JSON object; a blank body and `null` count as an object without
/// fields.
///
/// # Errors
/// A message for the caller: not JSON (with line and column, never with the text, which may be a
/// secret), not an object, a key given twice in any object, more than [`VALUES_MAX`] values, or
/// nesting deeper than 128.
pub fn object(bytes: &[u8]) -> Result<Map<String, Value>, String> {
    if is_empty_body(bytes) {
        return Ok(Map::new());
    }
    match parse(bytes).map_err(|error| format!("failed to parse JSON input: {error}"))? {
        Value::Object(fields) => Ok(fields),
        other => Err(format!(
            "failed to parse JSON input: the body is {}; \
             send an object such as {{\"field\": \"value\"}}",
            kind_of(&other)
        )),
    }
}

/// Reads the members `names` of a body that must be one JSON object, and skips all other members
/// without storing them. Intended for unauthenticated senders. A blank body and `null` have no
/// members.
///
/// # Errors
/// As [`object`], with at most [`MEMBERS_MAX`] values; skipped members only have to be JSON.
pub fn members(bytes: &[u8], names: &[String]) -> Result<Map<String, Value>, String> {
    if is_empty_body(bytes) {
        return Ok(Map::new());
    }
    let (left, most) = (Cell::new(MEMBERS_MAX), MEMBERS_MAX);
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let read = deserializer
        .deserialize_map(MemberFilter { names, strict: StrictSeed { left: &left, most } });
    let read = read.and_then(|read| deserializer.end().map(|()| read));
    read.map_err(|error| format!("failed to parse JSON input: {error}"))
}

/// Returns an upper bound of the memory a text takes once parsed, in bytes, the text's own bytes
/// included. Callers limit concurrent parsing with this figure. Strings count by their length
/// only.
#[must_use]
pub fn parsed_size(bytes: &[u8]) -> u64 {
    let mut size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    let (mut in_text, mut is_escaped) = (false, false);
    for byte in bytes {
        if in_text {
            in_text = is_escaped || *byte != b'"';
            is_escaped = !is_escaped && *byte == b'\\';
            continue;
        }
        in_text = *byte == b'"';
        size = size.saturating_add(match byte {
            b'"' => TEXT_SIZE,
            b'{' => OBJECT_SIZE,
            b'[' | b',' => VALUE_SIZE,
            _ => 0,
        });
    }
    size
}

/// Reads one JSON value of any kind.
///
/// # Errors
/// As [`object`], but any kind is accepted.
pub fn value(bytes: &[u8]) -> Result<Value, String> {
    parse(bytes).map_err(|error| error.to_string())
}

fn parse(bytes: &[u8]) -> Result<Value, serde_json::Error> {
    let (left, most) = (Cell::new(VALUES_MAX), VALUES_MAX);
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = StrictSeed { left: &left, most }.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Builds a [`Value`] like `serde_json`, but refuses duplicate keys and too many values.
#[derive(Clone, Copy)]
struct StrictSeed<'a> {
    left: &'a Cell<u32>,
    /// Number of values allowed at the start.
    most: u32,
}

impl StrictSeed<'_> {
    fn count<E: Error>(self) -> Result<(), E> {
        let left = self.left.get().checked_sub(1);
        let most = self.most;
        self.left.set(left.ok_or_else(|| E::custom(format!("it holds more than {most} values")))?);
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for StrictSeed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.count()?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for StrictSeed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if object.contains_key(&key) {
                return Err(duplicate_key(&key));
            }
            let value = entries.next_value_seed(self)?;
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

fn duplicate_key<E: Error>(key: &str) -> E {
    let shown: String = key.chars().take(MAX_SHOWN_KEY).collect();
    E::custom(format!("key {shown:?} is given twice; send it once"))
}

/// Builds an object from some members, and skips all other members.
struct MemberFilter<'a> {
    names: &'a [String],
    strict: StrictSeed<'a>,
}

impl<'de> Visitor<'de> for MemberFilter<'_> {
    type Value = Map<String, Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object such as {\"field\": \"value\"}")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if !self.names.contains(&key) {
                entries.next_value::<IgnoredAny>()?;
                continue;
            }
            if object.contains_key(&key) {
                return Err(duplicate_key(&key));
            }
            let value = entries.next_value_seed(self.strict)?;
            object.insert(key, value);
        }
        Ok(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_arrive_as_they_were_sent() {
        let text = r#"{"a":null,"b":[true,-1,18446744073709551615,1.5],"c":{"d":"é"}}"#;
        let read = object(text.as_bytes()).unwrap();
        assert_eq!(Value::Object(read), serde_json::from_str::<Value>(text).unwrap());
    }

    #[test]
    fn a_blank_body_and_null_have_no_fields() {
        for nothing in [&b""[..], b" \r\n\t", b"null", b" null\n"] {
            assert!(object(nothing).unwrap().is_empty());
            assert!(members(nothing, &["key".to_owned()]).unwrap().is_empty());
        }
    }

    #[test]
    fn non_object_value_is_refused_with_kind() {
        for (body, kind) in
            [("[]", "a list"), ("3", "a number"), ("\"x\"", "a string"), ("true", "a boolean")]
        {
            let error = object(body.as_bytes()).unwrap_err();
            assert!(
                error.starts_with("failed to parse JSON input: ") && error.contains(kind),
                "{body}: {error}"
            );
        }
    }

    #[test]
    fn duplicate_key_is_named_at_any_depth() {
        assert!(object(br#"{"ttl":1,"ttl":2}"#).unwrap_err().contains("\"ttl\" is given twice"));
        assert!(object(br#"{"a":[{"b":1,"b":1}]}"#).unwrap_err().contains("\"b\" is given twice"));
        assert!(
            object(br#"{"t\u0074l":1,"ttl":2}"#).unwrap_err().contains("\"ttl\""),
            "escapes hide no twin"
        );
    }

    #[test]
    fn malformed_text_is_refused_without_repeating_it() {
        for body in [
            "{",
            "{\"a\":}",
            "{'a':1}",
            "{\"a\":1,}",
            "{\"a\":1} x",
            "{\"a\":nan}",
            "hunter2",
            "{\"p\":\"hunter2",
        ] {
            let error = object(body.as_bytes()).unwrap_err();
            assert!(error.starts_with("failed to parse JSON input: "), "{body}: {error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
        assert!(object(b"{\"a\":\"\xff\"}").is_err(), "text that is not UTF-8 is refused");
    }

    #[test]
    fn deep_nesting_fails_without_crash() {
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(object(deep.as_bytes()).unwrap_err().contains("recursion limit"));
        let ordinary = format!("{{\"a\":{}{}}}", "[".repeat(100), "]".repeat(100));
        assert!(object(ordinary.as_bytes()).is_ok());
    }

    #[test]
    fn unrequested_members_are_skipped_at_any_size() {
        let names = ["key".to_owned(), "reset".to_owned()];
        let junk = "[{\"a\":0}],".repeat(100_000);
        let text = format!("{{\"x\":[{junk}1],\"key\":\"share\",\"y\":{{}},\"reset\":[true]}}");
        let read = members(text.as_bytes(), &names).unwrap();
        assert_eq!(Value::Object(read), serde_json::json!({"key": "share", "reset": [true]}));
        let many = format!("{{\"key\":[{}0]}}", "0,".repeat(600));
        for (text, why) in [
            (many.as_str(), "more than 512 values"),
            ("{\"key\":1,\"key\":1}", "given twice"),
            ("{\"x\":}", "failed to parse"),
            ("{\"x\":1} y", "failed to parse"),
            ("[1]", "an object such as"),
            ("\"hunter2", "failed to parse"),
        ] {
            let error = members(text.as_bytes(), &names).unwrap_err();
            assert!(error.contains(why) && !error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn parsed_size_counts_values_and_ignores_quoted_syntax() {
        let objects = format!("[{}0]", "{\"a\":0},".repeat(1_000));
        let size = parsed_size(objects.as_bytes());
        assert!((736_000..1_200_000).contains(&size), "{size}");
        let zeros = format!("[{}0]", "0,".repeat(1_000));
        assert!(parsed_size(zeros.as_bytes()) > 1_000 * 64);
        let quoted = format!("{{\"policy\":\"{}\"}}", "{[,\\\"".repeat(1_000));
        let size = parsed_size(quoted.as_bytes());
        assert!(size < 7_000, "{size}");
    }

    #[test]
    fn a_body_of_too_many_values_is_refused() {
        let many = |count: usize| format!("{{\"a\":[{}0]}}", "0,".repeat(count - 1));
        let most = usize::try_from(VALUES_MAX).unwrap() - 2;
        assert!(object(many(most).as_bytes()).is_ok());
        assert!(object(many(most + 1).as_bytes()).unwrap_err().contains("more than 200000 values"));
    }
}

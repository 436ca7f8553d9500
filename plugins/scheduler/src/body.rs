//! Request bodies: the first JSON value, with case-insensitive keys.
//!
//! The scheduler's clients differ in the case of keys, and its own decoder ignores case. If one key
//! occurs in two spellings, the later value counts.

use crate::refusal::ApiRefusal;
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use std::fmt;

/// Parses the object in `body`, with all keys in lower case. `null` counts as an empty object.
///
/// # Errors
/// 400 for an empty body, invalid JSON, or a value other than an object.
pub(crate) fn object(body: &[u8]) -> Result<Map<String, Value>, ApiRefusal> {
    if body.is_empty() {
        return Err(ApiRefusal::invalid("Request body is empty"));
    }
    // Bytes after the first value are ignored.
    let mut values = serde_json::Deserializer::from_slice(body).into_iter::<FoldedValue>();
    match values.next() {
        Some(Ok(FoldedValue(Value::Object(object)))) => Ok(object),
        Some(Ok(FoldedValue(Value::Null))) => Ok(Map::new()),
        Some(Ok(FoldedValue(other))) => {
            let kind = kind(&other);
            Err(ApiRefusal::invalid(format!("the body is {kind}; send a JSON object")))
        }
        // The parser's message is not shown, because it can quote a secret of the body.
        Some(Err(error)) => {
            let (line, column) = (error.line(), error.column());
            Err(ApiRefusal::invalid(format!("the body is not JSON: line {line}, column {column}")))
        }
        None => Err(ApiRefusal::invalid("the body is not JSON: the body is blank")),
    }
}

/// A JSON value with all object keys in lower case, at every depth.
struct FoldedValue(Value);

impl<'de> Deserialize<'de> for FoldedValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FoldedVisitor).map(Self)
    }
}

struct FoldedVisitor;

impl<'de> Visitor<'de> for FoldedVisitor {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        Ok(Value::Bool(flag))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::String(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(FoldedValue(item)) = sequence.next_element()? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some((key, FoldedValue(value))) = map.next_entry::<String, FoldedValue>()? {
            object.insert(key.to_ascii_lowercase(), value);
        }
        Ok(Value::Object(object))
    }
}

/// Returns the text under `key`; empty if missing or null.
///
/// # Errors
/// 400 for a value of another type.
pub(crate) fn text(object: &Map<String, Value>, key: &str) -> Result<String, ApiRefusal> {
    match object.get(&key.to_ascii_lowercase()) {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(other) => Err(wrong_kind(key, "a text", other)),
    }
}

/// Returns the flag under `key`; false if missing or null.
///
/// # Errors
/// 400 for a value of another type.
pub(crate) fn flag(object: &Map<String, Value>, key: &str) -> Result<bool, ApiRefusal> {
    match object.get(&key.to_ascii_lowercase()) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(other) => Err(wrong_kind(key, "true or false", other)),
    }
}

/// Returns the list under `key`; `None` if missing or null.
///
/// # Errors
/// 400 for a value of another type.
pub(crate) fn list<'a>(
    object: &'a Map<String, Value>,
    key: &str,
) -> Result<Option<&'a [Value]>, ApiRefusal> {
    match object.get(&key.to_ascii_lowercase()) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Array(items)) => Ok(Some(items)),
        Some(other) => Err(wrong_kind(key, "a list", other)),
    }
}

/// Returns the object in `value`, an item of the list under `key`.
///
/// # Errors
/// 400 for a value of another type.
pub(crate) fn member<'a>(
    key: &str,
    value: &'a Value,
) -> Result<&'a Map<String, Value>, ApiRefusal> {
    value.as_object().ok_or_else(|| wrong_kind(key, "an object", value))
}

fn wrong_kind(key: &str, wanted: &str, got: &Value) -> ApiRefusal {
    ApiRefusal::invalid(format!("{key} is {}; give {wanted}", kind(got)))
}

const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(body: &str) -> String {
        match object(body.as_bytes()) {
            Err(ApiRefusal::Answered { status: 400, text }) => text,
            other => panic!("{body}: {other:?}"),
        }
    }

    #[test]
    fn keys_ignore_case_and_later_key_counts() {
        let body = object(br#"{"Name":"sp-1","name":"sp-2","POLICIES":null} trailing"#).unwrap();
        assert_eq!(text(&body, "Name").unwrap(), "sp-2");
        let reversed = object(br#"{"name":"sp-2","Name":"sp-1"}"#).unwrap();
        assert_eq!(text(&reversed, "Name").unwrap(), "sp-1");
        assert!(list(&body, "Policies").unwrap().is_none());
        assert!(!flag(&body, "Global").unwrap());
        assert!(object(b"null").unwrap().is_empty());
    }

    #[test]
    fn other_bodies_are_refused_without_their_words() {
        assert_eq!(refused(""), "Request body is empty");
        for body in ["{\"Name\":", "[]", "\"x\"", "\u{feff}{}", "  ", "{\"a\":hunter2}"] {
            let text = refused(body);
            assert!(text.starts_with("the body is"), "{text}");
            assert!(!text.contains("hunter2"), "{text}");
        }
        let body = object(br#"{"Name": 1}"#).unwrap();
        assert!(text(&body, "Name").is_err());
    }
}

//! Coercion of JSON values to a field's kind: the table of decision H1.
//!
//! This file does not know whether a field is secret. The layer that words a refusal decides
//! whether the value may be shown.

use crate::description::FieldKind;
use crate::duration;
use crate::failure::quoted;
use crate::name::is_name;
use serde_json::{Map, Number, Value};

/// Coerces `value` to `kind`.
///
/// # Errors
/// A description of the value, to be followed by "is not …". The description may contain the value,
/// so never use it for a secret field.
pub(crate) fn coerce(kind: FieldKind, value: &Value) -> Result<Value, String> {
    let coerced = match kind {
        FieldKind::Any => Some(value.clone()),
        FieldKind::Name => {
            scalar_text(value).filter(|text| text.is_empty() || is_name(text)).map(Value::from)
        }
        FieldKind::String => scalar_text(value).map(Value::from),
        FieldKind::Bool => boolean(value).map(Value::from),
        FieldKind::Int => integer(value).map(Value::from),
        FieldKind::Duration => duration::seconds(value).ok().map(Value::from),
        FieldKind::CommaList => return comma_list(value),
        FieldKind::TextList => return text_list(value),
        FieldKind::Map => return text_map(value),
    };
    coerced.ok_or_else(|| describe_value(value))
}

/// Returns the forms accepted by a kind, to follow "… is not".
pub(crate) fn accepted_forms(kind: FieldKind) -> &'static str {
    match kind {
        FieldKind::Any => "a value",
        FieldKind::Name => {
            "a name: give letters, digits and \"_\", with \"-\" and \".\" only inside"
        }
        FieldKind::String => "a text: give a text, a number or a boolean",
        FieldKind::Bool => "a boolean: give true or false",
        FieldKind::Int => "a whole number: give digits, such as 5",
        FieldKind::Duration => duration::FORMS,
        FieldKind::CommaList => "a list: give a list of texts, or a text with commas",
        FieldKind::TextList => "a list of texts: give a list of texts, or a single text",
        FieldKind::Map => {
            "a set of texts by key: give an object with texts, or a list of \"key=value\""
        }
    }
}

/// Returns a text, number or boolean as text. Refuses a number that lost digits in parsing, because
/// as a password the result would be a different password.
fn scalar_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) if !number.is_f64() || is_exact(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        _ => None,
    }
}

fn boolean(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(flag) => Some(*flag),
        Value::Number(number) if number.as_f64() == Some(1.0) => Some(true),
        Value::Number(number) if number.as_f64() == Some(0.0) => Some(false),
        Value::String(text) => match text.as_str() {
            "1" | "t" | "T" | "true" | "True" | "TRUE" => Some(true),
            "" | "0" | "f" | "F" | "false" | "False" | "FALSE" => Some(false),
            _ => None,
        },
        _ => None,
    }
}

fn integer(value: &Value) -> Option<i64> {
    match value {
        Value::Number(number) => number.as_i64().or_else(|| whole_number(number)),
        Value::String(text) if text.trim().is_empty() => Some(0),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// Returns a float without a fraction as an integer, within the range of exact floats.
#[allow(clippy::cast_possible_truncation, reason = "the range is checked first")]
fn whole_number(number: &Number) -> Option<i64> {
    number
        .as_f64()
        .filter(|float| float.fract() == 0.0 && is_exact(number))
        .map(|float| float as i64)
}

/// Returns whether the number is in the range where a float represents every integer exactly.
fn is_exact(number: &Number) -> bool {
    number.as_f64().is_some_and(|float| float.abs() < 9_007_199_254_740_992.0)
}

fn comma_list(value: &Value) -> Result<Value, String> {
    let Value::String(text) = value else {
        return text_list(value);
    };
    Ok(trim_all(text.split(',').map(str::to_owned)))
}

fn text_list(value: &Value) -> Result<Value, String> {
    let Value::Array(list) = value else {
        return scalar_text(value).map(|one| trim_all([one])).ok_or_else(|| describe_value(value));
    };
    let texts = list.iter().map(|item| {
        scalar_text(item).ok_or_else(|| format!("a list with {} inside", type_of(item)))
    });
    texts.collect::<Result<Vec<String>, String>>().map(trim_all)
}

/// Trims each text, and drops empty texts.
fn trim_all(texts: impl IntoIterator<Item = String>) -> Value {
    texts.into_iter().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()).collect()
}

fn text_map(value: &Value) -> Result<Value, String> {
    let mut map = Map::new();
    match value {
        Value::Object(object) => {
            for (key, item) in object.iter().filter(|(_, item)| !item.is_null()) {
                let text = scalar_text(item)
                    .ok_or_else(|| format!("an object with {} inside", type_of(item)))?;
                map.insert(key.clone(), text.into());
            }
        }
        Value::Array(list) => list.iter().try_for_each(|item| add_pair(&mut map, item))?,
        Value::String(text) if text.trim().is_empty() => {}
        single => add_pair(&mut map, single)?,
    }
    Ok(Value::Object(map))
}

fn add_pair(map: &mut Map<String, Value>, item: &Value) -> Result<(), String> {
    let pair = item
        .as_str()
        .and_then(|text| text.split_once('='))
        .map(|(key, text)| (key.trim(), text.trim()));
    let Some((key, text)) = pair.filter(|(key, _)| !key.is_empty()) else {
        return Err(describe_value(item));
    };
    match map.insert(key.to_owned(), text.into()) {
        Some(_) => Err(format!("a list with {} twice", quoted(key))),
        None => Ok(()),
    }
}

/// Returns the value for a message: scalars by value, lists and objects by type.
fn describe_value(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Number(_) | Value::Bool(_) => value.to_string(),
        _ => type_of(value).to_owned(),
    }
}

/// Returns the value's type. For a secret, a message may show only the type.
pub(crate) fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(kind: FieldKind, expected: &[(Value, Value)]) {
        for (value, coerced) in expected {
            assert_eq!(coerce(kind, value).as_ref(), Ok(coerced), "{kind:?} from {value}");
        }
    }

    fn refuse(kind: FieldKind, values: &[(Value, &str)]) {
        for (value, got) in values {
            assert_eq!(coerce(kind, value), Err((*got).to_owned()), "{kind:?} from {value}");
        }
    }

    #[test]
    fn coercion_is_idempotent() {
        let samples = [
            (FieldKind::Name, json!("a-b")),
            (FieldKind::String, json!(5)),
            (FieldKind::Bool, json!("t")),
            (FieldKind::Int, json!("-7")),
            (FieldKind::Duration, json!("1h")),
            (FieldKind::CommaList, json!("a, b")),
            (FieldKind::TextList, json!("a, b")),
            (FieldKind::Map, json!(["k=v"])),
            (FieldKind::Any, json!({ "a": [null] })),
        ];
        for (kind, value) in samples {
            let once = coerce(kind, &value).unwrap();
            assert_eq!(coerce(kind, &once).unwrap(), once);
        }
    }

    #[test]
    fn text_takes_numbers_and_booleans_written_out() {
        check(
            FieldKind::String,
            &[(json!(""), json!("")), (json!(5), json!("5")), (json!(-0.5), json!("-0.5"))],
        );
        check(FieldKind::String, &[(json!(true), json!("true")), (json!(" a "), json!(" a "))]);
        check(FieldKind::String, &[(json!(u64::MAX), json!("18446744073709551615"))]);
        refuse(FieldKind::String, &[(json!([1]), "a list"), (json!({}), "an object")]);
    }

    #[test]
    fn number_with_lost_digits_becomes_no_text() {
        let long: Value = serde_json::from_str("123456789012345678901234567890").unwrap();
        assert!(coerce(FieldKind::String, &long).is_err());
        assert!(coerce(FieldKind::TextList, &json!([long])).is_err());
        assert!(coerce(FieldKind::Map, &json!({ "k": long })).is_err());
    }

    #[test]
    fn name_is_word_or_empty_reference() {
        check(
            FieldKind::Name,
            &[(json!("a.b"), json!("a.b")), (json!(""), json!("")), (json!(7), json!("7"))],
        );
        refuse(
            FieldKind::Name,
            &[(json!("a b"), r#""a b""#), (json!("../x"), r#""../x""#), (json!(["a"]), "a list")],
        );
    }

    #[test]
    fn booleans_come_in_the_usual_spellings() {
        for value in [
            json!(true),
            json!("true"),
            json!("1"),
            json!("t"),
            json!("T"),
            json!("True"),
            json!(1),
            json!(1.0),
        ] {
            assert_eq!(coerce(FieldKind::Bool, &value), Ok(json!(true)), "{value}");
        }
        for value in [json!(false), json!("False"), json!("0"), json!("f"), json!(""), json!(0)] {
            assert_eq!(coerce(FieldKind::Bool, &value), Ok(json!(false)), "{value}");
        }
        refuse(
            FieldKind::Bool,
            &[(json!("yes"), r#""yes""#), (json!(2), "2"), (json!("tRUE"), r#""tRUE""#)],
        );
    }

    #[test]
    fn whole_numbers_come_as_numbers_or_digits() {
        check(
            FieldKind::Int,
            &[(json!(5), json!(5)), (json!("5"), json!(5)), (json!(5.0), json!(5))],
        );
        check(FieldKind::Int, &[(json!(""), json!(0)), (json!(" -7 "), json!(-7))]);
        check(FieldKind::Int, &[(json!(i64::MIN), json!(i64::MIN))]);
        refuse(
            FieldKind::Int,
            &[(json!(5.5), "5.5"), (json!("5.0"), r#""5.0""#), (json!(1e19), "1e+19")],
        );
        refuse(
            FieldKind::Int,
            &[(json!(u64::MAX), "18446744073709551615"), (json!("0x10"), r#""0x10""#)],
        );
        refuse(
            FieldKind::Int,
            &[(json!("9223372036854775808"), r#""9223372036854775808""#), (json!(true), "true")],
        );
    }

    #[test]
    fn a_duration_is_whole_seconds() {
        check(
            FieldKind::Duration,
            &[(json!("1h30m"), json!(5400)), (json!(300.0), json!(300)), (json!(""), json!(0))],
        );
        assert_eq!(coerce(FieldKind::Duration, &json!(300.0)).unwrap().to_string(), "300");
        refuse(
            FieldKind::Duration,
            &[(json!(-5), "-5"), (json!("soon"), r#""soon""#), (json!([60]), "a list")],
        );
    }

    #[test]
    fn only_a_comma_list_splits() {
        check(
            FieldKind::CommaList,
            &[(json!(" a, b,,"), json!(["a", "b"])), (json!(""), json!([]))],
        );
        check(
            FieldKind::CommaList,
            &[(json!(["a,b", " c ", "", 5]), json!(["a,b", "c", "5"])), (json!(5), json!(["5"]))],
        );
        let sql = "GRANT SELECT, INSERT ON t TO x";
        check(
            FieldKind::TextList,
            &[(json!(sql), json!([sql])), (json!([sql, "  "]), json!([sql]))],
        );
        check(FieldKind::TextList, &[(json!(""), json!([])), (json!(["  a\n"]), json!(["a"]))]);
        for kind in [FieldKind::CommaList, FieldKind::TextList] {
            refuse(
                kind,
                &[(json!({}), "an object"), (json!(["a", ["b"]]), "a list with a list inside")],
            );
            refuse(kind, &[(json!([null]), "a list with null inside")]);
        }
    }

    #[test]
    fn a_map_holds_texts() {
        let expected = json!({ "a": "1", "b": "x=y" });
        check(FieldKind::Map, &[(json!({ "a": 1, "b": "x=y", "c": null }), expected.clone())]);
        check(FieldKind::Map, &[(json!(["a=1", " b = x=y "]), expected)]);
        check(
            FieldKind::Map,
            &[(json!("a=1"), json!({ "a": "1" })), (json!(""), json!({})), (json!([]), json!({}))],
        );
        refuse(
            FieldKind::Map,
            &[(json!({ "a": {} }), "an object with an object inside"), (json!("a"), r#""a""#)],
        );
        refuse(
            FieldKind::Map,
            &[(json!(["=1"]), r#""=1""#), (json!(["a=1", "a=2"]), r#"a list with "a" twice"#)],
        );
        refuse(
            FieldKind::Map,
            &[(json!([["a=1"]]), "a list"), (json!(5), "5"), (json!([null]), "null")],
        );
    }
}

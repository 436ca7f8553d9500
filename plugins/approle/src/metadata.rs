//! Metadata of a secret id, which the tokens of its logins show.

use bulkhead_sdk::wire::login as bounds;
use bulkhead_sdk::{Call, Failure};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Reads the field `metadata`: an object, the JSON text of an object as published clients send it,
/// or texts such as `name=value`.
///
/// # Errors
/// Invalid request for another form, and for more than a token may show.
pub(crate) fn given(call: &Call) -> Result<BTreeMap<String, String>, Failure> {
    let pairs = match call.fields.get("metadata") {
        None => return Ok(BTreeMap::new()),
        Some(Value::Object(object)) => of_object(object),
        Some(Value::String(text)) => of_text(text),
        Some(Value::Array(list)) => list.iter().map(|pair| of_pair(pair.as_str()?)).collect(),
        Some(_) => None,
    };
    let pairs = pairs.ok_or_else(|| {
        Failure::invalid(
            "metadata is not a set of texts: give an object such as {\"owner\": \"web\"}, such an \
             object as JSON text, or name=value pairs separated by commas",
        )
    })?;
    // The role's name needs a place, too.
    let mut all = pairs.clone();
    all.insert("role_name".to_owned(), String::new());
    bounds::check_metadata("of the token", all.iter())
        .map_err(|fault| Failure::invalid(format!("metadata: a login would come {fault}")))?;
    Ok(pairs)
}

fn of_object(object: &Map<String, Value>) -> Option<BTreeMap<String, String>> {
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        _ => None,
    };
    object.iter().map(|(name, value)| Some((name.clone(), text(value)?))).collect()
}

fn of_text(text: &str) -> Option<BTreeMap<String, String>> {
    let text = text.trim();
    if text.is_empty() {
        return Some(BTreeMap::new());
    }
    if text.starts_with('{') {
        return of_object(&serde_json::from_str(text).ok()?);
    }
    text.split(',').map(of_pair).collect()
}

fn of_pair(pair: &str) -> Option<(String, String)> {
    let (name, value) = pair.split_once('=')?;
    Some((name.trim().to_owned(), value.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::of_text;
    use std::collections::BTreeMap;

    #[test]
    fn texts_of_published_clients_are_read() {
        for (text, pairs) in [
            (r#"{"owner": "web", "size": 3, "is_live": true}"#, Some(3)),
            ("owner=web, size=3", Some(2)),
            ("", Some(0)),
            ("null", None),
            (r#"{"owner": ["web"]}"#, None),
            (r#"{"owner": "#, None),
            ("owner", None),
        ] {
            assert_eq!(of_text(text).map(|pairs| pairs.len()), pairs, "{text}");
        }
        assert_eq!(of_text("a = b=c").unwrap()["a"], "b=c");
    }

    #[test]
    fn numbers_and_flags_in_metadata_become_texts() {
        let expected = BTreeMap::from(
            [("owner", "web"), ("size", "3"), ("is_live", "true")]
                .map(|(name, value)| (name.to_owned(), value.to_owned())),
        );
        for text in
            [r#"{"owner": "web", "size": 3, "is_live": true}"#, "owner = web, size=3,is_live=true"]
        {
            assert_eq!(of_text(text), Some(expected.clone()), "{text}");
        }
    }
}

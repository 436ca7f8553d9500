//! Look-up of claims by the names in a role, and their comparison as text.

use serde_json::{Map, Value};

/// Returns the claim that a role names: by a JSON pointer (RFC 6901) if the name begins with `/`,
/// and at the top level otherwise. A null counts as absent.
pub(crate) fn find<'a>(all: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    let found = match name.strip_prefix('/') {
        Some(pointer) => at(all, pointer),
        None => all.get(name),
    };
    found.filter(|claim| !claim.is_null())
}

fn at<'a>(all: &'a Map<String, Value>, pointer: &str) -> Option<&'a Value> {
    let end = pointer.find('/').unwrap_or(pointer.len());
    let (first, rest) = pointer.split_at(end);
    all.get(&first.replace("~1", "/").replace("~0", "~"))?.pointer(rest)
}

/// Returns a text, flag or whole number as text. A number with a fraction or with too many digits
/// has no exact text, and is compared with nothing.
pub(crate) fn text_of(claim: &Value) -> Option<String> {
    match claim {
        Value::String(text) => Some(text.clone()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Number(number) if !number.is_f64() => Some(number.to_string()),
        _ => None,
    }
}

/// Returns the members of a list; a single value is a list of one.
pub(crate) fn members(claim: &Value) -> &[Value] {
    match claim {
        Value::Array(list) => list,
        single => std::slice::from_ref(single),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn pointer_reads_inside_and_other_name_top_level() {
        let all = json!({
            "sub": "a", "a/b": "flat", "kubernetes.io": {"pod": {"name": "web"}, "a/b": [{"c": 1}]},
            "none": null, "": "empty",
        });
        let all = all.as_object().unwrap();
        for (name, found) in [
            ("sub", json!("a")),
            ("/sub", json!("a")),
            ("a/b", json!("flat")),
            ("/a~1b", json!("flat")),
            ("/kubernetes.io/pod/name", json!("web")),
            ("/kubernetes.io/a~1b/0/c", json!(1)),
            ("/", json!("empty")),
        ] {
            assert_eq!(find(all, name), Some(&found), "{name}");
        }
        for absent in ["/a/b", "none", "/none", "Sub", "/kubernetes.io/pod/name/x", "/sub/", "x"] {
            assert_eq!(find(all, absent), None, "{absent}");
        }
    }

    #[test]
    fn a_number_without_an_exact_text_has_none() {
        for (claim, text) in [
            (json!("a"), Some("a")),
            (json!(true), Some("true")),
            (json!(-7), Some("-7")),
            (json!(u64::MAX), Some("18446744073709551615")),
            (json!(1.5), None),
            (json!(1e30), None),
            (json!(null), None),
            (json!(["a"]), None),
            (json!({"a": "a"}), None),
        ] {
            assert_eq!(text_of(&claim).as_deref(), text, "{claim}");
        }
    }
}

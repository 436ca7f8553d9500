//! JSON values as YAML, for `-format=yaml`.
//!
//! This file prevents a text from becoming another type: a text that YAML would read as a number, a
//! date or a truth value is quoted. JSON's quoting is valid in YAML.

use serde_json::Value;

/// Renders a value as a YAML document with a final line break.
#[must_use]
pub(crate) fn document(value: &Value) -> String {
    let mut text = render_lines(value).join("\n");
    text.push('\n');
    text
}

fn render_lines(value: &Value) -> Vec<String> {
    match value {
        Value::Object(members) if !members.is_empty() => {
            members.iter().flat_map(|(name, value)| member(&plain_or_quoted(name), value)).collect()
        }
        Value::Array(items) if !items.is_empty() => items.iter().flat_map(item).collect(),
        Value::String(text) => vec![plain_or_quoted(text)],
        other => vec![other.to_string()],
    }
}

fn member(name: &str, value: &Value) -> Vec<String> {
    let indent = match value {
        Value::Object(members) if !members.is_empty() => "  ",
        Value::Array(items) if !items.is_empty() => "",
        scalar => return vec![format!("{name}: {}", render_lines(scalar).concat())],
    };
    let below = render_lines(value).into_iter().map(|line| format!("{indent}{line}"));
    [format!("{name}:")].into_iter().chain(below).collect()
}

fn item(value: &Value) -> Vec<String> {
    let marked = render_lines(value).into_iter().enumerate().map(|(index, line)| match index {
        0 => format!("- {line}"),
        _ => format!("  {line}"),
    });
    marked.collect()
}

/// Words that YAML reads as something other than a text.
const RESERVED: [&str; 8] = ["null", "true", "false", "yes", "no", "on", "off", "y"];

fn plain_or_quoted(text: &str) -> String {
    let is_plain = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        && !text.ends_with(' ')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || " _./@-".contains(c))
        && !RESERVED.iter().any(|word| text.eq_ignore_ascii_case(word))
        && !text.eq_ignore_ascii_case("n");
    if is_plain { text.to_owned() } else { Value::from(text).to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn maps_and_lists_are_blocks() {
        let value = json!({"data": {"keys": ["a", {"b": 1, "c": [true]}, ["d"]], "none": {}},
            "empty": [], "null": null});
        let expected = "\
data:
  keys:
  - a
  - b: 1
    c:
    - true
  - - d
  none: {}
empty: []
\"null\": null
";
        assert_eq!(document(&value), expected);
        assert_eq!(document(&json!([])), "[]\n");
    }

    #[test]
    fn a_text_stays_a_text() {
        for text in [
            "",
            "1",
            "1e3",
            "0x1f",
            "2026-01-02",
            "true",
            "No",
            "~",
            "- a",
            "a: b",
            "a #b",
            "x\ny",
            " a",
            "a ",
            "*a",
            "&a",
            "!a",
            "%a",
            "'a'",
            "{}",
            "[a]",
            "-",
            "=",
            "é",
        ] {
            assert_eq!(document(&json!(text)), format!("{}\n", json!(text)), "{text:?}");
        }
        for text in ["root", "database/creds/x", "/abs", "two words", "v-token_1.2"] {
            assert_eq!(document(&json!(text)), format!("{text}\n"));
        }
    }
}

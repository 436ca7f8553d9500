//! Output of key-value secrets in sections: a heading between equals signs and a table.

use crate::client::ServerAnswer;
use crate::output;
use crate::problem::CommandProblem;
use crate::session::Session;
use crate::terminal::escape_controls;
use serde_json::{Map, Value, json};

/// Width that a table needs besides its longest key: the gap and the heading `Value`.
const BESIDES_KEY: usize = 4 + 5;

/// Renders the section of an API path.
pub(super) fn path(title: &str, path: &str) -> String {
    format!("{}\n{}\n\n", heading(title, path.len()), escape_controls(path))
}

/// Renders a table of `values` below its heading.
pub(super) fn table(title: &str, values: &Map<String, Value>) -> String {
    let longest = values.keys().map(|key| key.chars().count()).max().unwrap_or_default();
    let rows: Vec<Vec<String>> =
        values.iter().map(|(key, value)| vec![key.clone(), cell(value)]).collect();
    let rows = output::columns(&["Key", "Value"], &rows);
    format!("{}\n{rows}", heading(title, longest + BESIDES_KEY))
}

/// Centres `title` between equals signs, so that the line is about `width` wide.
fn heading(title: &str, width: usize) -> String {
    let signs = match width.saturating_sub(title.len() + 2) {
        0 => 2,
        missing => missing.div_ceil(2),
    };
    let signs = "=".repeat(signs);
    format!("{signs} {title} {signs}")
}

/// Renders a value as Vault's tables do.
fn cell(value: &Value) -> String {
    match value {
        Value::String(text) if text.is_empty() => "n/a".to_owned(),
        other => inner(other),
    }
}

fn inner(value: &Value) -> String {
    let joined = |parts: Vec<String>| parts.join(" ");
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Array(items) => format!("[{}]", joined(items.iter().map(inner).collect())),
        Value::Object(members) => {
            let members = members.iter().map(|(key, value)| format!("{key}:{}", inner(value)));
            format!("map[{}]", joined(members.collect()))
        }
        other => output::text(other),
    }
}

/// Prints a written secret: its path and the metadata of the new version. Programs get the answer.
pub(super) fn show_written(
    session: &mut Session<'_, '_>,
    answer: &ServerAnswer,
    at: &str,
) -> Result<u8, CommandProblem> {
    let metadata = answer.body.get("data").and_then(Value::as_object);
    let text = metadata
        .map(|metadata| format!("{}{}", path("Secret Path", at), table("Metadata", metadata)));
    match text {
        Some(text) if session.options.is_for_people() => session.show_text(answer, &text),
        _ => session.show_or(answer, &format!("wrote {at}")),
    }
}

/// Returns an answer whose data are `data`, so that a field of `data` is shown like any field.
pub(super) fn answer_of(data: &Map<String, Value>) -> ServerAnswer {
    ServerAnswer { status: 200, body: json!({ "request_id": "", "data": data }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn headings_are_as_wide_as_their_tables() {
        assert_eq!(heading("Secret Path", "secret/data/foo".len()), "= Secret Path =");
        assert_eq!(heading("Metadata", "custom_metadata".len() + 9), "======= Metadata =======");
        assert_eq!(heading("Data", "password".len() + 9), "====== Data ======");
        assert_eq!(heading("Secret Path", 1), "== Secret Path ==");
    }

    #[test]
    fn null_lists_and_maps_keep_known_output_forms() {
        let table = table("Metadata", &map(json!({"a": null, "b": "", "c": {"k": "v"}, "d": [1]})));
        assert!(
            table.ends_with("a      <nil>\nb      n/a\nc      map[k:v]\nd      [1]\n"),
            "{table}"
        );
    }
}

//! Output of answers: tables for people, JSON and YAML for programs, single fields for shells.

use crate::client::ServerAnswer;
use crate::options::{OutputFormat, ParsedOptions};
use crate::problem::CommandProblem;
use crate::terminal::{escape_controls, visible_json, visible_lines};
use crate::yaml;
use bulkhead_wire::duration;
use serde_json::{Map, Value};
use std::fmt::Write as _;

/// The rows of a table: key and value.
pub(crate) type TableRows = Vec<(String, Value)>;

/// Renders the answer as `options` request.
///
/// # Errors
/// A field that is not in the answer.
pub(crate) fn render(
    answer: &ServerAnswer,
    options: &ParsedOptions,
    terminal: bool,
) -> Result<String, CommandProblem> {
    let rows = rows(&answer.body);
    if let Some(name) = &options.field {
        return field(&rows, name, &answer.body, (options.format(), terminal));
    }
    Ok(match (options.format(), answer.body.as_str()) {
        (OutputFormat::Table | OutputFormat::Raw, Some(text)) if terminal => visible_lines(text),
        (OutputFormat::Table | OutputFormat::Raw, Some(text)) => text.to_owned(),
        (OutputFormat::Table, None) => table(&rows),
        (format, _) => document(format, &answer.body),
    })
}

/// Renders a value for programs, with a final line break. A table has no form of its own here and
/// is JSON.
#[must_use]
pub(crate) fn document(format: OutputFormat, value: &Value) -> String {
    // `{:#}` is the pretty format and cannot fail, unlike the serialiser.
    match format {
        OutputFormat::Table | OutputFormat::Json => {
            format!("{}\n", visible_json(&format!("{value:#}")))
        }
        OutputFormat::Yaml => visible_json(&yaml::document(value)),
        OutputFormat::Raw => format!("{}\n", visible_json(&value.to_string())),
    }
}

/// Renders a list of names with a heading.
#[must_use]
pub(crate) fn names(names: &[Value]) -> String {
    let rows: Vec<_> = names.iter().map(|name| vec![text(name)]).collect();
    columns(&["Keys"], &rows)
}

/// Returns the server's warnings, escaped for a terminal.
pub(crate) fn warnings(answer: &ServerAnswer) -> impl Iterator<Item = String> {
    let listed = answer.body.get("warnings").and_then(Value::as_array).into_iter().flatten();
    listed.filter_map(Value::as_str).map(escape_controls)
}

/// Returns the rows for an answer's table. An answer without an envelope is its own data.
#[must_use]
pub(crate) fn rows(body: &Value) -> TableRows {
    let Some(object) = body.as_object() else {
        return Vec::new();
    };
    if !object.contains_key("request_id") {
        return object_rows(object);
    }
    let mut rows = TableRows::new();
    if let Some(wrapping) = body.get("wrap_info").and_then(Value::as_object) {
        rows.extend(wrapping_rows(wrapping));
    }
    if let Some(auth) = body.get("auth").and_then(Value::as_object) {
        rows.extend(token_rows(auth));
    }
    if body.get("lease_id").and_then(Value::as_str).is_some_and(|id| !id.is_empty()) {
        for (shown, name) in [
            ("lease_id", "lease_id"),
            ("lease_duration", "lease_duration"),
            ("lease_renewable", "renewable"),
        ] {
            rows.push((shown.to_owned(), body.get(name).cloned().unwrap_or_default()));
        }
    }
    rows.extend(body.get("data").and_then(Value::as_object).map(object_rows).unwrap_or_default());
    rows
}

fn object_rows(object: &Map<String, Value>) -> TableRows {
    object.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Returns whether the answer is wrapped.
#[must_use]
pub(crate) fn is_wrapped(body: &Value) -> bool {
    body.get("wrap_info").is_some_and(Value::is_object)
}

/// Returns the rows of a wrapping token, with the row names that Vault's commands print.
fn wrapping_rows(wrapping: &Map<String, Value>) -> TableRows {
    let parts = [
        ("wrapping_token", "token"),
        ("wrapping_accessor", "accessor"),
        ("wrapping_token_ttl", "ttl"),
        ("wrapping_token_creation_time", "creation_time"),
        ("wrapping_token_creation_path", "creation_path"),
        ("wrapped_accessor", "wrapped_accessor"),
    ];
    let row = |(shown, name): (&str, &str)| Some((shown.to_owned(), wrapping.get(name)?.clone()));
    parts.into_iter().filter_map(row).collect()
}

/// Returns the rows of a token, with the row names that Vault's commands print.
fn token_rows(auth: &Map<String, Value>) -> TableRows {
    let parts = [
        ("token", "client_token"),
        ("token_accessor", "accessor"),
        ("token_duration", "lease_duration"),
        ("token_renewable", "renewable"),
        ("token_policies", "token_policies"),
        ("identity_policies", "identity_policies"),
        ("policies", "policies"),
    ];
    let present = parts
        .into_iter()
        .filter_map(|(shown, name)| Some((shown.to_owned(), auth.get(name)?.clone())));
    let metadata = auth.get("metadata").and_then(Value::as_object).into_iter().flatten();
    let metadata = metadata.map(|(name, value)| (format!("token_meta_{name}"), value.clone()));
    present.chain(metadata).collect()
}

/// Renders a single field. Piped, the output is the exact value without a line break, for use in a
/// shell; on a terminal, control characters are escaped.
fn field(
    rows: &TableRows,
    name: &str,
    body: &Value,
    (format, terminal): (OutputFormat, bool),
) -> Result<String, CommandProblem> {
    let row = rows.iter().find(|(row_name, _)| row_name == name).map(|(_, value)| value);
    let Some(value) = row.or_else(|| body.get(name)) else {
        let row_names: Vec<&str> = rows.iter().map(|(name, _)| name.as_str()).collect();
        let message =
            format!("Error: the answer has no field {name:?}; it has: {}", row_names.join(", "));
        return Err(CommandProblem { code: 1, message });
    };
    if matches!(format, OutputFormat::Json | OutputFormat::Yaml) {
        return Ok(document(format, value));
    }
    let text = text(value);
    Ok(if terminal { format!("{}\n", visible_lines(&text)) } else { text })
}

/// Renders a table of keys and values with its heading.
#[must_use]
pub(crate) fn table(rows: &TableRows) -> String {
    let shown = |name: &str, value: &Value| {
        if matches!(name, "lease_duration" | "token_duration" | "wrapping_token_ttl") {
            span(value)
        } else {
            text(value)
        }
    };
    let rows: Vec<_> =
        rows.iter().map(|(name, value)| vec![name.clone(), shown(name, value)]).collect();
    columns(&["Key", "Value"], &rows)
}

/// Renders a table with headings. Cells are escaped, so that no cell breaks its line or controls
/// the terminal.
#[must_use]
pub(crate) fn columns(heads: &[&str], rows: &[Vec<String>]) -> String {
    let mut lines: Vec<Vec<String>> = vec![
        heads.iter().map(|head| (*head).to_owned()).collect(),
        heads.iter().map(|head| "-".repeat(head.chars().count())).collect(),
    ];
    lines.extend(rows.iter().map(|row| row.iter().map(|cell| escape_controls(cell)).collect()));
    let width = |index: usize| {
        lines.iter().filter_map(|line| line.get(index)).map(|cell| cell.chars().count()).max()
    };
    // The last column needs no padding.
    let widths: Vec<usize> = (0..heads.len().saturating_sub(1))
        .map(|index| width(index).unwrap_or_default() + 4)
        .collect();
    let mut text = String::new();
    for line in &lines {
        for (cell, width) in line.iter().zip(widths.iter().copied().chain([0])) {
            // Writing to a String cannot fail.
            write!(text, "{cell:<width$}").unwrap_or_default();
        }
        text.push('\n');
    }
    text
}

/// Renders a value as a cell: a string without quotes, anything else as JSON.
#[must_use]
pub(crate) fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Renders seconds as a duration.
#[must_use]
pub(crate) fn span(value: &Value) -> String {
    value.as_u64().map_or_else(|| text(value), duration::show)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn credential() -> ServerAnswer {
        let body = json!({
            "request_id": "r", "mount_type": "database", "auth": null, "wrap_info": null,
            "lease_id": "database/creds/x/1", "lease_duration": 3600, "renewable": true,
            "data": {
                "username": "v-x", "password": "p\u{1b}[2J\nq", "list": ["a", 1], "none": null,
            },
            "warnings": ["take\u{7} care"],
        });
        ServerAnswer { status: 200, body }
    }

    fn output_options(field: Option<&str>, format: OutputFormat) -> ParsedOptions {
        let mut options = ParsedOptions::default();
        options.field = field.map(str::to_owned);
        options.format = Some(format);
        options
    }

    #[test]
    fn table_shows_lease_first_and_escapes_forged_lines() {
        let text = render(&credential(), &output_options(None, OutputFormat::Table), true).unwrap();
        let expected = "\
Key                Value
---                -----
lease_id           database/creds/x/1
lease_duration     1h
lease_renewable    true
list               [\"a\",1]
none               null
password           p\\u{1b}[2J\\nq
username           v-x
";
        assert_eq!(text, expected);
    }

    #[test]
    fn json_is_the_whole_answer() {
        let text = render(&credential(), &output_options(None, OutputFormat::Json), true).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), credential().body);
        assert!(text.ends_with("}\n") && !text.contains('\u{1b}'));
    }

    #[test]
    fn field_is_exact_in_pipe_escaped_on_terminal() {
        let field = |name: &str, terminal| {
            render(&credential(), &output_options(Some(name), OutputFormat::Table), terminal)
        };
        assert_eq!(field("password", false).unwrap(), "p\u{1b}[2J\nq");
        assert_eq!(field("password", true).unwrap(), "p\\u{1b}[2J\nq\n");
        assert_eq!(field("lease_duration", false).unwrap(), "3600");
        assert_eq!(field("renewable", false).unwrap(), "true");
        let problem = field("pasword", false).unwrap_err();
        assert_eq!(problem.code, 1);
        assert!(
            problem.message.contains("password") && !problem.message.contains("[2J"),
            "{problem:?}"
        );
    }

    #[test]
    fn a_token_has_the_names_that_people_know() {
        let auth = json!({
            "client_token": "bhs.t", "accessor": "a", "lease_duration": 86400, "renewable": true,
            "token_policies": ["default"], "policies": ["default"], "metadata": null,
            "orphan": false,
        });
        let answer = ServerAnswer {
            status: 200,
            body: json!({"request_id": "r", "auth": auth, "data": null, "lease_id": ""}),
        };
        let table = render(&answer, &output_options(None, OutputFormat::Table), false).unwrap();
        assert!(
            table.contains("\ntoken              bhs.t\n")
                && table.contains("\ntoken_duration     1d\n"),
            "{table}"
        );
        assert_eq!(
            render(&answer, &output_options(Some("token"), OutputFormat::Table), false).unwrap(),
            "bhs.t"
        );
    }

    #[test]
    fn a_bare_answer_is_its_own_data() {
        let answer = ServerAnswer { status: 200, body: json!({"sealed": false, "version": "1"}) };
        let table = render(&answer, &output_options(None, OutputFormat::Table), false).unwrap();
        assert_eq!(table, "Key        Value\n---        -----\nsealed     false\nversion    1\n");
    }

    #[test]
    fn a_text_answer_is_printed_as_it_came() {
        let answer = ServerAnswer { status: 200, body: json!("# HELP a b\na 1\u{7}\n") };
        for format in [OutputFormat::Table, OutputFormat::Raw] {
            let printed =
                |terminal| render(&answer, &output_options(None, format), terminal).unwrap();
            assert_eq!(printed(false), "# HELP a b\na 1\u{7}\n");
            assert_eq!(printed(true), "# HELP a b\na 1\\u{7}\n");
        }
        let quoted = render(&answer, &output_options(None, OutputFormat::Json), false).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&quoted).unwrap(), answer.body);
        assert!(render(&answer, &output_options(Some("a"), OutputFormat::Table), false).is_err());
    }

    #[test]
    fn columns_fit_widest_cell_and_last_stays_unpadded() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let shown = columns(
            &["Path", "Type", "Description"],
            &[row(["database/", "é", "x\ny "]), row(["a/", "file", ""])],
        );
        let expected = "\
Path         Type    Description
----         ----    -----------
database/    é       x\\ny\u{20}
a/           file\u{20}\u{20}\u{20}\u{20}
";
        assert_eq!(shown, expected);
    }

    #[test]
    fn names_and_warnings_are_one_line_each() {
        assert_eq!(names(&[json!("a"), json!("b\n\u{1b}c/")]), "Keys\n----\na\nb\\n\\u{1b}c/\n");
        assert_eq!(warnings(&credential()).collect::<Vec<_>>(), ["take\\u{7} care"]);
    }
}

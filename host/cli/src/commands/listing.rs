//! Tables of paths, for mounts and audit devices.

use crate::client::ServerAnswer;
use crate::output;
use crate::problem::CommandProblem;
use crate::session::Session;
use serde_json::Value;

/// A column after the path.
#[derive(Clone, Copy)]
pub(super) struct TableColumn {
    /// Heading.
    pub(super) head: &'static str,
    /// JSON pointer to the value within a path's entry.
    pub(super) at: &'static str,
}

/// Prints the answer as a table of paths, or as JSON. `none` is the text for an empty list.
pub(super) fn show(
    session: &mut Session<'_, '_>,
    answer: &ServerAnswer,
    columns: &[TableColumn],
    none: &str,
) -> Result<u8, CommandProblem> {
    let data = answer.body.get("data").cloned().unwrap_or_default();
    let listed = data.as_object().into_iter().flatten();
    let rows: Vec<Vec<String>> = listed.map(|(path, what)| row(path, what, columns)).collect();
    let heads: Vec<&str> =
        ["Path"].into_iter().chain(columns.iter().map(|column| column.head)).collect();
    let table = if rows.is_empty() { format!("{none}\n") } else { output::columns(&heads, &rows) };
    session.show_part(answer, &data, &table)
}

fn row(path: &str, what: &Value, columns: &[TableColumn]) -> Vec<String> {
    let cells = columns.iter().map(|column| cell(column, what.pointer(column.at)));
    [path.to_owned()].into_iter().chain(cells).collect()
}

/// Renders a cell. Lifetimes are durations; a lifetime of 0 is the system's.
fn cell(column: &TableColumn, value: Option<&Value>) -> String {
    let is_lifetime = column.at.ends_with("_lease_ttl");
    match value {
        Some(value) if is_lifetime && value.as_u64() == Some(0) => "system".to_owned(),
        Some(value) if is_lifetime => output::span(value),
        None | Some(Value::Null) => "n/a".to_owned(),
        Some(value) => Some(output::text(value))
            .filter(|text| !text.is_empty())
            .unwrap_or_else(|| "n/a".to_owned()),
    }
}

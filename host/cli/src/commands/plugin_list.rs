//! `bulkhead plugin list`.

use crate::client::ServerRequest;
use crate::option::CommandOption;
use crate::output;
use crate::problem::CommandProblem;
use crate::session::Session;
use hyper::Method;
use serde_json::{Map, Value};

/// An option of the list.
pub(super) const DETAILED: CommandOption =
    CommandOption::switch("detailed", "also show which plugins are built in");

/// Types of plugins, as the catalog lists them.
pub(super) const TYPES: [&str; 3] = ["auth", "database", "secret"];

/// Runs `list [TYPE]`.
pub(super) fn run(session: &mut Session<'_, '_>) -> Result<u8, CommandProblem> {
    let kind = session.at_most_one_word()?;
    if let Some(kind) = kind.as_deref().filter(|kind| !TYPES.contains(kind)) {
        return Err(CommandProblem::usage(format!(
            "TYPE is secret, auth or database, and not {kind:?}"
        )));
    }
    let call = ServerRequest::new(Method::GET, "sys/plugins/catalog");
    let answer = session.ask("listing the plugins", &call)?;
    let data = answer.body.get("data").cloned().unwrap_or_default();
    let is_listed = |plugin: &&Value| {
        kind.as_deref().is_none_or(|kind| plugin.get("type").and_then(Value::as_str) == Some(kind))
    };
    let listed = data.get("detailed").and_then(Value::as_array).into_iter().flatten();
    let plugins: Vec<Value> = listed.filter(is_listed).cloned().collect();
    let is_detailed = session.options.switch("detailed");
    let table = table(&plugins, kind.is_some(), is_detailed);
    let part = match (is_detailed, &kind) {
        (true, _) => Value::Array(plugins),
        (false, Some(kind)) => data.get(kind).cloned().unwrap_or_default(),
        (false, None) => Value::Object(by_type(&data)),
    };
    session.show_part(&answer, &part, &table)
}

/// Returns the names of the plugins of each type.
fn by_type(data: &Value) -> Map<String, Value> {
    let names = TYPES.iter().filter_map(|kind| Some(((*kind).to_owned(), data.get(kind)?.clone())));
    names.collect()
}

fn table(plugins: &[Value], is_of_one_type: bool, is_detailed: bool) -> String {
    let mut columns = vec![("Name", "name")];
    if !is_of_one_type || is_detailed {
        columns.push(("Type", "type"));
    }
    columns.push(("Version", "version"));
    if is_detailed {
        columns.push(("Built in", "builtin"));
    }
    let cell = |plugin: &Value, name: &str| plugin.get(name).map(output::text).unwrap_or_default();
    let row = |plugin: &Value| columns.iter().map(|(_, name)| cell(plugin, name)).collect();
    let rows: Vec<Vec<String>> = plugins.iter().map(row).collect();
    let heads: Vec<&str> = columns.iter().map(|(head, _)| *head).collect();
    output::columns(&heads, &rows)
}

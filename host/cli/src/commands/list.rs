//! `bulkhead list PATH`.

use crate::client::Call;
use crate::command::Command;
use crate::output;
use crate::problem::Problem;
use crate::session::Session;
use hyper::Method;
use serde_json::Value;

pub(crate) const LIST: Command = Command {
    words: "list",
    takes: "PATH",
    about: "list the names below a path",
    options: &[],
    run,
};

fn run(session: &mut Session<'_, '_>) -> Result<u8, Problem> {
    let (path, rest) = session.path_and_rest()?;
    if !rest.is_empty() {
        return Err(session.misuse());
    }
    list_names(session, &path)
}

/// Lists the names below `path`, as a table or as a JSON list.
pub(super) fn list_names(session: &mut Session<'_, '_>, path: &str) -> Result<u8, Problem> {
    let call = Call {
        query: vec![("list".to_owned(), "true".to_owned())],
        ..Call::new(Method::GET, path)
    };
    let answer = session.ask(&format!("listing {path}"), &call)?;
    let keys =
        answer.body.pointer("/data/keys").and_then(Value::as_array).cloned().unwrap_or_default();
    let table = output::names(&keys);
    session.show_part(&answer, &Value::Array(keys), &table)
}

//! `bulkhead list PATH`.

use crate::client::{ServerAnswer, ServerRequest};
use crate::command::Command;
use crate::option::CommandOption;
use crate::options::OutputFormat;
use crate::output;
use crate::problem::CommandProblem;
use crate::session::Session;
use crate::wrapping::AnswerWrapping;
use hyper::Method;
use serde_json::Value;

pub(crate) const LIST: Command = Command {
    words: "list",
    takes: "PATH",
    about: "list the names below a path",
    options: &[&[
        CommandOption::text("after", "NAME", "only the names after this name"),
        CommandOption::number("limit", "at most this many names"),
    ]],
    wrapping: AnswerWrapping::Sent,
    run,
};

fn run(session: &mut Session<'_, '_>) -> Result<u8, CommandProblem> {
    let (path, rest) = session.path_and_rest()?;
    if !rest.is_empty() {
        return Err(session.usage_problem());
    }
    list_names(session, &path)
}

/// Lists the names below `path`, as a table or as a JSON list.
pub(super) fn list_names(session: &mut Session<'_, '_>, path: &str) -> Result<u8, CommandProblem> {
    let part = ["after", "limit"].into_iter();
    let part = part.filter_map(|name| Some((name, session.options.value(name)?)));
    let query = [("list", "true")].into_iter().chain(part);
    let call = ServerRequest {
        query: query.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        ..ServerRequest::new(Method::GET, path)
    };
    let answer = session.find(&format!("listing {path}"), &call)?;
    if let Some(wrapped) = answer.as_ref().filter(|answer| output::is_wrapped(&answer.body)) {
        return session.show_or(wrapped, "");
    }
    let keys = |answer: &ServerAnswer| answer.body.pointer("/data/keys")?.as_array().cloned();
    let found = answer.and_then(|answer| Some((keys(&answer)?, answer)));
    let Some((keys, answer)) = found.filter(|(keys, _)| !keys.is_empty()) else {
        return show_nothing(session, path);
    };
    let table = output::names(&keys);
    session.show_part(&answer, &Value::Array(keys), &table)
}

/// Reports an empty list. Programs get an empty object, as from Vault.
fn show_nothing(session: &mut Session<'_, '_>, path: &str) -> Result<u8, CommandProblem> {
    let nothing = CommandProblem::nothing_at(path);
    if session.options.format() == OutputFormat::Table || session.options.field.is_some() {
        return Err(nothing);
    }
    session.print("{}\n")?;
    Ok(nothing.code)
}

//! `bulkhead audit list · enable · hash · disable`.

use crate::client::ServerRequest;
use crate::command::Command;
use crate::commands::listing::{self, TableColumn};
use crate::commands::paths::join_path;
use crate::option::CommandOption;
use crate::problem::CommandProblem;
use crate::session::Session;
use crate::wrapping::AnswerWrapping;
use hyper::Method;
use serde_json::{Value, json};

const DEVICES: &str = "sys/audit";

pub(crate) const LIST: Command = Command {
    words: "audit list",
    takes: "",
    about: "list the audit devices",
    options: &[&[CommandOption::switch("detailed", "with the options of each device")]],
    wrapping: AnswerWrapping::Sent,
    run: list,
};

pub(crate) const ENABLE: Command = Command {
    words: "audit enable",
    takes: "TYPE [name=value ...]",
    about: "add an audit device, which records every request and answer\n\n\
            bulkhead audit enable file file_path=audit.log\n\n\
            name=@FILE and name=- take the value from a file or standard input, unchanged. \
            A server\n\
            may be configured to refuse devices from the API.",
    options: &[&NEW],
    wrapping: AnswerWrapping::Sent,
    run: enable,
};

pub(crate) const HASH: Command = Command {
    words: "audit hash",
    takes: "PATH [INPUT|-]",
    about: "show the hash that a device records instead of a secret\n\n\
            Without INPUT the command asks for a hidden input; \
            with - or a pipe it reads standard input,\n\
            a single line without the line break. \
            An INPUT on the command line stays in the shell's history.",
    options: &[],
    wrapping: AnswerWrapping::Sent,
    run: hash,
};

pub(crate) const DISABLE: Command = Command {
    words: "audit disable",
    takes: "PATH",
    about: "remove an audit device; without any device nothing is recorded",
    options: &[],
    wrapping: AnswerWrapping::Sent,
    run: disable,
};

const NEW: [CommandOption; 3] = [
    CommandOption::text("path", "PATH", "name of the device; the type without this option"),
    CommandOption::text("description", "TEXT", "a description").with_field("description"),
    CommandOption::switch("local", "stored and shown, without effect").with_field("local"),
];

const BRIEF: [TableColumn; 2] = [
    TableColumn { head: "Type", at: "/type" },
    TableColumn { head: "Description", at: "/description" },
];

const DETAILED: [TableColumn; 4] = [
    TableColumn { head: "Type", at: "/type" },
    TableColumn { head: "Local", at: "/local" },
    TableColumn { head: "Options", at: "/options" },
    TableColumn { head: "Description", at: "/description" },
];

fn list(session: &mut Session<'_, '_>) -> Result<u8, CommandProblem> {
    let [] = session.words()?;
    let answer =
        session.ask("listing the audit devices", &ServerRequest::new(Method::GET, DEVICES))?;
    let columns = if session.options.switch("detailed") { &DETAILED[..] } else { &BRIEF };
    listing::show(session, &answer, columns, "there is no audit device: nothing is recorded")
}

fn enable(session: &mut Session<'_, '_>) -> Result<u8, CommandProblem> {
    let (device, rest) = session.path_and_rest()?;
    let path = session.options.value("path").unwrap_or(&device).trim_matches('/').to_owned();
    let target = join_path(DEVICES, &path, "the audit device")?;
    let mut body = session.options.fields(&NEW);
    body.insert("type".to_owned(), json!(device));
    body.insert("options".to_owned(), Value::Object(session.fields(&rest)?));
    let call = ServerRequest::new(Method::PUT, target).with_fields(Value::Object(body));
    let answer = session.ask(&format!("enabling audit device {path}/"), &call)?;
    session.show_or(&answer, &format!("enabled audit device {device} at {path}/"))
}

fn hash(session: &mut Session<'_, '_>) -> Result<u8, CommandProblem> {
    let (path, rest) = session.path_and_rest()?;
    let input = match rest.as_slice() {
        [word] if word != "-" => word.clone(),
        [] | [_] => {
            let secret = session.secret("Type the text to hash (not shown)")?;
            line_or_all(secret.expose()).to_owned()
        }
        _ => return Err(session.usage_problem()),
    };
    let call =
        ServerRequest::new(Method::POST, join_path("sys/audit-hash", &path, "the audit device")?);
    let answer = session.ask(
        &format!("hashing with audit device {path}/"),
        &call.with_fields(json!({"input": input})),
    )?;
    session.show(&answer)
}

/// Removes the final line break of a single line, because a piped password ends with a line break
/// that does not belong to it. A key of several lines keeps its last line break.
fn line_or_all(text: &str) -> &str {
    let line = text.strip_suffix('\n').map(|line| line.strip_suffix('\r').unwrap_or(line));
    line.filter(|line| !line.contains('\n')).unwrap_or(text)
}

fn disable(session: &mut Session<'_, '_>) -> Result<u8, CommandProblem> {
    let [path] = session.words()?;
    let call = ServerRequest::new(Method::DELETE, join_path(DEVICES, &path, "the audit device")?);
    let answer = session.ask(&format!("disabling audit device {path}"), &call)?;
    session.show_or(&answer, &format!("disabled audit device {path}, if present"))
}

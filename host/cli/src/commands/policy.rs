//! `bulkhead policy list · read · write · delete`.

use crate::client::ServerRequest;
use crate::command::Command;
use crate::commands::list;
use crate::commands::paths::join_path;
use crate::problem::CommandProblem;
use crate::session::Session;
use crate::terminal::visible_lines;
use crate::wrapping::AnswerWrapping;
use hyper::Method;
use serde_json::{Value, json};

const POLICIES: &str = "sys/policies/acl";

pub(crate) const LIST: Command = Command {
    words: "policy list",
    takes: "",
    about: "list the names of all policies",
    options: &[],
    wrapping: AnswerWrapping::Sent,
    run: list,
};

pub(crate) const READ: Command = Command {
    words: "policy read",
    takes: "NAME",
    about: "print the text of a policy",
    options: &[],
    wrapping: AnswerWrapping::Sent,
    run: read,
};

pub(crate) const WRITE: Command = Command {
    words: "policy write",
    takes: "NAME FILE|-",
    about: "store a policy, from a file or standard input",
    options: &[],
    wrapping: AnswerWrapping::Sent,
    run: write,
};

pub(crate) const DELETE: Command = Command {
    words: "policy delete",
    takes: "NAME",
    about: "delete a policy",
    options: &[],
    wrapping: AnswerWrapping::Sent,
    run: delete,
};

fn list(session: &mut Session<'_, '_>) -> Result<u8, CommandProblem> {
    let [] = session.words()?;
    list::list_names(session, POLICIES)
}

fn read(session: &mut Session<'_, '_>) -> Result<u8, CommandProblem> {
    let [name] = session.words()?;
    let call = ServerRequest::new(Method::GET, path(&name)?);
    let answer = session.ask(&format!("reading policy {name}"), &call)?;
    match answer.body.pointer("/data/policy").and_then(Value::as_str) {
        Some(text) if session.options.field.is_none() => {
            let table = format!("{}\n", visible_lines(text.trim_end_matches('\n')));
            session.show_part(&answer, &json!({ "policy": text }), &table)
        }
        _ => session.show(&answer),
    }
}

fn write(session: &mut Session<'_, '_>) -> Result<u8, CommandProblem> {
    let [name, source] = session.words()?;
    let text = session.text(&source)?;
    let call = ServerRequest::new(Method::PUT, path(&name)?).with_fields(json!({"policy": text}));
    let answer = session.ask(&format!("writing policy {name}"), &call)?;
    session.show_or(&answer, &format!("wrote policy {name}"))
}

fn delete(session: &mut Session<'_, '_>) -> Result<u8, CommandProblem> {
    let [name] = session.words()?;
    let answer = session.ask(
        &format!("deleting policy {name}"),
        &ServerRequest::new(Method::DELETE, path(&name)?),
    )?;
    session.show_or(&answer, &format!("deleted policy {name}"))
}

fn path(name: &str) -> Result<String, CommandProblem> {
    join_path(POLICIES, name, "the policy")
}

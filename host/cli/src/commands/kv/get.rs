//! `bulkhead kv get`.

use crate::client::{ServerAnswer, ServerRequest};
use crate::command::Command;
use crate::commands::kv::secret_location::{MOUNT, SecretLocation};
use crate::commands::kv::sections::{self, answer_of};
use crate::option::CommandOption;
use crate::output;
use crate::problem::CommandProblem;
use crate::session::Session;
use crate::wrapping::AnswerWrapping;
use hyper::Method;
use serde_json::{Map, Value};

pub(crate) const GET: Command = Command {
    words: "kv get",
    takes: "PATH | -mount=MOUNT NAME",
    about: "read a secret of a key-value mount\n\n\
            Prints the newest version unless -version names another.",
    options: &[&[
        MOUNT,
        CommandOption::number("version", "the version to read; the newest without this option"),
    ]],
    wrapping: AnswerWrapping::Sent,
    run,
};

fn run(session: &mut Session<'_, '_>) -> Result<u8, CommandProblem> {
    let [typed] = session.words()?;
    let place = SecretLocation::of_secret(session, &typed)?;
    let version = session.options.number("version");
    if version.is_some() {
        place.need_versions("-version")?;
    }
    let path = place.path("data");
    let call = ServerRequest {
        query: version
            .map(|number| ("version".to_owned(), number.to_string()))
            .into_iter()
            .collect(),
        ..ServerRequest::new(Method::GET, path.as_str())
    };
    let Some(answer) = session.find(&format!("reading {path}"), &call)? else {
        return Err(CommandProblem::nothing_at(&path));
    };
    if output::is_wrapped(&answer.body) {
        return session.show(&answer);
    }
    if place.is_versioned() {
        show(session, &answer, &path)
    } else {
        show_unversioned(session, &answer)
    }
}

fn show(
    session: &mut Session<'_, '_>,
    answer: &ServerAnswer,
    path: &str,
) -> Result<u8, CommandProblem> {
    let part = |name: &str| answer.body.get("data")?.get(name)?.as_object();
    let (metadata, data) = (part("metadata"), part("data"));
    if let Some(field) = session.options.field.clone() {
        return match data {
            // `-field=data` means the whole secret, unless the secret has a key of this name.
            Some(data) if field != "data" || data.contains_key("data") => {
                session.show(&answer_of(data))
            }
            Some(_) => session.show(answer),
            None => Err(CommandProblem::nothing_at(&format!("{path}: this version was deleted"))),
        };
    }
    if !session.options.is_for_people() {
        return session.show(answer);
    }
    let mut text = sections::path("Secret Path", path);
    let mut tables: Vec<String> = Vec::new();
    tables.extend(metadata.map(|metadata| sections::table("Metadata", metadata)));
    tables.extend(data.map(|data| sections::table("Data", data)));
    text.push_str(&tables.join("\n"));
    session.show_text(answer, &text)
}

fn show_unversioned(
    session: &mut Session<'_, '_>,
    answer: &ServerAnswer,
) -> Result<u8, CommandProblem> {
    if !session.options.is_for_people() {
        return session.show(answer);
    }
    let none = Map::new();
    let data = answer.body.get("data").and_then(Value::as_object).unwrap_or(&none);
    session.show_text(answer, &sections::table("Data", data))
}

//! `bulkhead kv delete · undelete · destroy`: versions of a secret.

use crate::client::ServerRequest;
use crate::command::Command;
use crate::commands::kv::secret_location::{MOUNT, SecretLocation};
use crate::option::{CommandOption, names_in};
use crate::problem::CommandProblem;
use crate::session::Session;
use crate::wrapping::AnswerWrapping;
use hyper::Method;
use serde_json::json;

pub(crate) const DELETE: Command = Command {
    words: "kv delete",
    takes: "PATH | -mount=MOUNT NAME",
    about: "delete the newest version of a secret\n\n\
            On a versioned mount `kv undelete` brings the version back; \
            without versions the secret is gone.",
    options: &[&[MOUNT, VERSIONS]],
    wrapping: AnswerWrapping::Sent,
    run: delete,
};

pub(crate) const UNDELETE: Command = Command {
    words: "kv undelete",
    takes: "-versions=N,... PATH | -versions=N,... -mount=MOUNT NAME",
    about: "bring back deleted versions of a secret",
    options: &[&[MOUNT, VERSIONS]],
    wrapping: AnswerWrapping::Sent,
    run: |session| change(session, "undelete", "brought back"),
};

pub(crate) const DESTROY: Command = Command {
    words: "kv destroy",
    takes: "-versions=N,... PATH | -versions=N,... -mount=MOUNT NAME",
    about: "erase versions of a secret for good\n\n\
            Nothing brings the data of a destroyed version back.",
    options: &[&[MOUNT, VERSIONS]],
    wrapping: AnswerWrapping::Sent,
    run: |session| change(session, "destroy", "destroyed"),
};

const VERSIONS: CommandOption = CommandOption::names(
    "versions",
    "N",
    "numbers of versions; several with commas, may be repeated",
);

fn delete(session: &mut Session<'_, '_>) -> Result<u8, CommandProblem> {
    if session.options.value("versions").is_some() {
        return change(session, "delete", "deleted");
    }
    let [typed] = session.words()?;
    let path = SecretLocation::of_secret(session, &typed)?.path("data");
    let call = ServerRequest::new(Method::DELETE, path.as_str());
    let answer = session.ask(&format!("deleting {path}"), &call)?;
    session.show_or(&answer, &format!("deleted {path}, if it existed"))
}

/// Asks for `action` on the versions of `-versions`.
fn change(session: &mut Session<'_, '_>, action: &str, done: &str) -> Result<u8, CommandProblem> {
    let [typed] = session.words()?;
    let versions = versions(session)?;
    let place = SecretLocation::of_secret(session, &typed)?;
    place.need_versions("-versions")?;
    let path = place.path(action);
    let call =
        ServerRequest::new(Method::PUT, path.as_str()).with_fields(json!({ "versions": versions }));
    let answer = session.ask(&format!("writing {path}"), &call)?;
    let listed: Vec<String> = versions.iter().map(u64::to_string).collect();
    let done = format!(
        "{done}: versions {} of {}, if they existed",
        listed.join(", "),
        place.path("data")
    );
    session.show_or(&answer, &done)
}

fn versions(session: &Session<'_, '_>) -> Result<Vec<u64>, CommandProblem> {
    let typed: Vec<&str> = session.options.values("versions").flat_map(names_in).collect();
    if typed.is_empty() {
        return Err(CommandProblem::usage("say which versions, as in -versions=2,3"));
    }
    let number = |text: &&str| {
        text.parse::<u64>().ok().filter(|number| *number > 0).ok_or_else(|| {
            CommandProblem::usage(format!("-versions is numbers from 1, and not {text:?}"))
        })
    };
    typed.iter().map(number).collect()
}

//! `bulkhead kv rollback`: writes an older version again, as the newest one.
//!
//! This file prevents a lost update: the version is written only if nobody wrote another one
//! meanwhile.

use crate::client::ServerRequest;
use crate::command::Command;
use crate::commands::kv::put::versioned;
use crate::commands::kv::secret_location::{MOUNT, SecretLocation};
use crate::commands::kv::sections;
use crate::option::CommandOption;
use crate::problem::CommandProblem;
use crate::session::Session;
use crate::wrapping::AnswerWrapping;
use hyper::Method;
use serde_json::Value;

pub(crate) const ROLLBACK: Command = Command {
    words: "kv rollback",
    takes: "-version=N PATH | -version=N -mount=MOUNT NAME",
    about: "make an older version of a secret the newest again\n\n\
            Writes the data of the older version as a new version.",
    options: &[&[
        MOUNT,
        CommandOption::number("version", "the version with the data to write again"),
    ]],
    wrapping: AnswerWrapping::Sent,
    run,
};

fn run(session: &mut Session<'_, '_>) -> Result<u8, CommandProblem> {
    let [typed] = session.words()?;
    let Some(version) = session.options.number("version").filter(|number| *number > 0) else {
        return Err(CommandProblem::usage("say which version is written again, as in -version=2"));
    };
    let place = SecretLocation::of_secret(session, &typed)?;
    place.need_versions("kv rollback")?;
    let path = place.path("data");
    let doing = format!("reading {path}");
    let newest = session.find_unwrapped(&doing, &ServerRequest::new(Method::GET, path.as_str()))?;
    let newest = newest.ok_or_else(|| CommandProblem::nothing_at(&path))?;
    let newest = newest.body.pointer("/data/metadata/version").and_then(Value::as_u64);
    let newest =
        newest.ok_or_else(|| CommandProblem::refused(&doing, "the answer names no version"))?;
    let call = ServerRequest {
        query: vec![("version".to_owned(), version.to_string())],
        ..ServerRequest::new(Method::GET, path.as_str())
    };
    let read = session.find_unwrapped(&doing, &call)?;
    let data = read.as_ref().and_then(|read| read.body.pointer("/data/data")?.as_object());
    let Some(data) = data else {
        return Err(CommandProblem {
            code: 2,
            message: format!("version {version} of {path} does not exist or was deleted"),
        });
    };
    let body = versioned(data.clone(), Some(newest));
    let call = ServerRequest::new(Method::PUT, path.as_str()).with_fields(body);
    let answer = session.ask(&format!("writing {path}"), &call)?;
    sections::show_written(session, &answer, &path)
}

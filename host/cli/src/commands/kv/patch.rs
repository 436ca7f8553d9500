//! `bulkhead kv patch`: changes some values of a secret and keeps the others.
//!
//! This file prevents a lost update: without the server's own patch, the new version is written
//! only if the version that was read is still the newest.

use crate::client::{ServerAnswer, ServerRequest};
use crate::command::Command;
use crate::commands::kv::put::{CAS, versioned};
use crate::commands::kv::secret_location::{MOUNT, SecretLocation};
use crate::commands::kv::sections;
use crate::option::CommandOption;
use crate::problem::CommandProblem;
use crate::session::Session;
use crate::wrapping::AnswerWrapping;
use hyper::Method;
use serde_json::{Map, Value};

pub(crate) const PATCH: Command = Command {
    words: "kv patch",
    takes: "PATH name=value ... | -mount=MOUNT NAME name=value ...",
    about: "change some values of a versioned secret and keep the others\n\n\
            Makes a new version. If your policies do not allow the server's patch, the secret is \
            read and\n\
            written instead; -method=patch or -method=rw allows the named way alone.",
    options: &[&[
        MOUNT,
        CAS,
        CommandOption::text("method", "patch|rw", "rw reads, changes and writes the secret"),
        CommandOption::list("remove-data", "NAME", "remove this value; may be repeated"),
    ]],
    wrapping: AnswerWrapping::Sent,
    run,
};

/// The ways to change a secret.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PatchMethod {
    Patch,
    ReadWrite,
    PatchOrReadWrite,
}

fn run(session: &mut Session<'_, '_>) -> Result<u8, CommandProblem> {
    let way = match session.options.value("method") {
        None => PatchMethod::PatchOrReadWrite,
        Some("patch") => PatchMethod::Patch,
        Some("rw") => PatchMethod::ReadWrite,
        Some(other) => {
            return Err(CommandProblem::usage(format!(
                "-method is patch or rw, and not {other:?}"
            )));
        }
    };
    let (typed, rest) = session.path_and_rest()?;
    let mut changes = session.fields(&rest)?;
    let removed = session.options.values("remove-data").map(|name| (name.to_owned(), Value::Null));
    changes.extend(removed);
    if changes.is_empty() {
        return Err(CommandProblem::usage("there is nothing to change; give name=value"));
    }
    let place = SecretLocation::of_secret(session, &typed)?;
    place.need_versions("kv patch")?;
    let path = place.path("data");
    let answer = match way {
        PatchMethod::ReadWrite => rewrite(session, &path, changes)?,
        PatchMethod::Patch | PatchMethod::PatchOrReadWrite => patch(session, &path, changes, way)?,
    };
    sections::show_written(session, &answer, &path)
}

/// Uses the server's patch, and [`rewrite`] if the server or the caller's policies refuse it.
fn patch(
    session: &Session<'_, '_>,
    path: &str,
    changes: Map<String, Value>,
    way: PatchMethod,
) -> Result<ServerAnswer, CommandProblem> {
    let doing = format!("patching {path}");
    let body = versioned(changes.clone(), session.options.number("cas"));
    let call = ServerRequest::new(Method::PATCH, path).with_merge_patch(body);
    let answer = session.try_asking(&doing, &call)?;
    match answer.status {
        200..300 => Ok(answer),
        403 | 405 if way == PatchMethod::PatchOrReadWrite => rewrite(session, path, changes),
        404 => Err(CommandProblem::nothing_at(path)),
        _ => Err(session.refusal(&doing, &answer)),
    }
}

/// Reads the newest version, changes it, and writes it if the version is still the newest.
fn rewrite(
    session: &Session<'_, '_>,
    path: &str,
    changes: Map<String, Value>,
) -> Result<ServerAnswer, CommandProblem> {
    let read = session
        .find_unwrapped(&format!("reading {path}"), &ServerRequest::new(Method::GET, path))?;
    let data = read.as_ref().and_then(|read| read.body.pointer("/data/data")?.as_object());
    let version =
        read.as_ref().and_then(|read| read.body.pointer("/data/metadata/version")?.as_u64());
    let (Some(data), Some(version)) = (data, version) else {
        return Err(CommandProblem::nothing_at(path));
    };
    let mut data = data.clone();
    for (name, value) in changes {
        if value.is_null() {
            data.remove(&name);
        } else {
            data.insert(name, value);
        }
    }
    let cas = session.options.number("cas").unwrap_or(version);
    let call = ServerRequest::new(Method::PUT, path).with_fields(versioned(data, Some(cas)));
    session.ask(&format!("writing {path}"), &call)
}

//! `bulkhead kv patch`: changes some values of a secret and keeps the others.
//!
//! Prevents a lost update: without the server's own patch, the new version is written only if the
//! version that was read is still the newest.

use crate::client::{Answer, Call};
use crate::command::Command;
use crate::commands::kv::place::{MOUNT, Place};
use crate::commands::kv::put::{CAS, versioned};
use crate::commands::kv::sections;
use crate::option::Opt;
use crate::problem::Problem;
use crate::session::Session;
use hyper::Method;
use serde_json::{Map, Value};

pub(crate) const PATCH: Command = Command {
    words: "kv patch",
    takes: "PATH name=value ... | -mount=MOUNT NAME name=value ...",
    about: "change some values of a versioned secret and keep the others\n\n\
            Makes a new version. If your policies do not allow the server's patch, the secret is \
            read and\n\
            written instead; -method=patch or -method=rw permits only one of the two.",
    options: &[&[
        MOUNT,
        CAS,
        Opt::text("method", "patch|rw", "rw reads the secret, changes it and writes it"),
        Opt::list("remove-data", "NAME", "remove this value; may be repeated"),
    ]],
    run,
};

/// The ways to change a secret.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Patch,
    ReadWrite,
    PatchOrReadWrite,
}

fn run(session: &mut Session<'_, '_>) -> Result<u8, Problem> {
    let way = match session.options.value("method") {
        None => Way::PatchOrReadWrite,
        Some("patch") => Way::Patch,
        Some("rw") => Way::ReadWrite,
        Some(other) => {
            return Err(Problem::usage(format!("-method is patch or rw, and not {other:?}")));
        }
    };
    let (typed, rest) = session.path_and_rest()?;
    let mut changes = session.fields(&rest)?;
    let removed = session.options.values("remove-data").map(|name| (name.to_owned(), Value::Null));
    changes.extend(removed);
    if changes.is_empty() {
        return Err(Problem::usage("there is nothing to change; give name=value"));
    }
    let place = Place::of_secret(session, &typed)?;
    place.need_versions("kv patch")?;
    let path = place.path("data");
    let answer = match way {
        Way::ReadWrite => rewrite(session, &path, changes)?,
        Way::Patch | Way::PatchOrReadWrite => patch(session, &path, changes, way)?,
    };
    sections::show_written(session, &answer, &path)
}

/// Uses the server's patch, and [`rewrite`] if the server or the caller's policies refuse it.
fn patch(
    session: &Session<'_, '_>,
    path: &str,
    changes: Map<String, Value>,
    way: Way,
) -> Result<Answer, Problem> {
    let doing = format!("patching {path}");
    let body = versioned(changes.clone(), session.options.number("cas"));
    let call = Call::new(Method::PATCH, path).with_merge_patch(body);
    let answer = session.try_asking(&doing, &call)?;
    match answer.status {
        200..300 => Ok(answer),
        403 | 405 if way == Way::PatchOrReadWrite => rewrite(session, path, changes),
        404 => Err(Problem::nothing_at(path)),
        _ => Err(session.refusal(&doing, &answer)),
    }
}

/// Reads the newest version, changes it, and writes it if the version is still the newest.
fn rewrite(
    session: &Session<'_, '_>,
    path: &str,
    changes: Map<String, Value>,
) -> Result<Answer, Problem> {
    let read = session.find(&format!("reading {path}"), &Call::new(Method::GET, path))?;
    let data = read.as_ref().and_then(|read| read.body.pointer("/data/data")?.as_object());
    let version =
        read.as_ref().and_then(|read| read.body.pointer("/data/metadata/version")?.as_u64());
    let (Some(data), Some(version)) = (data, version) else {
        return Err(Problem::nothing_at(path));
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
    let call = Call::new(Method::PUT, path).with_fields(versioned(data, Some(cas)));
    session.ask(&format!("writing {path}"), &call)
}

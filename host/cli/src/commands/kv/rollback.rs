//! `bulkhead kv rollback`: writes an older version again, as the newest one.
//!
//! Prevents a lost update: the version is written only if nobody wrote another one meanwhile.

use crate::client::Call;
use crate::command::Command;
use crate::commands::kv::place::{MOUNT, Place};
use crate::commands::kv::put::versioned;
use crate::commands::kv::sections;
use crate::option::Opt;
use crate::problem::Problem;
use crate::session::Session;
use hyper::Method;
use serde_json::Value;

pub(crate) const ROLLBACK: Command = Command {
    words: "kv rollback",
    takes: "-version=N PATH | -version=N -mount=MOUNT NAME",
    about: "make an older version of a secret the newest one again\n\n\
            Writes the data of the older version as a new version.",
    options: &[&[MOUNT, Opt::number("version", "the version whose data are written again")]],
    run,
};

fn run(session: &mut Session<'_, '_>) -> Result<u8, Problem> {
    let [typed] = session.words()?;
    let Some(version) = session.options.number("version").filter(|number| *number > 0) else {
        return Err(Problem::usage("say which version is written again, as in -version=2"));
    };
    let place = Place::of_secret(session, &typed)?;
    place.need_versions("kv rollback")?;
    let path = place.path("data");
    let doing = format!("reading {path}");
    let newest = session.find(&doing, &Call::new(Method::GET, path.as_str()))?;
    let newest = newest.ok_or_else(|| Problem::nothing_at(&path))?;
    let newest = newest.body.pointer("/data/metadata/version").and_then(Value::as_u64);
    let newest = newest.ok_or_else(|| Problem::refused(&doing, "the answer names no version"))?;
    let call = Call {
        query: vec![("version".to_owned(), version.to_string())],
        ..Call::new(Method::GET, path.as_str())
    };
    let read = session.find(&doing, &call)?;
    let data = read.as_ref().and_then(|read| read.body.pointer("/data/data")?.as_object());
    let Some(data) = data else {
        return Err(Problem {
            code: 2,
            message: format!("version {version} of {path} does not exist or was deleted"),
        });
    };
    let body = versioned(data.clone(), Some(newest));
    let call = Call::new(Method::PUT, path.as_str()).with_fields(body);
    let answer = session.ask(&format!("writing {path}"), &call)?;
    sections::show_written(session, &answer, &path)
}

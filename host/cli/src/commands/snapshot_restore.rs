//! `bulkhead operator snapshot restore`: the data of a server, replaced by those of a snapshot.
//!
//! This file prevents the loss of data by a damaged file: the whole file is checked before a byte
//! is sent.

use crate::client::ServerRequest;
use crate::command::Command;
use crate::io::RestorePlace;
use crate::option::CommandOption;
use crate::output;
use crate::problem::CommandProblem;
use crate::session::Session;
use crate::wrapping::AnswerWrapping;
use hyper::Method;
use serde_json::Value;
use std::path::{Path, PathBuf};

const ABOUT: &str = "replace all data of a server by the snapshot FILE\n\n\
    The server answers after its data were replaced. The replaced database stays beside the new \
    one as\nbulkhead.db.undone. The keys of the snapshot's time open the data. A restored server \
    starts no due\nwork until `bulkhead operator release`.\n\n\
    With -config or -data the snapshot is restored into the data of a server that does not run: \
    run the\ncommand as the user of the server. -config reads the place of the data from the \
    configuration file of\nthe server, for SQLite and PostgreSQL. Replaced tables stay beside the \
    new ones, with\n\"replaced\" in their names.";

const OPTIONS: &[CommandOption] = &[
    CommandOption::switch(
        "force",
        "accept a snapshot of another cluster; with -config or -data, replace present data",
    ),
    CommandOption::text(
        "config",
        "CONFIG",
        "restore into the data of the server with this configuration file; needs no server",
    ),
    CommandOption::text("data", "DIR", "restore into this data directory; needs no server"),
];

/// Reason for the refusal of a wrapping time.
const NO_WRAPPING: &str = "the answer to a restore is empty";

pub(crate) const RESTORE: Command = Command {
    words: "operator snapshot restore",
    takes: "[-force] [-config=CONFIG | -data=DIR] FILE",
    about: ABOUT,
    options: &[OPTIONS],
    wrapping: AnswerWrapping::Refused(NO_WRAPPING),
    run: restore,
};

pub(crate) const RAFT_RESTORE: Command = Command {
    words: "operator raft snapshot restore",
    takes: "[-force] [-config=CONFIG | -data=DIR] FILE",
    about: "for scripts of Vault: as `operator snapshot restore`",
    options: &[OPTIONS],
    wrapping: AnswerWrapping::Refused(NO_WRAPPING),
    run: restore,
};

/// The next step, for standard error.
const NEXT: &str = "due work waits: make sure that no other server works with these data, then \
                    type: bulkhead operator release";

fn restore(session: &mut Session<'_, '_>) -> Result<u8, CommandProblem> {
    let [file] = session.words()?;
    let (path, forces) = (PathBuf::from(&file), session.options.switch("force"));
    let named = |option: &str| session.options.value(option).map(PathBuf::from);
    let (config, directory) = (named("config"), named("data"));
    let place = place_of(config.as_deref(), directory.as_deref())?;
    let (done, is_sealed) = match place {
        Some(place) => (restore_offline(session, place, &path, forces)?, false),
        None => restore_online(session, &path, forces)?,
    };
    let code = session.confirm(&done)?;
    if !is_sealed {
        session.note(NEXT);
    }
    Ok(code)
}

/// Returns the place of the data of a server that does not run; `None` for a running server.
fn place_of<'a>(
    config: Option<&'a Path>,
    directory: Option<&'a Path>,
) -> Result<Option<RestorePlace<'a>>, CommandProblem> {
    let is_empty = |path: Option<&Path>| path.is_some_and(|path| path.as_os_str().is_empty());
    if is_empty(config) {
        return Err(CommandProblem::usage(
            "-config is empty; name the configuration file of the server".to_owned(),
        ));
    }
    if is_empty(directory) {
        return Err(CommandProblem::usage(
            "-data is empty; name the data directory of the server".to_owned(),
        ));
    }
    match (config, directory) {
        (Some(_), Some(_)) => Err(CommandProblem::usage(
            "-config and -data both name the place of the data; give only one of them".to_owned(),
        )),
        (Some(file), None) => Ok(Some(RestorePlace::Configuration(file))),
        (None, directory) => Ok(directory.map(RestorePlace::Directory)),
    }
}

fn restore_offline(
    session: &Session<'_, '_>,
    place: RestorePlace<'_>,
    file: &Path,
    replaces: bool,
) -> Result<String, CommandProblem> {
    let restored = session.restore_data(place, file, replaces);
    let line = restored.map_err(|why| CommandProblem::refused("restoring a snapshot", why))?;
    Ok(format!("{line}; start the server"))
}

/// Returns the line for the terminal, and whether the server is sealed. Prints the warnings of the
/// answer in every format: nothing else of the answer is printed.
fn restore_online(
    session: &mut Session<'_, '_>,
    file: &Path,
    forces: bool,
) -> Result<(String, bool), CommandProblem> {
    let doing = "restoring a snapshot";
    let checked = session.inspect_snapshot(file);
    let line = checked.map_err(|why| CommandProblem::refused(doing, why))?;
    let path = if forces { "sys/storage/snapshot-force" } else { "sys/storage/snapshot" };
    let call = ServerRequest::new(Method::POST, path).with_file(file.to_owned());
    let answer = session.upload(doing, &call, file)?;
    for warning in output::warnings(&answer) {
        session.note(&format!("warning: {warning}"));
    }
    let is_sealed = answer.body.pointer("/data/sealed").and_then(Value::as_bool).unwrap_or(false);
    let done = format!(
        "the server has the data of {}, {line}; `bulkhead status` shows whether the server is \
         sealed",
        file.display()
    );
    Ok((done, is_sealed))
}

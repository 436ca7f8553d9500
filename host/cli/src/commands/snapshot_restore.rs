//! `bulkhead operator snapshot restore`: the data of a server, replaced by those of a snapshot.
//!
//! This file prevents the loss of data by a damaged file: the whole file is checked before a byte
//! is sent.

use crate::client::ServerRequest;
use crate::command::Command;
use crate::option::CommandOption;
use crate::output;
use crate::problem::CommandProblem;
use crate::session::Session;
use crate::wrapping::AnswerWrapping;
use hyper::Method;
use serde_json::Value;
use std::path::{Path, PathBuf};

const ABOUT: &str = "replace all data of a server, or of a directory, by the snapshot FILE\n\n\
    The server answers after its data were replaced. The replaced database stays beside the new \
    one as\nbulkhead.db.undone. The keys of the snapshot's time open the data. A restored server \
    starts no due\nwork until `bulkhead operator release`.\n\n\
    With -data the snapshot is restored into the data directory of a server that does not run: \
    run the\ncommand as the user of the server.";

const OPTIONS: &[CommandOption] = &[
    CommandOption::switch(
        "force",
        "accept a snapshot of another cluster; with -data, replace the data in DIR",
    ),
    CommandOption::text("data", "DIR", "restore into this data directory; needs no server"),
];

/// Reason for the refusal of a wrapping time.
const NO_WRAPPING: &str = "the answer to a restore is empty";

pub(crate) const RESTORE: Command = Command {
    words: "operator snapshot restore",
    takes: "[-force] [-data=DIR] FILE",
    about: ABOUT,
    options: &[OPTIONS],
    wrapping: AnswerWrapping::Refused(NO_WRAPPING),
    run: restore,
};

pub(crate) const RAFT_RESTORE: Command = Command {
    words: "operator raft snapshot restore",
    takes: "[-force] [-data=DIR] FILE",
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
    let directory = session.options.value("data").map(PathBuf::from);
    let (done, is_sealed) = match directory {
        Some(directory) => (restore_offline(session, &directory, &path, forces)?, false),
        None => restore_online(session, &path, forces)?,
    };
    let code = session.confirm(&done)?;
    if !is_sealed {
        session.note(NEXT);
    }
    Ok(code)
}

fn restore_offline(
    session: &Session<'_, '_>,
    directory: &Path,
    file: &Path,
    replaces: bool,
) -> Result<String, CommandProblem> {
    let doing = "restoring a snapshot";
    if directory.as_os_str().is_empty() {
        return Err(CommandProblem::usage(
            "-data is empty; name the data directory of the server".to_owned(),
        ));
    }
    let restored = session.restore_directory(directory, file, replaces);
    let line = restored.map_err(|why| CommandProblem::refused(doing, why))?;
    Ok(format!("{}: restored {line}; start the server", directory.display()))
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

//! `bulkhead operator snapshot save`: a snapshot of the server's data in a file.
//!
//! This file prevents an incomplete backup under the name of a complete one, and a backup that
//! other users of the machine can read: the bytes go to a new file of another name, which is closed
//! to others, is checked to the end, and is renamed last.

use crate::client::ServerRequest;
use crate::command::Command;
use crate::problem::CommandProblem;
use crate::session::Session;
use crate::wrapping::AnswerWrapping;
use hyper::Method;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

const ABOUT: &str = "save a snapshot of all data to FILE, while the server works\n\n\
    The file opens with the keys of the data directory: unseal keys, recovery keys, or the key \
    of a\nstatic seal. Anyone with FILE and these keys can decrypt the data. An existing FILE is \
    replaced\nafter the new snapshot is complete.";

/// Reason for the refusal of a wrapping time.
const NO_WRAPPING: &str = "a snapshot is a file and is sealed already";

pub(crate) const SAVE: Command = Command {
    words: "operator snapshot save",
    takes: "FILE",
    about: ABOUT,
    options: &[],
    wrapping: AnswerWrapping::Refused(NO_WRAPPING),
    run: save,
};

pub(crate) const RAFT_SAVE: Command = Command {
    words: "operator raft snapshot save",
    takes: "FILE",
    about: "for scripts of Vault: as `operator snapshot save`",
    options: &[],
    wrapping: AnswerWrapping::Refused(NO_WRAPPING),
    run: save,
};

fn save(session: &mut Session<'_, '_>) -> Result<u8, CommandProblem> {
    let [file] = session.words()?;
    let path = PathBuf::from(&file);
    let Some(name) = path.file_name().filter(|_| !path.is_dir()) else {
        return Err(CommandProblem::usage(format!(
            "{file} is not the name of a file; name the file for the snapshot"
        )));
    };
    let mut unfinished = name.to_owned();
    unfinished.push(format!(".{}.unfinished", std::process::id()));
    let unfinished = path.with_file_name(unfinished);
    let saved = save_as(session, &unfinished, &path);
    if saved.is_err() {
        // The cause is the error that is reported; the new file may not exist.
        fs::remove_file(&unfinished).unwrap_or_default();
    }
    session.confirm(&format!("{file}: {}", saved?))
}

/// Saves to `unfinished`, checks the file and renames it to `path`. Returns a line about the
/// snapshot.
fn save_as(
    session: &Session<'_, '_>,
    unfinished: &Path,
    path: &Path,
) -> Result<String, CommandProblem> {
    let doing = "saving a snapshot";
    let unwritable = |error: io::Error| {
        CommandProblem::usage(format!(
            "the snapshot cannot be written to {}: {error}",
            path.display()
        ))
    };
    // A file of a process that had the same number and was killed.
    match fs::remove_file(unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(unwritable(error)),
        _ => {}
    }
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(unfinished);
    let mut file = opened.map_err(unwritable)?;
    let call = ServerRequest::new(Method::GET, "sys/storage/snapshot");
    session.download(doing, &call, &mut file)?;
    file.sync_all().map_err(unwritable)?;
    let checked = session.inspect_snapshot(unfinished);
    let line = checked.map_err(|why| CommandProblem::refused(doing, why))?;
    fs::rename(unfinished, path).map_err(unwritable)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = File::open(folder.unwrap_or(Path::new(".")));
    folder.and_then(|folder| folder.sync_all()).map_err(unwritable)?;
    Ok(line)
}

//! The file in the home directory that keeps the token of `bulkhead login`.
//!
//! This file prevents a token that other users of the machine can read: a new file is closed to
//! them from the start, and an open file is refused.

use crate::problem::CommandProblem;
use bulkhead_wire::secret::Secret;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The file that `login` writes.
const TOKEN_FILE_NAME: &str = ".bulkhead-token";

/// The files that are read, the first one that exists. The second one is Vault's.
const READ: [&str; 2] = [TOKEN_FILE_NAME, ".vault-token"];

/// Maximum size of a token file, in bytes.
const BYTES_MAX: u64 = 8 * 1024;

/// Returns the stored text and the file that holds it.
///
/// # Errors
/// A file that others can access, that is too long, or that cannot be read.
pub(crate) fn read(home: &Path) -> Result<Option<(String, PathBuf)>, CommandProblem> {
    for name in READ {
        let path = home.join(name);
        if let Some(text) = read_file(&path)? {
            return Ok(Some((text, path)));
        }
    }
    Ok(None)
}

fn read_file(path: &Path) -> Result<Option<String>, CommandProblem> {
    let unreadable = |error: io::Error| {
        CommandProblem::usage(format!("cannot read {}: {error}", path.display()))
    };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(error)),
    };
    // The mode comes from the open file, so that the checked file is the file that is read.
    let mode = file.metadata().map_err(unreadable)?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(CommandProblem::usage(format!(
            "{path} may be read by others (mode {mode:04o}); the token may be known: replace the \
             token, then run chmod 600 {path}",
            path = path.display(),
            mode = mode & 0o7777,
        )));
    }
    let mut text = String::new();
    file.take(BYTES_MAX + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > BYTES_MAX {
        let why = format!("the file has more than {BYTES_MAX} bytes and holds no token");
        return Err(unreadable(io::Error::other(why)));
    }
    Ok(Some(text))
}

/// Stores the token and returns the file. A reader sees the old token or the new one, never a part.
///
/// # Errors
/// A file that cannot be written.
pub(crate) fn store(home: &Path, token: &Secret) -> Result<PathBuf, CommandProblem> {
    let path = home.join(TOKEN_FILE_NAME);
    let new = home.join(format!("{TOKEN_FILE_NAME}.{}", std::process::id()));
    let written = write_new(&new, token.expose()).and_then(|()| fs::rename(&new, &path));
    written.map_err(|error| {
        // The cause is the error that is reported; the new file may not exist.
        fs::remove_file(&new).unwrap_or_default();
        CommandProblem::usage(format!(
            "the token cannot be stored in {}: {error}; give -no-store to log in without storing",
            path.display()
        ))
    })?;
    Ok(path)
}

fn write_new(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_token_is_owner_only_and_replaces_previous() {
        let home = std::env::temp_dir().join(format!("bulkhead-cli-{}-store", std::process::id()));
        fs::create_dir_all(&home).unwrap();
        assert_eq!(read(&home).unwrap(), None);
        fs::write(home.join(".vault-token"), "theirs").unwrap();
        fs::set_permissions(home.join(".vault-token"), fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(read(&home).unwrap().unwrap().0, "theirs");
        for token in ["bhs.first", "bhs.second"] {
            let path = store(&home, &Secret::new(token)).unwrap();
            let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
            assert_eq!((mode, read(&home).unwrap()), (0o600, Some((token.to_owned(), path))));
        }
        assert_eq!(fs::read_dir(&home).unwrap().count(), 2, "no other file is left");
        fs::write(home.join(TOKEN_FILE_NAME), "a".repeat(8 * 1024 + 1)).unwrap();
        let long = read(&home).unwrap_err();
        assert!(long.message.contains("more than 8192 bytes"), "no token is cut: {}", long.message);
        fs::remove_dir_all(&home).unwrap();
        let refused = store(&home, &Secret::new("bhs.canary")).unwrap_err();
        assert!(refused.message.contains("-no-store") && !refused.message.contains("canary"));
    }
}

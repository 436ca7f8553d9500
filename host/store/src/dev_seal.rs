//! The dev seal: a key in a file beside the data that it seals.
//!
//! **It protects nothing from somebody who has the directory.** It exists so that a dev server can open its data
//! again without ceremony. What it still does: the database file alone, or its backup, says nothing.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use zeroize::Zeroizing;

use crate::directory::{self, cannot};
use crate::fault::StoreFault;
use crate::seal::{KEY_BYTES, SealKey};

const KEY_FILE: &str = "dev-seal.key";

/// The dev mode's key of `directory`, read from its file `dev-seal.key` (mode 0600), or made together with the
/// directory (mode 0700) when there is neither a key nor data. **In dev mode the key lies beside the data.**
///
/// # Errors
/// [`StoreFault::Refused`] when the file is not 32 bytes, is readable by other users, or is missing although the
/// directory holds data; [`StoreFault::Unavailable`] when it cannot be read or written.
pub fn dev_key(directory: &Path) -> Result<SealKey, StoreFault> {
    directory::create(directory)?;
    let path = directory.join(KEY_FILE);
    match fs::metadata(&path) {
        Ok(metadata) => read(&path, metadata.permissions().mode()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => make(directory, &path),
        Err(error) => Err(cannot("read", &path, &error)),
    }
}

fn read(path: &Path, mode: u32) -> Result<SealKey, StoreFault> {
    if mode & 0o077 != 0 {
        return Err(StoreFault::Refused(format!(
            "the key file {} has mode {:03o} and others can read it; set it to 600",
            path.display(),
            mode & 0o777
        )));
    }
    let content = Zeroizing::new(fs::read(path).map_err(|error| cannot("read", path, &error))?);
    let key = <[u8; KEY_BYTES]>::try_from(content.as_slice()).map_err(|_| {
        StoreFault::Refused(format!(
            "the key file {} holds {} bytes instead of {KEY_BYTES}; restore it, or start with an empty directory",
            path.display(),
            content.len()
        ))
    })?;
    Ok(SealKey::from_bytes(key))
}

fn make(directory: &Path, path: &Path) -> Result<SealKey, StoreFault> {
    if fs::metadata(directory::database(directory)).is_ok_and(|database| database.len() > 0) {
        return Err(StoreFault::Refused(format!(
            "{} holds sealed data but its key file {KEY_FILE} is missing; \
             restore the file, or choose another directory",
            directory.display()
        )));
    }
    let key = SealKey::generate()?;
    // Flushed before the first record is sealed with it: data without its key would be lost.
    directory::create_private(path)
        .and_then(|mut file| file.write_all(key.bytes()).and_then(|()| file.sync_all()))
        .map_err(|error| cannot("write the key file", path, &error))?;
    directory::flush(directory)?;
    Ok(key)
}

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests fail by panicking"
)]
mod tests {
    use super::*;
    use crate::testing::Scratch;

    fn mode_of(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    fn refusal(directory: &Path) -> String {
        match dev_key(directory) {
            Err(StoreFault::Refused(text)) => text,
            Err(other) => panic!("not a refusal: {other}"),
            Ok(_) => panic!("not refused"),
        }
    }

    #[test]
    fn the_key_is_made_once_and_only_its_owner_can_read_it() {
        let scratch = Scratch::new();
        let directory = scratch.path().join("made");
        let first = dev_key(&directory).unwrap();
        assert_eq!(dev_key(&directory).unwrap().bytes(), first.bytes());
        assert_eq!(mode_of(&directory), 0o700);
        assert_eq!(mode_of(&directory.join(KEY_FILE)), 0o600);
    }

    #[test]
    fn a_key_that_others_can_read_is_refused_with_its_mode() {
        let scratch = Scratch::new();
        dev_key(scratch.path()).unwrap();
        let path = scratch.path().join(KEY_FILE);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(refusal(scratch.path()).contains("644"));
    }

    #[test]
    fn a_key_of_the_wrong_length_is_refused_and_not_shown() {
        let scratch = Scratch::new();
        dev_key(scratch.path()).unwrap();
        fs::write(scratch.path().join(KEY_FILE), b"hunter2").unwrap();
        let text = refusal(scratch.path());
        assert!(text.contains("7 bytes"));
        assert!(!text.contains("hunter2"));
    }

    #[test]
    fn no_new_key_is_made_over_data_that_it_could_not_open() {
        let scratch = Scratch::new();
        fs::write(directory::database(scratch.path()), b"something").unwrap();
        assert!(refusal(scratch.path()).contains("missing"));
        assert!(!scratch.path().join(KEY_FILE).exists());
    }
}

//! The dev seal: a key in a file beside the sealed data.
//!
//! **The dev seal protects nothing from an intruder who has the directory.** It lets a dev server
//! open the data again without an operator. The database file alone, or a backup of the file, still
//! reveals nothing.
//!
//! The seal has a single share like any other seal; the share is stored in this file and can also
//! unseal the data by hand.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use crate::data_directory::DataDirectory;
use bulkhead_place::directory::{self, file_failure};
use bulkhead_record::cipher::{KEY_BYTES, SealKey};
use bulkhead_record::fault::StoreFault;

const KEY_FILE: &str = "dev-seal.key";

/// Returns the dev key of `directory`, read from its file `dev-seal.key` (mode 0600). Creates the
/// key if there is neither a key nor data. **In dev mode the key lies beside the data.**
///
/// # Errors
/// [`StoreFault::Refused`] if the file is not 32 bytes, is accessible to other users, or is missing
/// although the directory holds data; [`StoreFault::Unavailable`] if the file cannot be read or
/// written.
pub fn dev_key(directory: &DataDirectory) -> Result<SealKey, StoreFault> {
    let path = directory.path().join(KEY_FILE);
    match fs::metadata(&path) {
        Ok(metadata) => read_key(&path, metadata.permissions().mode()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => make_key(directory, &path),
        Err(error) => Err(file_failure("read", &path, &error)),
    }
}

/// Returns the path of the dev seal's key file in `directory`, if the file exists.
pub fn dev_key_file(directory: &DataDirectory) -> Option<PathBuf> {
    Some(directory.path().join(KEY_FILE)).filter(|path| path.exists())
}

fn read_key(path: &Path, mode: u32) -> Result<SealKey, StoreFault> {
    if mode & 0o077 != 0 {
        return Err(StoreFault::Refused(format!(
            "the key file {} has mode {:03o} and others can read the key; set mode 600",
            path.display(),
            mode & 0o777
        )));
    }
    let content =
        Zeroizing::new(fs::read(path).map_err(|error| file_failure("read", path, &error))?);
    let key = <[u8; KEY_BYTES]>::try_from(content.as_slice()).map_err(|_| {
        StoreFault::Refused(format!(
            "the key file {} holds {} bytes instead of {KEY_BYTES}; restore the file, or start \
             with an empty directory",
            path.display(),
            content.len()
        ))
    })?;
    Ok(SealKey::from_bytes(key))
}

fn make_key(directory: &DataDirectory, path: &Path) -> Result<SealKey, StoreFault> {
    if directory.is_initialised() {
        return Err(StoreFault::Refused(format!(
            "{} holds sealed data but the key file {KEY_FILE} is missing; restore the file, or \
             choose another directory",
            directory.path().display()
        )));
    }
    let key = SealKey::generate()?;
    // Flushed before the first record is sealed with the key: data without the key would be lost.
    directory::write_whole(path, key.bytes())
        .map_err(|error| file_failure("write the key file", path, &error))?;
    directory::flush(directory.path())?;
    Ok(key)
}

#[cfg(test)]
mod tests;

//! Unseal keys for a check, from a file or from standard input.
//!
//! This file prevents the use of a key file that other accounts of the machine can read.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use zeroize::Zeroizing;

use bulkhead_place::directory::file_failure;
use bulkhead_record::cipher::SealKey;
use bulkhead_record::fault::StoreFault;
use bulkhead_record::shamir::KeyShare;

/// Maximum size of the keys, in bytes: 255 shares in hexadecimal, with room for white space.
const MAX_KEYS_BYTES: u64 = 32 << 10;

/// Permission bits that a key file must not have.
const OTHERS: u32 = 0o027;

/// Reads the unseal keys in a file that is closed to others: a key in each line as printed, or the
/// 32 bytes of a dev seal.
///
/// # Errors
/// [`StoreFault::Refused`] if others may read the file, or the content is not a key;
/// [`StoreFault::Unavailable`] if the file cannot be read.
pub fn read_key_file(path: &Path) -> Result<Vec<KeyShare>, StoreFault> {
    let unread = |error| file_failure("read the key file", path, &error);
    let file = File::open(path).map_err(unread)?;
    let mode = file.metadata().map_err(unread)?.mode() & 0o7777;
    if mode & OTHERS != 0 {
        return Err(StoreFault::Refused(format!(
            "the key file {} has mode {mode:03o} and others can read the keys; set mode 600",
            path.display()
        )));
    }
    read_keys(file)
}

/// Reads unseal keys: a key in each line as printed, or the 32 bytes of a dev seal.
///
/// # Errors
/// As [`read_key_file`].
pub fn read_keys(source: impl Read) -> Result<Vec<KeyShare>, StoreFault> {
    let mut content = Zeroizing::new(Vec::new());
    source.take(MAX_KEYS_BYTES + 1).read_to_end(&mut content).map_err(|error| {
        StoreFault::Unavailable(format!("the unseal keys cannot be read: {error}"))
    })?;
    if u64::try_from(content.len()).unwrap_or(u64::MAX) > MAX_KEYS_BYTES {
        return Err(StoreFault::Refused(format!(
            "there are more than {MAX_KEYS_BYTES} bytes of unseal keys; give a key in each line"
        )));
    }
    // The only key of a dev seal, of a static seal, or of data without shares.
    if let Some(key) = SealKey::parse(&content) {
        return Ok(vec![key.share()]);
    }
    let text = std::str::from_utf8(&content).map_err(|_| no_keys())?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let keys: Vec<KeyShare> =
        lines.map(KeyShare::parse).collect::<Result<_, _>>().map_err(StoreFault::Refused)?;
    if keys.is_empty() { Err(no_keys()) } else { Ok(keys) }
}

fn no_keys() -> StoreFault {
    StoreFault::Refused("no unseal key was given; give an unseal key in each line".to_owned())
}

#[cfg(test)]
mod tests;

//! The TLS files: permission checks and PEM blocks. The group of a secret file may read the file
//! but not write it; other users have no access.

use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

/// Maximum size of a file, in bytes: the authorities of a whole country fit.
const FILE_MAX: u64 = 1 << 20;

/// Permission bits that a secret file must not have: write for the group, anything for others.
const OTHERS: u32 = 0o027;

/// Reads the certificates of a file, in order. `key` is the setting that names the file.
///
/// # Errors
/// A file that cannot be read or holds no certificate.
pub(crate) fn certificates(file: &Path, key: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let (text, _) = read(file, key)?;
    let found: Result<Vec<_>, pem::Error> = CertificateDer::pem_slice_iter(&text).collect();
    let found = found.map_err(|error| incomplete_message(file, key, &error))?;
    if found.is_empty() {
        return Err(format!(
            "{key} {} holds no certificate; give a PEM file with BEGIN CERTIFICATE in it",
            file.display()
        ));
    }
    Ok(found)
}

/// Reads the private key of a file.
///
/// # Errors
/// A file that cannot be read, has one of the permission bits [`OTHERS`], or holds no unencrypted
/// key.
pub(super) fn private_key(file: &Path, key: &str) -> Result<PrivateKeyDer<'static>, String> {
    let (text, metadata) = read(file, key)?;
    let shown = file.display();
    check_closed(file, key, &metadata)?;
    if contains_word(&text, b"ENCRYPTED") {
        return Err(format!(
            "{key} {shown} is encrypted, and a start has no one to ask for its passphrase; \
             write the key in the clear, with mode 0600, by: openssl pkey -in {shown}"
        ));
    }
    match PrivateKeyDer::from_pem_slice(&text) {
        Ok(found) => Ok(found),
        Err(pem::Error::NoItemsFound) => Err(format!(
            "{key} {shown} holds no private key; give a PEM file with BEGIN PRIVATE KEY in it"
        )),
        Err(error) => Err(incomplete_message(file, key, &error)),
    }
}

/// Reads a file that holds a secret.
///
/// # Errors
/// A file that cannot be read, or has one of the permission bits [`OTHERS`].
pub(crate) fn secret(file: &Path, key: &str) -> Result<Vec<u8>, String> {
    let (text, metadata) = read(file, key)?;
    check_closed(file, key, &metadata)?;
    Ok(text)
}

fn check_closed(file: &Path, key: &str, metadata: &Metadata) -> Result<(), String> {
    let shown = file.display();
    let mode = metadata.permissions().mode() & 0o7777;
    if mode & OTHERS == 0 {
        return Ok(());
    }
    Err(format!(
        "{key} {shown} is open to others (mode {mode:04o}), who may have copied it; run chmod 600 \
         {shown}, and replace it if it is in use"
    ))
}

fn contains_word(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|part| part == word)
}

fn incomplete_message(file: &Path, key: &str, error: &pem::Error) -> String {
    // The parser's message is not used, because it may quote a line of the file.
    let why = match error {
        pem::Error::MissingSectionEnd { .. } => "a block in it has no END line",
        pem::Error::IllegalSectionStart { .. } => "a BEGIN line in it is not whole",
        pem::Error::Base64Decode(_) => "a block in it is not base64",
        _ => "it does not read",
    };
    format!("{key} {} is not a PEM file: {why}; create it again", file.display())
}

/// Reads a file together with the metadata of the opened file, so that the checked file is the file
/// that was read.
fn read(file: &Path, key: &str) -> Result<(Vec<u8>, Metadata), String> {
    let unreadable = |error: io::Error| {
        format!(
            "{key} {} cannot be read: {error}; \
             give a file that the user of this process may read",
            file.display()
        )
    };
    // Opening a pipe would block.
    if !std::fs::metadata(file).map_err(unreadable)?.is_file() {
        return Err(unreadable(io::Error::other("it is not an ordinary file")));
    }
    let opened = File::open(file).map_err(unreadable)?;
    let metadata = opened.metadata().map_err(unreadable)?;
    let mut text = Vec::new();
    opened.take(FILE_MAX + 1).read_to_end(&mut text).map_err(unreadable)?;
    if text.len() as u64 > FILE_MAX {
        return Err(unreadable(io::Error::other("it has more than 1 MiB")));
    }
    Ok((text, metadata))
}

/// The identity of a file's content, without reading the file. A symbolic link is followed, because
/// its target may have been replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileStamp(Option<[i64; 6]>);

impl FileStamp {
    pub(super) fn of(file: &Path) -> Self {
        let metadata = std::fs::metadata(file).ok();
        Self(metadata.map(|it| {
            let whole = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
            [
                whole(it.ino()),
                whole(it.size()),
                it.mtime(),
                it.mtime_nsec(),
                it.ctime(),
                it.ctime_nsec(),
            ]
        }))
    }
}

//! Files of certificates and secrets: permission checks and limits. The group of a secret file may
//! read the file but not write it; other users have no access.

use crate::pem::{self, PemFault};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::fmt;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// Maximum size of a file, in bytes: the authorities of a whole country fit.
const FILE_MAX: u64 = 1 << 20;

/// Permission bits that a secret file must not have: write for the group, anything for others.
const OTHERS: u32 = 0o027;

/// A file, and the setting that names the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFile {
    setting: &'static str,
    path: PathBuf,
    may_be_pipe: bool,
}

impl NamedFile {
    /// An ordinary file. `setting` names the file in messages.
    pub fn new(setting: &'static str, path: impl Into<PathBuf>) -> Self {
        Self { setting, path: path.into(), may_be_pipe: false }
    }

    /// A file or a pipe, such as `<(command)` of a shell. A read waits for the pipe's writer.
    pub fn or_pipe(setting: &'static str, path: impl Into<PathBuf>) -> Self {
        Self { may_be_pipe: true, ..Self::new(setting, path) }
    }

    /// Returns the path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the certificates of the file, in order; at least one.
    ///
    /// # Errors
    /// An unreadable file, or a file without a certificate.
    pub fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, String> {
        let (text, _) = self.read()?;
        pem::certificates(&text).map_err(|fault| format!("{self} {fault}"))
    }

    /// Reads the certificates of a file that may hold none.
    ///
    /// # Errors
    /// An unreadable file, or a torn certificate.
    pub fn certificates_if_any(&self) -> Result<Vec<CertificateDer<'static>>, String> {
        let (text, _) = self.read()?;
        match pem::certificates(&text) {
            Err(PemFault::NoCertificate) => Ok(Vec::new()),
            found => found.map_err(|fault| format!("{self} {fault}")),
        }
    }

    /// Reads the private key of the file.
    ///
    /// # Errors
    /// An unreadable file, a file open to other users, or a file without an unencrypted key.
    pub(crate) fn private_key(&self) -> Result<PrivateKeyDer<'static>, String> {
        let text = self.secret()?;
        pem::private_key(&text).map_err(|fault| match fault {
            PemFault::EncryptedKey => format!(
                "{self} is encrypted, and nobody is asked for a passphrase; write the key in the \
                 clear, with mode 0600, by: openssl pkey -in {}",
                self.path.display()
            ),
            fault => format!("{self} {fault}"),
        })
    }

    /// Reads a file that may be open to other users.
    ///
    /// # Errors
    /// An unreadable file.
    pub fn content(&self) -> Result<Zeroizing<Vec<u8>>, String> {
        self.read().map(|(content, _)| content)
    }

    /// Reads a file that holds a secret.
    ///
    /// # Errors
    /// An unreadable file, or a file open to other users.
    pub fn secret(&self) -> Result<Zeroizing<Vec<u8>>, String> {
        let (text, metadata) = self.read()?;
        let mode = metadata.permissions().mode() & 0o7777;
        if mode & OTHERS == 0 {
            return Ok(text);
        }
        let shown = self.path.display();
        Err(format!(
            "{self} is open to others (mode {mode:04o}) and may have been copied; run chmod 600 \
             {shown}, and replace the secret if already in use"
        ))
    }

    /// Reads the file together with the metadata of the opened file, so that the checked file is
    /// the file that was read. Every content is wiped when dropped, because some are secret.
    fn read(&self) -> Result<(Zeroizing<Vec<u8>>, Metadata), String> {
        self.read_opened().map_err(|error| {
            format!(
                "{self} cannot be read: {error}; give a file readable by the user of this process"
            )
        })
    }

    fn read_opened(&self) -> io::Result<(Zeroizing<Vec<u8>>, Metadata)> {
        // Opening a pipe would block.
        if !self.may_be_pipe && !std::fs::metadata(&self.path)?.is_file() {
            return Err(io::Error::other("this is not an ordinary file"));
        }
        let opened = File::open(&self.path)?;
        let metadata = opened.metadata()?;
        // With the whole size reserved, no growth of the buffer leaves a copy behind.
        let size = metadata.len().min(FILE_MAX) + 1;
        let mut text = Zeroizing::new(Vec::with_capacity(usize::try_from(size).unwrap_or(0)));
        opened.take(FILE_MAX + 1).read_to_end(&mut text)?;
        if text.len() as u64 > FILE_MAX {
            return Err(io::Error::other("the file has more than 1 MiB"));
        }
        Ok((text, metadata))
    }
}

impl fmt::Display for NamedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.setting, self.path.display())
    }
}

/// The identity of a file's content, without reading the file. A symbolic link is followed, because
/// the target may have been replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileStamp(Option<[i64; 6]>);

impl FileStamp {
    pub(crate) fn of(file: &NamedFile) -> Self {
        let metadata = std::fs::metadata(&file.path).ok();
        Self(metadata.map(|it| {
            let saturated = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
            [
                saturated(it.ino()),
                saturated(it.size()),
                it.mtime(),
                it.mtime_nsec(),
                it.ctime(),
                it.ctime_nsec(),
            ]
        }))
    }
}

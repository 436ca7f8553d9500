//! Bodies that are stored in a file of the data directory, because they may be larger than memory.
//!
//! This file prevents an upload that fills the disk of the store, several uploads that together
//! fill the disk, and a file that outlives its request: a single body is received at a time, the
//! free space is checked before and during the reception, and dropping the body removes the file.
//! A process that is killed leaves a file, which the next start removes.

use bulkhead_store::{DiskShortage, UNFINISHED_RESTORE};
use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::request::ReceivedFile;
use bulkhead_wire::size;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::fs::File;
use tokio::io::AsyncWriteExt;

/// Maximum size of a body that is stored in a file, in bytes.
const MAX_FILE_BODY: u64 = 1 << 40;

/// Number of received bytes between two looks at the free space.
const SPACE_CHECK_BYTES: u64 = 64 << 20;

/// Retry delay while another body is received, in milliseconds.
const RETRY_AFTER: u64 = 30_000;

/// The right to receive bodies into files of a data directory, a body at a time.
#[derive(Clone, Debug)]
pub struct FileReceptions(Arc<ReceptionPlace>);

impl PartialEq for FileReceptions {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for FileReceptions {}

#[derive(Debug)]
struct ReceptionPlace {
    directory: PathBuf,
    is_busy: AtomicBool,
}

impl FileReceptions {
    /// Returns the receptions of a data directory.
    #[must_use]
    pub fn new(directory: &Path) -> Self {
        let directory = directory.to_owned();
        Self(Arc::new(ReceptionPlace { directory, is_busy: AtomicBool::new(false) }))
    }

    /// Begins the reception of a body of `length` bytes, if the length is known.
    ///
    /// # Errors
    /// 413 for a length above the maximum; 503 while another body is received or in use, if the
    /// disk has too little space, or if the file cannot be created.
    pub fn begin(&self, length: Option<u64>) -> Result<FileReception, Failure> {
        check_length(length.unwrap_or_default())?;
        let stored = StoredBody::begin(&self.0)?;
        check_space(&self.0.directory, length.unwrap_or_default())?;
        let file = stored.create().map_err(|error| stored.unwritable(&error))?;
        Ok(FileReception { file: File::from_std(file), received: 0, stored })
    }
}

/// A body that is being received.
pub struct FileReception {
    file: File,
    received: u64,
    stored: StoredBody,
}

impl FileReception {
    /// Appends bytes to the file.
    ///
    /// # Errors
    /// 413 above the maximum; 503 if the disk has too little space or cannot be written.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let before = self.received / SPACE_CHECK_BYTES;
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.received = self.received.saturating_add(length);
        check_length(self.received)?;
        if self.received / SPACE_CHECK_BYTES != before {
            check_space(&self.stored.place.directory, 0)?;
        }
        let written = self.file.write_all(bytes).await;
        written.map_err(|error| self.stored.unwritable(&error))
    }

    /// Completes the file. Returns the file and its length in bytes.
    ///
    /// # Errors
    /// 503 if the disk cannot be written.
    pub async fn finish(mut self) -> Result<(ReceivedFile, u64), Failure> {
        self.file.flush().await.map_err(|error| self.stored.unwritable(&error))?;
        let path = self.stored.path.clone();
        Ok((ReceivedFile::new(path, Arc::new(self.stored)), self.received))
    }
}

/// The file of a body, and the turn of the body. Dropping removes the file and ends the turn.
struct StoredBody {
    path: PathBuf,
    place: Arc<ReceptionPlace>,
}

impl StoredBody {
    fn begin(place: &Arc<ReceptionPlace>) -> Result<Self, Failure> {
        if place.is_busy.swap(true, Ordering::AcqRel) {
            let busy = Failure::new(
                FailureKind::Unavailable,
                "this server receives or restores another snapshot at this moment; wait for its \
                 end, then send this request again",
            );
            return Err(Failure { retry_after: Some(RETRY_AFTER), ..busy });
        }
        let (begin, end) = UNFINISHED_RESTORE;
        let path = place.directory.join(format!("{begin}{}{end}", std::process::id()));
        Ok(Self { path, place: Arc::clone(place) })
    }

    fn create(&self) -> io::Result<fs::File> {
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&self.path)
    }

    fn unwritable(&self, error: &io::Error) -> Failure {
        let message = format!(
            "the body cannot be stored in the data directory: {error}; check owner and free space \
             of the data directory"
        );
        Failure::new(FailureKind::Unavailable, message).recordable()
    }
}

impl Drop for StoredBody {
    fn drop(&mut self) {
        // The file does not exist if its creation failed. A file that cannot be removed is removed
        // by the next start.
        fs::remove_file(&self.path).unwrap_or_default();
        self.place.is_busy.store(false, Ordering::Release);
    }
}

fn check_length(length: u64) -> Result<(), Failure> {
    if length <= MAX_FILE_BODY {
        return Ok(());
    }
    let message = format!("request body too large: the most is {}", size::show(MAX_FILE_BODY));
    Err(Failure::new(FailureKind::TooLarge, message).recordable())
}

/// Checks that the disk of `directory` has space for `more` bytes.
fn check_space(directory: &Path, more: u64) -> Result<(), Failure> {
    let Some(shortage) = DiskShortage::find(directory, more) else { return Ok(()) };
    let message = format!(
        "the disk of the data directory has {} MiB free, and this request needs {} MiB: the body, \
         and {} MiB that stay free for the store; free some space, then send this request again",
        shortage.free >> 20,
        shortage.needed >> 20,
        shortage.reserve >> 20,
    );
    Err(Failure::new(FailureKind::Unavailable, message).recordable())
}

#[cfg(test)]
mod tests;

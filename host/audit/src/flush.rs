//! Shared flushes of an audit file: a flush puts every line on the disk that was written before the
//! flush began.
//!
//! This file prevents a later flush from hiding a failed flush. The operating system reports a
//! failed flush once and then treats the lost lines as written; this file keeps the failure for
//! every request that waits for a lost line.

use std::fs::File;
use std::io;
use std::sync::Arc;
use tokio::sync::Mutex;

/// The progress of flushing, in line numbers counted from 1.
#[derive(Default)]
struct FlushProgress {
    /// Number of the last line that was flushed.
    until: u64,
    /// Number of the last line that a failed flush covered. The disk may or may not have the lines
    /// up to here.
    lost_until: u64,
}

/// The flushes of a device.
#[derive(Default)]
pub(super) struct DeviceFlushes(Arc<Mutex<FlushProgress>>);

impl DeviceFlushes {
    /// Returns once line `number` is on the disk.
    ///
    /// `written` returns the number of lines in `file` and in earlier files, which is at least
    /// `number`. Dropping the future does not stop the flush.
    ///
    /// # Errors
    /// The flush failed; every request that waits for a line of this flush gets the error.
    pub(super) async fn until(
        &self,
        number: u64,
        written: impl FnOnce() -> u64,
        file: Arc<File>,
    ) -> io::Result<()> {
        let mut flushed = Arc::clone(&self.0).lock_owned().await;
        if number <= flushed.lost_until {
            return Err(io::Error::other("a flush of the file failed"));
        }
        if number <= flushed.until {
            return Ok(());
        }
        let written = written();
        let flush = tokio::task::spawn_blocking(move || {
            let done = file.sync_data();
            match done {
                Ok(()) => flushed.until = written,
                Err(_) => flushed.lost_until = written,
            }
            done
        });
        flush.await.unwrap_or_else(|_| Err(io::Error::other("the flush ended early")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::OpenOptions;

    /// A file that takes lines and cannot be flushed.
    fn unflushable() -> Arc<File> {
        Arc::new(OpenOptions::new().write(true).open("/dev/null").unwrap())
    }

    fn flushable(name: &str) -> Arc<File> {
        let path =
            std::env::temp_dir().join(format!("bulkhead-flush-{name}-{}", std::process::id()));
        let file = File::create(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        Arc::new(file)
    }

    #[tokio::test]
    async fn one_flush_serves_all_lines_written_before() {
        let flushing = DeviceFlushes::default();
        flushing.until(1, || 5, flushable("shared")).await.unwrap();
        // A second flush would fail.
        flushing.until(5, || 5, unflushable()).await.unwrap();
        flushing.until(6, || 6, unflushable()).await.unwrap_err();
    }

    #[tokio::test]
    async fn failed_flush_loses_only_lines_written_before() {
        let flushing = DeviceFlushes::default();
        flushing.until(1, || 3, unflushable()).await.unwrap_err();
        flushing.until(4, || 4, flushable("lost")).await.unwrap();
        flushing.until(2, || 4, flushable("lost")).await.unwrap_err();
        flushing.until(5, || 5, flushable("lost")).await.unwrap();
    }
}

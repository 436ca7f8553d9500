//! Flushes of an audit file, shared: one puts every line on the disk that was written before it
//! began.
//!
//! The fault this file stops: a failed flush that the next one makes forgotten. The system reports
//! it once and then calls the lost lines written; here they stay lost for every request that waits
//! for them.

use std::fs::File;
use std::io;
use std::sync::Arc;
use tokio::sync::Mutex;

/// How far lines are on the disk, counted from 1.
#[derive(Default)]
struct Flushed {
    /// Up to here all went well.
    until: u64,
    /// Up to here it is not known what the disk has.
    lost_until: u64,
}

/// The flushes of one device.
#[derive(Default)]
pub(super) struct Flushing(Arc<Mutex<Flushed>>);

impl Flushing {
    /// Returns once the line `number` is on the disk. `written` is the number of lines that are in
    /// `file` or in those before it, and at least `number`. A request that stops waiting stops no
    /// flush.
    ///
    /// # Errors
    /// The flush's, also for those who did not ask for that one.
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
    async fn one_flush_serves_every_line_that_was_written_before_it() {
        let flushing = Flushing::default();
        flushing.until(1, || 5, flushable("shared")).await.unwrap();
        // A second flush would fail.
        flushing.until(5, || 5, unflushable()).await.unwrap();
        flushing.until(6, || 6, unflushable()).await.unwrap_err();
    }

    #[tokio::test]
    async fn what_a_failed_flush_lost_stays_lost_and_later_lines_are_flushed() {
        let flushing = Flushing::default();
        flushing.until(1, || 3, unflushable()).await.unwrap_err();
        flushing.until(4, || 4, flushable("lost")).await.unwrap();
        flushing.until(2, || 4, flushable("lost")).await.unwrap_err();
        flushing.until(5, || 5, flushable("lost")).await.unwrap();
    }
}

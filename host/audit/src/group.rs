//! Lines that are written together, and the outcome of each line.

use std::fs::File;
use std::io;
use std::sync::{Arc, OnceLock};

/// Maximum number of bytes that stay allocated for the next group.
const MAX_KEPT_BYTES: usize = 64 << 10;

/// Lines in order of arrival.
#[derive(Default)]
pub(super) struct LineGroup {
    bytes: Vec<u8>,
    /// The end of each line in `bytes`, including the line break.
    ends: Vec<usize>,
    outcome: Arc<OnceLock<WriteOutcome>>,
}

/// A line of a group, for the task that waits for the outcome.
pub(super) struct PendingLine {
    index: usize,
    outcome: Arc<OnceLock<WriteOutcome>>,
}

/// The outcome of a group of lines.
pub(super) struct WriteOutcome {
    /// Number of lines, counted from the first, that are completely in the file.
    pub(super) whole: usize,
    /// Number of lines in the file and in earlier files, including these lines.
    pub(super) written: u64,
    /// The file, if it could be opened.
    pub(super) file: Option<Arc<File>>,
    /// The reason why the other lines are missing.
    pub(super) cause: Option<io::Error>,
}

impl LineGroup {
    /// Returns an empty group that reuses the buffers of `used`.
    pub(super) fn reusing(used: Self) -> Self {
        let (mut bytes, mut ends) = (used.bytes, used.ends);
        bytes.clear();
        bytes.shrink_to(MAX_KEPT_BYTES);
        ends.clear();
        Self { bytes, ends, outcome: Arc::default() }
    }

    /// Adds `parts` and a line break.
    pub(super) fn add(&mut self, parts: &[&[u8]]) -> PendingLine {
        parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
        self.bytes.push(b'\n');
        self.ends.push(self.bytes.len());
        PendingLine { index: self.ends.len() - 1, outcome: Arc::clone(&self.outcome) }
    }

    /// Returns the rest of the group after `done` bytes.
    pub(super) fn unwritten_bytes(&self, done: usize) -> &[u8] {
        self.bytes.get(done..).unwrap_or_default()
    }

    /// Returns the number of lines that are complete within the first `done` bytes.
    pub(super) fn complete_lines(&self, done: usize) -> usize {
        self.ends.partition_point(|end| *end <= done)
    }

    /// Returns whether position `done` lies inside a line.
    pub(super) fn is_cut(&self, done: usize) -> bool {
        done > 0 && self.ends.binary_search(&done).is_err()
    }

    /// Sets the outcome for every task that waits.
    pub(super) fn settle(&self, outcome: WriteOutcome) {
        // Only the writer settles, and only once for each group.
        let _ = self.outcome.set(outcome);
    }
}

impl PendingLine {
    /// Returns the number of lines written so far and the file; `None` while the line is not
    /// written.
    ///
    /// # Errors
    /// The reason why the line is not completely in the file.
    pub(super) fn outcome(&self) -> Option<io::Result<(u64, &Arc<File>)>> {
        let WriteOutcome { whole: complete_lines, written, file, cause } = self.outcome.get()?;
        Some(match (file, cause) {
            (Some(file), _) if self.index < *complete_lines => Ok((*written, file)),
            (_, Some(cause)) => Err(io::Error::new(cause.kind(), cause.to_string())),
            (_, None) => Err(io::Error::other("the writer gave up")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncated_write_reports_completeness_of_each_line() {
        let mut lines = LineGroup::default();
        let [first, second, third] =
            [b"one".as_slice(), b"two", b"three"].map(|line| lines.add(&[line]));
        assert!(first.outcome().is_none());
        assert_eq!(
            (lines.complete_lines(7), lines.complete_lines(8), lines.complete_lines(0)),
            (1, 2, 0)
        );
        assert_eq!((lines.is_cut(0), lines.is_cut(7), lines.is_cut(8)), (false, true, false));
        assert_eq!(lines.unwritten_bytes(8), b"three\n");
        let file = Some(Arc::new(File::open("/dev/null").unwrap()));
        let cause = Some(io::Error::new(io::ErrorKind::StorageFull, "full"));
        lines.settle(WriteOutcome { whole: 2, written: 12, file, cause });
        assert_eq!(
            (first.outcome().unwrap().unwrap().0, second.outcome().unwrap().unwrap().0),
            (12, 12)
        );
        assert_eq!(third.outcome().unwrap().unwrap_err().kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn reused_line_group_is_empty_with_bounded_memory() {
        let mut lines = LineGroup::default();
        let line = lines.add(&[&vec![b'x'; 2 * MAX_KEPT_BYTES]]);
        lines.settle(WriteOutcome { whole: 1, written: 1, file: None, cause: None });
        let next = LineGroup::reusing(lines);
        assert!(next.unwritten_bytes(0).is_empty() && next.bytes.capacity() <= MAX_KEPT_BYTES);
        assert!(next.outcome.get().is_none() && line.outcome().is_some());
    }
}

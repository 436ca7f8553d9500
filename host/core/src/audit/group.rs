//! Lines that are written together, and what became of each.

use std::fs::File;
use std::io;
use std::sync::{Arc, OnceLock};

/// Bytes that are kept allocated for the next lines.
const KEPT: usize = 64 << 10;

/// Lines in the order in which they came.
#[derive(Default)]
pub(super) struct Group {
    bytes: Vec<u8>,
    /// Where each ends in `bytes`, its line break included.
    ends: Vec<usize>,
    outcome: Arc<OnceLock<Outcome>>,
}

/// One of the lines, for the task that waits for it.
pub(super) struct Line {
    index: usize,
    outcome: Arc<OnceLock<Outcome>>,
}

/// What became of lines that were written together.
pub(super) struct Outcome {
    /// So many of them, from the first, are in the file.
    pub(super) whole: usize,
    /// Lines that are in the file or in those before it, these included.
    pub(super) written: u64,
    /// The file, if it could be had.
    pub(super) file: Option<Arc<File>>,
    /// Why the others are not in it.
    pub(super) cause: Option<io::Error>,
}

impl Group {
    /// None yet, to stand where `used` stood.
    pub(super) fn reusing(used: Self) -> Self {
        let (mut bytes, mut ends) = (used.bytes, used.ends);
        bytes.clear();
        bytes.shrink_to(KEPT);
        ends.clear();
        Self { bytes, ends, outcome: Arc::default() }
    }

    /// Adds `parts` and a line break.
    pub(super) fn add(&mut self, parts: &[&[u8]]) -> Line {
        parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
        self.bytes.push(b'\n');
        self.ends.push(self.bytes.len());
        Line { index: self.ends.len() - 1, outcome: Arc::clone(&self.outcome) }
    }

    /// What is left when `done` bytes are written.
    pub(super) fn after(&self, done: usize) -> &[u8] {
        self.bytes.get(done..).unwrap_or_default()
    }

    /// How many lines stand whole in the first `done` bytes.
    pub(super) fn whole(&self, done: usize) -> usize {
        self.ends.partition_point(|end| *end <= done)
    }

    /// Whether a line is cut after `done` bytes.
    pub(super) fn is_cut(&self, done: usize) -> bool {
        done > 0 && self.ends.binary_search(&done).is_err()
    }

    /// Tells every task that waits.
    pub(super) fn settle(&self, outcome: Outcome) {
        // Only the writer settles, and no lines are written twice.
        let _ = self.outcome.set(outcome);
    }
}

impl Line {
    /// The number of lines and the file that it is in; `None` while it is not written.
    ///
    /// # Errors
    /// Why it is not written whole.
    pub(super) fn outcome(&self) -> Option<io::Result<(u64, &Arc<File>)>> {
        let Outcome { whole, written, file, cause } = self.outcome.get()?;
        Some(match (file, cause) {
            (Some(file), _) if self.index < *whole => Ok((*written, file)),
            (_, Some(cause)) => Err(io::Error::new(cause.kind(), cause.to_string())),
            (_, None) => Err(io::Error::other("whoever wrote it gave up")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_write_that_was_cut_each_line_knows_whether_it_is_whole() {
        let mut lines = Group::default();
        let [first, second, third] =
            [b"one".as_slice(), b"two", b"three"].map(|line| lines.add(&[line]));
        assert!(first.outcome().is_none());
        assert_eq!((lines.whole(7), lines.whole(8), lines.whole(0)), (1, 2, 0));
        assert_eq!((lines.is_cut(0), lines.is_cut(7), lines.is_cut(8)), (false, true, false));
        assert_eq!(lines.after(8), b"three\n");
        let file = Some(Arc::new(File::open("/dev/null").unwrap()));
        let cause = Some(io::Error::new(io::ErrorKind::StorageFull, "full"));
        lines.settle(Outcome { whole: 2, written: 12, file, cause });
        assert_eq!(
            (first.outcome().unwrap().unwrap().0, second.outcome().unwrap().unwrap().0),
            (12, 12)
        );
        assert_eq!(third.outcome().unwrap().unwrap_err().kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn what_is_reused_begins_anew_and_keeps_no_more_than_it_should() {
        let mut lines = Group::default();
        let line = lines.add(&[&vec![b'x'; 2 * KEPT]]);
        lines.settle(Outcome { whole: 1, written: 1, file: None, cause: None });
        let next = Group::reusing(lines);
        assert!(next.after(0).is_empty() && next.bytes.capacity() <= KEPT);
        assert!(next.outcome.get().is_none() && line.outcome().is_some());
    }
}

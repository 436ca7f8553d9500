//! Figures of a file that takes lines: lines, failures and the time of each line.

use crate::duration_histogram::{DurationHistogram, HistogramReading};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The figures of a file.
#[derive(Debug, Default)]
pub struct WriteFigures {
    written: AtomicU64,
    failed: AtomicU64,
    durations: DurationHistogram,
}

/// The figures of a file at a moment.
#[derive(Clone, Debug, PartialEq)]
pub struct WriteReading {
    /// Number of written lines.
    pub written: u64,
    /// Number of lines that are not in the file.
    pub failed: u64,
    /// Times of the attempts, successful or not.
    pub durations: HistogramReading,
}

impl WriteFigures {
    /// Counts an attempt to write a line, which took `time`.
    pub fn note(&self, is_written: bool, time: Duration) {
        let count = if is_written { &self.written } else { &self.failed };
        count.fetch_add(1, Ordering::Relaxed);
        self.durations.observe(time);
    }

    /// Counts a line that failed without an attempt.
    pub fn note_skipped(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the figures.
    #[must_use]
    pub fn read(&self) -> WriteReading {
        WriteReading {
            written: self.written.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            durations: self.durations.read(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_count_by_outcome_and_time() {
        let figures = WriteFigures::default();
        figures.note(true, Duration::from_millis(250));
        figures.note(false, Duration::from_millis(500));
        figures.note_skipped();
        let reading = figures.read();
        assert_eq!((reading.written, reading.failed), (1, 2));
        assert_eq!((reading.durations.count, reading.durations.sum), (2, 0.75));
    }
}

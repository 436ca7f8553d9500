//! The remembered size of the tables, so that a reading of the metrics needs no query.

use std::time::{Duration, Instant};

/// Minimum time between two measurements of the size.
const SIZE_AGE: Duration = Duration::from_secs(60);

/// The size of the tables with their indexes, as last measured.
#[derive(Default)]
pub(super) struct MeasuredSizes {
    pub(super) bytes: Option<u64>,
    begun: Option<Instant>,
}

impl MeasuredSizes {
    /// Notes the begin of a measurement. Returns `false` if the last measurement is young.
    pub(super) fn begin_measurement(&mut self) -> bool {
        if self.begun.is_some_and(|begun| begun.elapsed() < SIZE_AGE) {
            return false;
        }
        self.begun = Some(Instant::now());
        true
    }
}

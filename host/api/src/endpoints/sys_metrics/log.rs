//! Metrics of the server's log. These metrics are shown while sealed, too.

use super::family::MetricFamilies;
use super::registration::{MetricGroup, Registration, counter, gauge};
use bulkhead_wire::server_figures::LogFigures;

const LINES: Registration<1> = counter(
    "bulkhead_log_lines_total",
    ["level"],
    "lines of the log, by level",
    "does the server report errors",
);
const SUPPRESSED: Registration<0> = counter(
    "bulkhead_log_lines_suppressed_total",
    [],
    "lines left out of floods of one event",
    "does the log lack lines",
);
const DIVERTED: Registration<0> = gauge(
    "bulkhead_log_diverted",
    [],
    "1 while the file of the log fails and lines go to standard error",
    "can the file of the log be written",
);

/// The metrics of this file.
pub(super) const GROUP: MetricGroup =
    MetricGroup { mark: "metrics-log", metrics: &[&LINES, &SUPPRESSED, &DIVERTED] };

/// Adds the metrics of the log.
pub(super) fn add(figures: &LogFigures, families: &mut MetricFamilies) {
    let lines = figures.lines.read().into_iter();
    families.add(&LINES, lines.map(|(level, count)| LINES.series([level.word()], count)));
    families.add(&SUPPRESSED, [SUPPRESSED.series([], figures.suppressed())]);
    families.add(&DIVERTED, [DIVERTED.series([], u64::from(figures.is_diverted()))]);
}

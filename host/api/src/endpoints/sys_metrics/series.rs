//! A series of a metric, and the kinds of metrics.

use bulkhead_sandbox::MetricReading;
use bulkhead_wire::duration_histogram::HistogramReading;
use bulkhead_wire::metric::MetricKind;

/// The kind of a family.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FamilyKind {
    Plain(MetricKind),
    /// Numbers of durations up to bounds.
    Histogram,
}

impl FamilyKind {
    /// Returns the word of Prometheus' text format.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Plain(kind) => kind.word(),
            Self::Histogram => "histogram",
        }
    }
}

/// One series.
pub(super) struct MetricSample {
    pub(super) labels: Vec<(String, String)>,
    pub(super) value: SampleValue,
}

/// The value of a series.
pub(super) enum SampleValue {
    Reading(MetricReading),
    Histogram(HistogramReading),
}

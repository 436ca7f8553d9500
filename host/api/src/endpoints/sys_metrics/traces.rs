//! Metrics of the export of traces, which are shown while sealed, too.

use super::family::MetricFamilies;
use super::registration::{MetricGroup, Registration, counter};
use bulkhead_core::process::ProcessState;

const EXPORTED: Registration<0> = counter(
    "bulkhead_trace_spans_exported_total",
    [],
    "spans that the collector accepted",
    "do traces arrive",
);
const DROPPED: Registration<0> = counter(
    "bulkhead_trace_spans_dropped_total",
    [],
    "spans left out because the queue was full or the collector refused",
    "is the collector too slow or absent",
);

/// The metrics of this file.
pub(super) const GROUP: MetricGroup =
    MetricGroup { mark: "metrics-traces", metrics: &[&EXPORTED, &DROPPED] };

/// Adds the metrics of the export, if the configuration names a collector.
pub(super) fn add(process: &ProcessState, families: &mut MetricFamilies) {
    let figures = process.settings.traces.as_ref().map(|tracer| tracer.figures());
    let exported = figures.iter().map(|figures| EXPORTED.series([], figures.exported));
    families.add(&EXPORTED, exported);
    families.add(&DROPPED, figures.iter().map(|figures| DROPPED.series([], figures.dropped)));
}

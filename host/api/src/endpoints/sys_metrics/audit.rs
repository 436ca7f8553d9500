//! Metrics of audit devices: a device that fails or is slow stops or slows each request.

use super::family::MetricFamilies;
use super::registration::{MetricGroup, Registration, counter, histogram};
use bulkhead_core::Core;

const LINES: Registration<1> = counter(
    "bulkhead_audit_lines_total",
    ["device"],
    "lines that a device recorded",
    "which device records requests",
);
const FAILURES: Registration<1> = counter(
    "bulkhead_audit_failures_total",
    ["device"],
    "lines that a device did not record",
    "which device fails",
);
const DURATIONS: Registration<1> = histogram(
    "bulkhead_audit_write_duration_seconds",
    ["device"],
    "time until a line is recorded, with the flush if the device flushes",
    "does the audit slow requests",
);

/// The metrics of this file.
pub(super) const GROUP: MetricGroup =
    MetricGroup { mark: "metrics-audit", metrics: &[&LINES, &FAILURES, &DURATIONS] };

/// Adds the metrics of the devices in use.
pub(super) fn add(core: &Core, families: &mut MetricFamilies) {
    for device in core.audit.devices().iter() {
        let (name, reading) = ([device.settings.name.as_str()], device.figures.read());
        families.add(&LINES, [LINES.series(name, reading.written)]);
        families.add(&FAILURES, [FAILURES.series(name, reading.failed)]);
        families.add(&DURATIONS, [DURATIONS.series(name, reading.durations)]);
    }
}

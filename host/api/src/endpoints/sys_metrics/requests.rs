//! Metrics of requests: which mount is used, which mount is slow, and which mount refuses.
//!
//! The number of series grows with mounts in use, and never with callers or paths. A mount has its
//! counts and the sum of its times; the distribution of times is of all mounts together, so that
//! thousands of mounts can be scraped.

use super::family::MetricFamilies;
use super::registration::{MetricGroup, Registration, counter, gauge, histogram};
use bulkhead_core::Core;
use std::collections::BTreeSet;

/// Labels of requests outside of mounts: endpoints of the host, and requests without a destination.
const NO_MOUNTS: [&str; 2] = ["sys/", ""];

const COUNTS: Registration<3> = counter(
    "bulkhead_requests_total",
    ["mount", "operation", "outcome"],
    "requests, by mount, operation and outcome",
    "which mount is used, and which mount refuses or fails",
);
const SECONDS: Registration<1> = counter(
    "bulkhead_request_seconds_total",
    ["mount"],
    "time of the requests of a mount, without requests that wait for a change",
    "which mount is slow: the quotient with the count is the mean time, without `plain` requests",
);
const DURATIONS: Registration<1> = histogram(
    "bulkhead_request_duration_seconds",
    ["operation"],
    "time of a request, from its head to its answer, by operation",
    "how slow are the slowest requests",
);
const PARKED: Registration<0> = gauge(
    "bulkhead_core_parked_requests",
    [],
    "requests of plain HTTP waiting for a change, without an instance",
    "how many requests wait for a change",
);
const PARKED_RUNS: Registration<0> = counter(
    "bulkhead_core_parked_runs_total",
    [],
    "runs of components for requests waiting for a change",
    "how often do waiting requests run again",
);

/// The metrics of this file.
pub(super) const GROUP: MetricGroup = MetricGroup {
    mark: "metrics-requests",
    metrics: &[&COUNTS, &SECONDS, &DURATIONS, &PARKED, &PARKED_RUNS],
};

/// Adds the metrics of requests since the service was opened.
pub(super) fn add(core: &Core, families: &mut MetricFamilies) {
    let mounts = core.mounts.all();
    let paths: BTreeSet<&str> = mounts.iter().map(|mount| mount.record.path.as_str()).collect();
    let exists = |mount: &str| NO_MOUNTS.contains(&mount) || paths.contains(mount);
    for reading in core.traffic.read(exists) {
        let mount = reading.mount.as_str();
        let counts = reading.counts.into_iter().map(|(operation, outcome, count)| {
            COUNTS.series([mount, operation.word(), outcome.word()], count)
        });
        families.add(&COUNTS, counts);
        families.add(&SECONDS, [SECONDS.series([mount], reading.seconds)]);
    }
    let durations = core.traffic.read_durations().into_iter();
    let durations = durations
        .filter(|(_, reading)| reading.count > 0)
        .map(|(operation, reading)| DURATIONS.series([operation.word()], reading));
    families.add(&DURATIONS, durations);
    families.add(&PARKED, [PARKED.series([], core.parking.waiting() as u64)]);
    families.add(&PARKED_RUNS, [PARKED_RUNS.series([], core.parking.runs())]);
}

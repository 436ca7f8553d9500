//! Metrics of calls to targets: whether a slow mount's target is slow, and which target fails.

use super::family::MetricFamilies;
use super::registration::{MetricGroup, Registration, counter, histogram};
use bulkhead_core::Core;

const CALLS: Registration<3> = counter(
    "bulkhead_target_calls_total",
    ["mount", "interface", "outcome"],
    "calls of components to targets, by mount, interface and outcome",
    "which target refuses or does not answer",
);
const SECONDS: Registration<2> = counter(
    "bulkhead_target_call_seconds_total",
    ["mount", "interface"],
    "time of the calls of a mount to its targets, by interface",
    "how much of a request's time is the target's",
);
const DURATIONS: Registration<1> = histogram(
    "bulkhead_target_call_duration_seconds",
    ["interface"],
    "time of a call to a target, by interface",
    "how slow are the slowest calls",
);

/// The metrics of this file.
pub(super) const GROUP: MetricGroup =
    MetricGroup { mark: "metrics-targets", metrics: &[&CALLS, &SECONDS, &DURATIONS] };

/// Adds the metrics of calls to targets since the service was opened.
pub(super) fn add(core: &Core, families: &mut MetricFamilies) {
    for mount in core.mounts.all() {
        let path = mount.record.path.as_str();
        for (interface, calls) in core.sandbox.target_calls_of(&mount.record.uuid) {
            let of = [path, interface.word()];
            // Both series begin with the first call: `increase` misses the first event of a series.
            let counts = [("answered", calls.answered), ("failed", calls.failed)];
            let counts =
                counts.map(|(outcome, count)| CALLS.series([of[0], of[1], outcome], count));
            families.add(&CALLS, counts);
            families.add(&SECONDS, [SECONDS.series(of, calls.seconds())]);
        }
    }
    let durations = core.sandbox.target_durations().into_iter();
    let durations = durations
        .filter(|(_, reading)| reading.count > 0)
        .map(|(interface, reading)| DURATIONS.series([interface.word()], reading));
    families.add(&DURATIONS, durations);
}

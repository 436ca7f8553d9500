//! Metrics of scheduled snapshots.

use super::family::MetricFamilies;
use super::registration::{MetricGroup, Registration, counter, gauge};
use bulkhead_core::Core;
use bulkhead_core::snapshots::SnapshotSchedule;

const LAST_SUCCESS: Registration<1> = gauge(
    "bulkhead_snapshot_last_success_timestamp_seconds",
    ["name"],
    "time of the newest file of a scheduled snapshot, in seconds since 1970",
    "how old is the newest snapshot",
);
const DUE: Registration<1> = gauge(
    "bulkhead_snapshot_due_timestamp_seconds",
    ["name"],
    "time at which a scheduled snapshot is due after its newest file, in seconds since 1970",
    "which snapshot is late",
);
const FAILURES: Registration<1> = counter(
    "bulkhead_snapshot_failures_total",
    ["name"],
    "failed attempts of a scheduled snapshot",
    "which snapshot fails",
);

/// The metrics of this file.
pub(super) const GROUP: MetricGroup =
    MetricGroup { mark: "metrics-snapshots", metrics: &[&LAST_SUCCESS, &DUE, &FAILURES] };

/// Adds the metrics of the snapshots of the configuration.
pub(super) fn add(core: &Core, families: &mut MetricFamilies) {
    for (name, outcome) in core.snapshots.outcomes.read() {
        let name = [name.as_str()];
        let time = outcome.succeeded_at.map(|time| time / 1_000);
        families.add(&LAST_SUCCESS, time.map(|time| LAST_SUCCESS.series(name, time)));
        let schedule = schedule_of(core, name[0]);
        let due = outcome
            .succeeded_at
            .zip(schedule)
            .map(|(last, schedule)| DUE.series(name, schedule.due_after(Some(last)) / 1_000));
        families.add(&DUE, due);
        families.add(&FAILURES, [FAILURES.series(name, outcome.failures)]);
    }
}

/// Returns the schedule of the snapshot `name`.
fn schedule_of<'a>(core: &'a Core, name: &str) -> Option<&'a SnapshotSchedule> {
    let mut plans = core.process.settings.snapshots.iter();
    plans.find(|plan| plan.name.as_str() == name).map(|plan| &plan.schedule)
}

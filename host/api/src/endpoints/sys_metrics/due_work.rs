//! Metrics of due work: the backlog, its age, and the outcomes of runs.

use super::family::MetricFamilies;
use super::registration::{MetricGroup, Registration, counter, gauge};
use bulkhead_access::background::DueBacklog;
use bulkhead_core::Core;
use bulkhead_core::mounts::BuiltinMount;
use bulkhead_wire::duration_histogram::seconds;
use bulkhead_wire::failure::Failure;
use std::collections::BTreeMap;

const BACKLOG: Registration<1> = gauge(
    "bulkhead_due_work_backlog",
    ["mount"],
    "leases, reservations, timers, tokens and keys that are due and not done, by mount; of the \
     first 16,384 lanes of each kind",
    "which mount's due work does not keep up",
);
const OLDEST: Registration<0> = gauge(
    "bulkhead_due_work_oldest_seconds",
    [],
    "age of the oldest work that is due and not attempted, 0 without such work; a failed attempt \
     gives the work a new due time",
    "does due work keep up",
);
const RESTING: Registration<0> = gauge(
    "bulkhead_due_lanes_resting",
    [],
    "targets without an answer, whose due work rests between single attempts",
    "how many targets are down",
);
const RUNS: Registration<2> = counter(
    "bulkhead_due_work_runs_total",
    ["kind", "outcome"],
    "runs of due work, by kind and outcome",
    "which kind of due work fails",
);

/// The metrics of this file.
pub(super) const GROUP: MetricGroup =
    MetricGroup { mark: "metrics-due-work", metrics: &[&BACKLOG, &OLDEST, &RESTING, &RUNS] };

/// Adds the metrics of due work.
///
/// # Errors
/// The store's failure.
pub(super) async fn add(core: &Core, families: &mut MetricFamilies) -> Result<(), Failure> {
    let backlog = core.background.read_backlog().await?;
    let age = backlog.oldest.map_or(0, |due| core.store.now().saturating_sub(due));
    families.add(&OLDEST, [OLDEST.series([], seconds(age.saturating_mul(1_000)))]);
    let mounts = by_path(core, backlog);
    families.add(&BACKLOG, mounts.iter().map(|(path, count)| BACKLOG.series([path], *count)));
    let resting = u64::try_from(core.claims.count_resting_lanes()).unwrap_or(u64::MAX);
    families.add(&RESTING, [RESTING.series([], resting)]);
    let runs = core.background.runs.read().into_iter();
    families.add(&RUNS, runs.map(|(kind, outcome, n)| RUNS.series([kind, outcome.word()], n)));
    Ok(())
}

/// Returns the numbers that are not 0 by the path of the mount. Rows of a mount that is being
/// removed have no path, and are left out.
fn by_path(core: &Core, backlog: DueBacklog) -> BTreeMap<String, u64> {
    let path_of = |uuid: String| Some(core.mounts.record_of(&uuid)?.path.to_string());
    let builtin = |which| core.mounts.builtin(which).path.to_string();
    let DueBacklog { mounts, tokens, keys, .. } = backlog;
    let mounts = mounts.into_iter().filter_map(|(uuid, count)| Some((path_of(uuid)?, count)));
    let others = [(builtin(BuiltinMount::Token), tokens), (builtin(BuiltinMount::Identity), keys)];
    mounts.chain(others).filter(|(_, count)| *count > 0).collect()
}

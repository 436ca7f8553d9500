//! Metrics of callers over a limit: callers without a token, quotas, and locked names.

use super::family::MetricFamilies;
use super::registration::{MetricGroup, Registration, counter, gauge};
use bulkhead_core::Core;
use bulkhead_core::process::ProcessState;

const STRANGERS: Registration<0> = counter(
    "bulkhead_strangers_refused_total",
    [],
    "requests of callers without a valid token over their rate limit, since the start",
    "does a client guess tokens, or flood the server",
);
const RATE: Registration<1> = counter(
    "bulkhead_quota_rate_limit_violations_total",
    ["name"],
    "requests that a rate-limit quota refused",
    "which rate-limit quota is too small",
);
const LEASE_COUNT: Registration<1> = counter(
    "bulkhead_quota_lease_count_violations_total",
    ["name"],
    "requests that a lease-count quota refused",
    "which lease-count quota is too small",
);
const LOCKED: Registration<0> = gauge(
    "bulkhead_lockouts_locked_users",
    [],
    "names that failed logins have locked, of all auth methods",
    "does somebody guess passwords",
);

/// The metrics of this file.
pub(super) const GROUP: MetricGroup =
    MetricGroup { mark: "metrics-limits", metrics: &[&STRANGERS, &RATE, &LEASE_COUNT, &LOCKED] };

/// Adds the metrics of the open service.
pub(super) fn add(core: &Core, families: &mut MetricFamilies) {
    let rates = core.quotas.rates.violations().into_iter();
    families.add(&RATE, rates.map(|(name, count)| RATE.series([&name], count)));
    let leases = core.quotas.lease_violations().into_iter();
    families.add(&LEASE_COUNT, leases.map(|(name, count)| LEASE_COUNT.series([&name], count)));
    let locked = core.lockouts.count_locked(core.store.now());
    families.add(&LOCKED, [LOCKED.series([], locked as u64)]);
}

/// Adds the metrics of the process, which are shown while sealed, too.
pub(super) fn add_process(process: &ProcessState, families: &mut MetricFamilies) {
    let refusals = process.unauthenticated_limits.count_refusals();
    families.add(&STRANGERS, [STRANGERS.series([], refusals)]);
}

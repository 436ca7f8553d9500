//! Metrics of leases and lease quotas.

use super::family::MetricFamilies;
use super::registration::{MetricGroup, Registration, gauge};
use bulkhead_access::row_counts::RowCounts;
use bulkhead_core::Core;
use bulkhead_wire::failure::Failure;

const LEASES: Registration<0> = gauge(
    "bulkhead_expire_num_leases",
    [],
    "leases of secrets and of tokens that have not ended",
    "how many leases wait for their end",
);
const IRREVOCABLE: Registration<0> = gauge(
    "bulkhead_expire_num_irrevocable_leases",
    [],
    "leases left for an operator after failed revocations",
    "how many leases wait for an operator",
);
const QUOTA_COUNT: Registration<1> = gauge(
    "bulkhead_quota_lease_count_counter",
    ["name"],
    "present leases of a quota",
    "how full is a quota",
);
const QUOTA_MAX: Registration<1> = gauge(
    "bulkhead_quota_lease_count_max",
    ["name"],
    "maximum leases of a quota",
    "which quota is full soon",
);

/// The metrics of this file.
pub(super) const GROUP: MetricGroup = MetricGroup {
    mark: "metrics-leases",
    metrics: &[&LEASES, &IRREVOCABLE, &QUOTA_COUNT, &QUOTA_MAX],
};

/// Adds the metrics of leases and lease quotas.
///
/// # Errors
/// The store's failure.
pub(super) async fn add(
    core: &Core,
    rows: &RowCounts,
    families: &mut MetricFamilies,
) -> Result<(), Failure> {
    families.add(&LEASES, [LEASES.series([], rows.all_leases())]);
    let irrevocable: u64 = core.leases.count_irrevocable().await?.values().sum();
    families.add(&IRREVOCABLE, [IRREVOCABLE.series([], irrevocable)]);
    for quota in core.quotas.read_usage(&core.store).await? {
        let name = [quota.name.as_str()];
        families.add(&QUOTA_COUNT, [QUOTA_COUNT.series(name, quota.counter)]);
        families.add(&QUOTA_MAX, [QUOTA_MAX.series(name, quota.max_leases)]);
    }
    Ok(())
}

//! Metrics of the host itself: the state of the service, the mounts and the leases.
//!
//! The names are those of published servers' dashboards, behind the prefix of this server.

use super::family::{FamilyKind, MetricFamilies, MetricFamily, MetricSample, PREFIX, SampleValue};
use bulkhead_access::quotas::QuotaUsage;
use bulkhead_core::Core;
use bulkhead_core::mounts::{Mount, MountClass};
use bulkhead_sandbox::MetricReading;
use bulkhead_store::Space;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::metric::MetricKind;
use std::sync::Arc;

/// Maximum number of counted leases, so that a request takes a bounded time.
const MAX_COUNTED_LEASES: u32 = 1_000_000;

/// Returns all metrics of the host.
///
/// # Errors
/// The store's failure.
pub(super) async fn families(core: &Core) -> Result<MetricFamilies, Failure> {
    let leases = core.store.count(Space::Lease, "", MAX_COUNTED_LEASES).await?;
    let irrevocable: u64 = core.leases.count_irrevocable().await?.values().sum();
    let mut families = MetricFamilies::new();
    let mut add = |name: &str, about: &str, samples: Vec<MetricSample>| {
        let kind = FamilyKind::Plain(MetricKind::Gauge);
        let family = MetricFamily { kind, about: about.to_owned(), samples };
        families.insert(format!("{PREFIX}_{name}"), family);
    };
    add("core_unsealed", "1 while the service is open", vec![gauge(1, None)]);
    let about = "1 for each present condition of sys/health";
    add("health_degraded", about, conditions(core));
    add("core_mount_table_num_entries", "mounts, by their kind", mounts(core));
    add("expire_num_leases", "leases that have not ended", vec![gauge(leases.into(), None)]);
    add(
        "expire_num_irrevocable_leases",
        "leases left for an operator after failed revocations",
        vec![gauge(irrevocable, None)],
    );
    let waiting = core.parking.waiting() as u64;
    let about = "requests of plain HTTP waiting for a change, without an instance";
    add("core_parked_requests", about, vec![gauge(waiting, None)]);
    let about = "runs of components for requests waiting for a change";
    add("core_parked_runs", about, vec![gauge(core.parking.runs(), None)]);
    let quotas = core.quotas.read_usage(&core.store).await?;
    let each = |value: fn(&QuotaUsage) -> u64| {
        quotas.iter().map(|quota| gauge(value(quota), Some(("name", &quota.name)))).collect()
    };
    let (most, counter) = (each(|quota| quota.max_leases), each(|quota| quota.counter));
    add("quota_lease_count_max", "maximum leases of a quota", most);
    add("quota_lease_count_counter", "present leases of a quota", counter);
    let about = "1 for a mount after a rollback of the last swap, or after a failed rollback";
    add("mount_plugin_rollback", about, rollbacks(core));
    let (stored, may_store) = stored(core).await?;
    add("mount_stored_bytes", "bytes stored by a mount", stored);
    add("mount_stored_bytes_max", "maximum bytes stored by a mount", may_store);
    families.retain(|_, family| !family.samples.is_empty());
    families.extend(failed_wakes(core));
    Ok(families)
}

/// Returns a sample for each condition under which the service is degraded.
fn conditions(core: &Core) -> Vec<MetricSample> {
    let conditions = core.review_health();
    conditions.iter().map(|condition| gauge(1, Some(("code", condition.code())))).collect()
}

/// Returns the counter of failed runs of timers, for each mount with such a run. A component
/// stopped at a limit cannot report the failure.
fn failed_wakes(core: &Core) -> Option<(String, MetricFamily)> {
    let mounts = core.mounts.all();
    let of_mount = |mount: &Arc<Mount>| {
        let failed = Some(mount.failed_wakes()).filter(|failed| *failed > 0)?;
        let labels = vec![("mount".to_owned(), mount.record.path.as_str().to_owned())];
        Some(MetricSample { labels, value: SampleValue::Reading(MetricReading::Counted(failed)) })
    };
    let samples: Vec<MetricSample> = mounts.iter().filter_map(of_mount).collect();
    let about = "failed runs of a mount's timers, such as rotations and replication".to_owned();
    let kind = FamilyKind::Plain(MetricKind::Counter);
    let family = MetricFamily { kind, about, samples };
    (!family.samples.is_empty()).then(|| (format!("{PREFIX}_mount_failed_wakes_total"), family))
}

/// Returns the bytes that each mount stores, and the limit of each mount.
async fn stored(core: &Core) -> Result<(Vec<MetricSample>, Vec<MetricSample>), Failure> {
    let bytes = core.store.stored_bytes().await?;
    let mounts = core.mounts.all();
    let each = |value: &dyn Fn(&Mount) -> u64| {
        let sample =
            |mount: &Arc<Mount>| gauge(value(mount), Some(("mount", mount.record.path.as_str())));
        mounts.iter().map(sample).collect()
    };
    let stored = |mount: &Mount| bytes.get(&mount.record.uuid).copied().unwrap_or_default();
    Ok((each(&stored), each(&|mount| mount.compartment.limits().stored_bytes)))
}

/// Returns a sample for each mount with an automatic rollback since the last swap.
fn rollbacks(core: &Core) -> Vec<MetricSample> {
    let all = core.mounts.all();
    let of_mount = |mount: &Arc<Mount>| {
        let status = mount.record.rollback.as_ref()?.status();
        let labels = [("mount", mount.record.path.as_str()), ("status", status)];
        Some(labelled(1, &labels))
    };
    all.iter().filter_map(of_mount).collect()
}

fn mounts(core: &Core) -> Vec<MetricSample> {
    let all = core.mounts.all();
    let auth =
        all.iter().filter(|mount| MountClass::of(&mount.record.path) == MountClass::Auth).count();
    [("logical", all.len() - auth), ("auth", auth)]
        .map(|(word, count)| gauge(count as u64, Some(("type", word))))
        .into()
}

fn gauge(value: u64, label: Option<(&str, &str)>) -> MetricSample {
    labelled(value, label.as_slice())
}

#[expect(clippy::cast_precision_loss, reason = "no count comes near the bounds of a float")]
pub(super) fn labelled(value: u64, labels: &[(&str, &str)]) -> MetricSample {
    let owned = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
    let labels = labels.iter().map(owned).collect();
    MetricSample { labels, value: SampleValue::Reading(MetricReading::Standing(value as f64)) }
}

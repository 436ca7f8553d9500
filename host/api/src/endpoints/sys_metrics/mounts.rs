//! Metrics of mounts: their number, their bytes, and the state of their plugins.

use super::family::MetricFamilies;
use super::registration::{MetricGroup, Registration, counter, gauge};
use bulkhead_core::Core;
use bulkhead_core::mounts::{Mount, MountClass};
use bulkhead_wire::failure::Failure;
use std::sync::Arc;

const MOUNTS: Registration<1> = gauge(
    "bulkhead_core_mount_table_num_entries",
    ["type"],
    "mounts, by their kind",
    "how many mounts are there",
);
const STORED: Registration<1> = gauge(
    "bulkhead_mount_stored_bytes",
    ["mount"],
    "bytes stored by a mount",
    "which mount fills the disk",
);
const MAY_STORE: Registration<1> = gauge(
    "bulkhead_mount_stored_bytes_max",
    ["mount"],
    "maximum bytes stored by a mount",
    "which mount is full soon",
);
const ROLLBACKS: Registration<2> = gauge(
    "bulkhead_mount_plugin_rollback",
    ["mount", "status"],
    "1 for a mount after a rollback of the last swap, or after a failed rollback, until the next \
     swap, in the words of sys/mounts",
    "which mount returned to an earlier version",
);
const FAILED_WAKES: Registration<1> = counter(
    "bulkhead_mount_failed_wakes_total",
    ["mount"],
    "failed runs of a mount's timers, such as rotations and replication",
    "which mount's rotations fail",
);

const DEGRADED: Registration<2> = gauge(
    "bulkhead_mount_degraded",
    ["mount", "status"],
    "1 for a mount with a status other than serving, in the words of sys/mounts",
    "which mount is unavailable, rests, is on probation or was rolled back",
);

/// The metrics of this file.
pub(super) const GROUP: MetricGroup = MetricGroup {
    mark: "metrics-mounts",
    metrics: &[&MOUNTS, &STORED, &MAY_STORE, &ROLLBACKS, &FAILED_WAKES, &DEGRADED],
};

/// Adds the metrics of mounts.
///
/// # Errors
/// The store's failure.
pub(super) async fn add(core: &Core, families: &mut MetricFamilies) -> Result<(), Failure> {
    let mounts = core.mounts.all();
    add_numbers(&mounts, families);
    let bytes = core.store.stored_bytes().await?;
    for mount in &mounts {
        let path = [mount.record.path.as_str()];
        let stored = bytes.get(&mount.record.uuid).copied().unwrap_or_default();
        families.add(&STORED, [STORED.series(path, stored)]);
        let may_store = mount.compartment.limits().stored_bytes;
        families.add(&MAY_STORE, [MAY_STORE.series(path, may_store)]);
        if let Some(rollback) = &mount.record.rollback {
            families.add(&ROLLBACKS, [ROLLBACKS.series([path[0], rollback.condition().code()], 1)]);
        }
        // A component stopped at a limit cannot report the failure, so the host counts.
        if let failed @ 1.. = mount.failed_wakes() {
            families.add(&FAILED_WAKES, [FAILED_WAKES.series(path, failed)]);
        }
    }
    let degraded = core.mounts.conditions().into_iter();
    let degraded = degraded.map(|(path, found)| DEGRADED.series([path.as_str(), found.code()], 1));
    families.add(&DEGRADED, degraded);
    Ok(())
}

fn add_numbers(mounts: &[Arc<Mount>], families: &mut MetricFamilies) {
    let is_auth = |mount: &&Arc<Mount>| MountClass::of(&mount.record.path) == MountClass::Auth;
    let auth = mounts.iter().filter(is_auth).count();
    let numbers = [("logical", mounts.len() - auth), ("auth", auth)];
    families.add(&MOUNTS, numbers.map(|(kind, count)| MOUNTS.series([kind], count as u64)));
}

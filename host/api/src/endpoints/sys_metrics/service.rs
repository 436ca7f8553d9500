//! Metrics of the service: open or sealed, and the conditions of `sys/health`. These metrics are
//! shown while sealed, too.

use super::family::MetricFamilies;
use super::registration::{MetricGroup, Registration, gauge};
use bulkhead_core::{Core, ServiceSettings};

const UNSEALED: Registration<0> = gauge(
    "bulkhead_core_unsealed",
    [],
    "1 while the service is open, 0 while sealed",
    "is the service open",
);
const DEGRADED: Registration<1> = gauge(
    "bulkhead_health_degraded",
    ["code"],
    "1 for each present condition of sys/health",
    "which condition of `sys/health` holds",
);

const SEAL: Registration<1> = gauge(
    "bulkhead_seal_info",
    ["type"],
    "1, with the kind of the seal of the configuration",
    "which seal does the server have",
);

/// The metrics of this file.
pub(super) const GROUP: MetricGroup =
    MetricGroup { mark: "metrics-service", metrics: &[&UNSEALED, &DEGRADED, &SEAL] };

/// Adds the metrics of the service; `core` is absent while sealed.
pub(super) fn add(core: Option<&Core>, settings: &ServiceSettings, families: &mut MetricFamilies) {
    families.add(&UNSEALED, [UNSEALED.series([], u64::from(core.is_some()))]);
    let conditions = core.map(Core::review_health).unwrap_or_default();
    let conditions = conditions.iter().map(|condition| DEGRADED.series([condition.code()], 1));
    families.add(&DEGRADED, conditions);
    families.add(&SEAL, [SEAL.series([settings.seal.kind()], 1)]);
}

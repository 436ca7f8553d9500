//! `sys/health` and `sys/seal-status`: what load balancers and CLIs ask before anything else.
//!
//! In the shapes that clients parse (`spec/core.md` §7.4). This version serves only while unsealed.

use super::Body;
use crate::core::Core;
use serde_json::json;

pub(super) fn health(core: &Core) -> Body {
    Body::Bare(
        200,
        json!({
            "initialized": true,
            "sealed": false,
            "standby": false,
            "performance_standby": false,
            "replication_performance_mode": "disabled",
            "replication_dr_mode": "disabled",
            "server_time_utc": core.store.now() / 1000,
            "version": core.reported_version,
            // Clients switch features on it, as on the version (decision P5).
            "enterprise": core.reported_version.ends_with("+ent"),
            "echo_duration_ms": 0,
            "clock_skew_ms": 0,
            "bulkhead_version": env!("CARGO_PKG_VERSION"),
            "cluster_name": "bulkhead",
        }),
    )
}

pub(super) fn seal_status(core: &Core) -> Body {
    Body::Bare(
        200,
        json!({
            "type": "dev",
            "initialized": true,
            "sealed": false,
            "t": 1,
            "n": 1,
            "progress": 0,
            "nonce": "",
            "version": core.reported_version,
            "bulkhead_version": env!("CARGO_PKG_VERSION"),
            "migration": false,
            "recovery_seal": false,
            "storage_type": "sqlite",
            "cluster_name": "bulkhead",
        }),
    )
}

//! Mounts with an unavailable plugin. Such a mount answers every request with that fact, keeps its
//! path, rows and leases, and serves again when the plugin is registered again or when the operator
//! chooses another version. An unavailable mount can be disabled.
//!
//! This file prevents a single plugin that does not load from blocking the opening of the whole
//! service.

use super::record::MountRecord;
use bulkhead_wire::failure::{Failure, FailureKind};
use std::time::Instant;

/// A mount without its plugin, and the reason.
#[derive(Clone)]
pub struct UnavailableMount {
    /// Stored record of the mount; served again once the plugin is available.
    pub record: MountRecord,
    /// Cause of the unavailability, quoted in the answer to every request.
    pub why: String,
    pub(super) since: Instant,
}

impl UnavailableMount {
    /// Returns the failure of requests to the mount.
    pub fn failure(&self) -> Failure {
        let MountRecord { path, kind, .. } = &self.record;
        let why = &self.why;
        let message = format!("plugin {kind} of mount {path} is not available: {why}");
        Failure { retry_after: Some(60_000), ..Failure::new(FailureKind::Unavailable, message) }
    }
}

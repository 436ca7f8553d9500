//! Mounts whose plugin is not available: they answer that, keep their path, rows and leases, and
//! serve again when the plugin is registered anew.
//!
//! The fault this file stops: one plugin that does not load, and a whole service that does not
//! open.

use super::record::MountRecord;
use bulkhead_wire::failure::{Failure, Kind};

/// A mount without its plugin, and why it has none.
#[derive(Clone)]
pub(super) struct UnavailableMount {
    pub(super) record: MountRecord,
    pub(super) why: String,
}

impl UnavailableMount {
    pub(super) fn failure(&self) -> Failure {
        let MountRecord { path, kind, .. } = &self.record;
        let why = &self.why;
        let message = format!("plugin {kind} of mount {path} is not available: {why}");
        Failure { retry_after: Some(60_000), ..Failure::new(Kind::Unavailable, message) }
    }
}

//! Permissions and deadline of a call.

use crate::call_tree::CallTree;
use crate::compartment::Compartment;
use crate::grants::Grants;
use crate::host_services::HostServices;
use bulkhead_trace::SpanContext;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Permissions and deadline of a call: the part of the [`CallScope`](crate::CallScope) that imports
/// see. Cheap to clone: each nested call gets a copy.
#[derive(Clone)]
pub(crate) struct CallContext {
    /// The mount of the call, with the mount's limits.
    pub(crate) compartment: Arc<Compartment>,
    /// Acts that the call may do beyond the mount's storage.
    pub(crate) grants: Arc<Grants>,
    /// Time at which the call is stopped.
    pub(crate) deadline: Instant,
    /// Instance slots that admission gave to the call.
    pub(crate) slots: u32,
    /// Core's services for this call.
    pub(crate) services: Arc<dyn HostServices>,
    /// State that nested calls share.
    pub(crate) tree: Arc<CallTree>,
    /// The span of the call; `None` outside of traces.
    pub(crate) trace: Option<SpanContext>,
}

impl CallContext {
    /// Returns whether the call computed for longer than its mount's limit.
    pub(crate) fn computes_too_long(&self) -> bool {
        let computed = || (*self.tree).as_ref().computed();
        self.compartment.limits().computing.is_some_and(|limit| computed() > limit)
    }

    /// Returns the time left until the deadline.
    pub(crate) fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
}

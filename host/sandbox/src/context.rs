//! What one call may use, and until when.

use crate::call_tree::CallTree;
use crate::compartment::Compartment;
use crate::grants::Grants;
use crate::host_services::HostServices;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// What one call may use, and until when: the part of its [`Scope`](crate::Scope) that its imports
/// see. Cheap to clone: a nested call gets one of its own.
#[derive(Clone)]
pub(crate) struct CallContext {
    /// The mount that it is for, with its limits.
    pub(crate) compartment: Arc<Compartment>,
    /// What it may do beyond its own storage.
    pub(crate) grants: Arc<Grants>,
    /// When it is stopped.
    pub(crate) deadline: Instant,
    /// Instance slots that it was admitted with.
    pub(crate) slots: u32,
    /// Core, as this call sees it.
    pub(crate) services: Arc<dyn HostServices>,
    /// Shared with nested calls.
    pub(crate) tree: Arc<CallTree>,
}

impl CallContext {
    /// Time left until the deadline.
    pub(crate) fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
}

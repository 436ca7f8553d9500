//! The mount of a request that changes settings.

use bulkhead_access::lifetimes::Lifetimes;
use bulkhead_core::mounts::{BuiltinMount, MountClass, RunningPlugin};

/// The mount of a tune request, with the limits of the change.
#[derive(Clone, Copy)]
pub(super) struct TuneTarget<'a> {
    pub(super) class: MountClass,
    /// `None` for an engine or auth method.
    pub(super) builtin: Option<BuiltinMount>,
    /// Its type.
    pub(super) kind: &'a str,
    pub(super) running: RunningPlugin<'a>,
    pub(super) system: Lifetimes,
}

//! The mount whose settings a request changes.

use crate::mounts::{Builtin, Class, Running};
use bulkhead_access::lifetimes::Lifetimes;

/// A mount whose settings are changed, with what limits the change.
#[derive(Clone, Copy)]
pub(super) struct Subject<'a> {
    pub(super) class: Class,
    /// `None` for an engine or auth method.
    pub(super) builtin: Option<Builtin>,
    /// Its type.
    pub(super) kind: &'a str,
    pub(super) running: Running<'a>,
    pub(super) system: Lifetimes,
}

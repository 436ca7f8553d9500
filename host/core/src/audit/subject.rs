//! A request and its context, as known when a line is written.

use crate::mounts::{MountRecord, RunningPlugin};
use crate::paging;
use bulkhead_access::tokens::Caller;
use bulkhead_wire::description::{Field, Operation, Route};
use bulkhead_wire::request::Request;
use bulkhead_wire::route::RouteTable;
use std::sync::Arc;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// A request and its context, as known when a line is written.
pub(crate) struct AuditSubject<'a> {
    pub(crate) request: &'a Request,
    pub(crate) operation: Operation,
    /// `None` if the token is missing or unknown.
    pub(crate) caller: Option<&'a Caller>,
    /// Policies of the caller's entity and its groups, in order; empty until looked up.
    pub(crate) identity_policies: &'a [String],
    /// `None` if no route matches the request.
    pub(crate) route: Option<RouteDescription<'a>>,
    /// The policy decision; `None` if policy was not asked.
    pub(crate) verdict: Option<&'a PolicyDecision>,
    /// True if the request was refused before any plugin or endpoint was called.
    pub(crate) is_refused: bool,
    /// True if the endpoint answers without a token.
    pub(crate) is_public: bool,
    /// Store time of the line, in milliseconds.
    pub(crate) now: u64,
}

impl AuditSubject<'_> {
    /// Returns whether the operator trusts the sender with the disk of the audit. Requests of other
    /// senders get only a few KiB; the line counts the rest.
    pub(super) fn is_trusted(&self) -> bool {
        self.caller.is_some() && !self.is_refused && !self.is_public
    }

    /// Returns whether the endpoint reads a field of that name; `true` for an unknown endpoint.
    pub(super) fn reads(&self, name: &str) -> bool {
        let Some(route) = self.route.as_ref().and_then(|described| described.route) else {
            return true;
        };
        let is_field =
            |field: &Field| field.name == name || field.aliases.iter().any(|alias| alias == name);
        route.open_fields
            || (route.list.is_some() && paging::FIELDS.contains(&name))
            || route.fields.iter().any(is_field)
    }
}

/// The policy decision on a request.
pub(crate) enum PolicyDecision {
    /// Allowed, by the policies with these names.
    Allowed(Arc<[Arc<str>]>),
    Denied,
}

/// The route table's description of a request.
pub(crate) struct RouteDescription<'a> {
    pub(crate) table: &'a RouteTable,
    /// The matching row.
    pub(crate) route: Option<&'a Route>,
    /// Name and text of each capture of the path.
    pub(crate) captures: &'a [(String, String)],
    /// The mount that serves the request, or the built-in part of the server.
    pub(crate) mount: &'a MountRecord,
    pub(crate) running: RunningPlugin<'a>,
}

/// Formats milliseconds since 1970 as RFC 3339 in UTC.
pub(super) fn time(milliseconds: u64) -> String {
    let moment = OffsetDateTime::from_unix_timestamp_nanos(i128::from(milliseconds) * 1_000_000);
    moment.ok().and_then(|moment| moment.format(&Rfc3339).ok()).unwrap_or_default()
}

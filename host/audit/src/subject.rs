//! A request and its context, as known when a line is written.

use super::redaction::MemberNames;
use bulkhead_access::paging;
use bulkhead_access::tokens::Caller;
use bulkhead_wire::description::{Field, Operation, Route};
use bulkhead_wire::name::MountPath;
use bulkhead_wire::request::Request;
use bulkhead_wire::route::RouteTable;
use std::sync::Arc;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// A request and its context, as known when a line is written.
pub struct AuditSubject<'a> {
    /// The request with values in clear; the line writer hashes or omits secret values.
    pub request: &'a Request,
    /// Segments of the path that lines show as hashes, besides those that the route marks.
    pub hidden_segments: &'a [String],
    /// Action for the policy decision; derived from the verb alone if refused earlier.
    pub operation: Operation,
    /// `None` if the token is missing or unknown.
    pub caller: Option<&'a Caller>,
    /// The caller as a component that authenticates its callers itself names the caller; known
    /// when the answer is recorded.
    pub component_caller: Option<&'a ComponentCaller>,
    /// Policies of the caller's entity and its groups, in order; empty until looked up.
    pub identity_policies: &'a [String],
    /// `None` if no route matches the request.
    pub route: Option<RouteDescription<'a>>,
    /// The policy decision; `None` if policy was not asked.
    pub verdict: Option<&'a PolicyDecision>,
    /// True if the request was refused before any plugin or endpoint was called.
    pub is_refused: bool,
    /// True if the endpoint answers without a token.
    pub is_public: bool,
    /// Store time of the line, in milliseconds.
    pub now: u64,
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

impl<'a> AuditSubject<'a> {
    /// Returns the names in the data of the request that a line may show.
    pub(super) fn request_names(&self) -> MemberNames<'a> {
        let described = self.route.as_ref();
        match described.and_then(|described| Some((described, described.route?))) {
            Some((described, route)) => {
                MemberNames::Declared { fields: &route.fields, is_open: !described.keeps_any_name }
            }
            None => MemberNames::Hidden,
        }
    }

    /// Returns the names in the data of the answer that a line may show.
    pub(super) fn answer_names(&self) -> MemberNames<'a> {
        let keeps_any_name = self.route.as_ref().is_some_and(|described| described.keeps_any_name);
        if keeps_any_name && self.operation != Operation::List {
            MemberNames::Hidden
        } else {
            MemberNames::Shown
        }
    }
}

/// A caller that a component authenticated, in the words of the component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComponentCaller {
    /// Public identifier, such as the accessor of a token.
    pub accessor: String,
    /// Name of the caller for readers of the audit; empty if the component gave none.
    pub display_name: String,
}

/// The policy decision on a request.
pub enum PolicyDecision {
    /// Allowed, by the policies with these names.
    Allowed(Arc<[Arc<str>]>),
    /// Refused with `permission denied`; recorded only for a caller with a valid token.
    Denied,
}

/// The route table's description of a request.
pub struct RouteDescription<'a> {
    /// All rows of the mount or of the host; the table knows the names of secret fields.
    pub table: &'a RouteTable,
    /// The matching row.
    pub route: Option<&'a Route>,
    /// Name and text of each capture of the path.
    pub captures: &'a [(String, String)],
    /// The mount that serves the request.
    pub mount: AuditedMount<'a>,
    /// True if the data are fields of any name, which the caller chose.
    pub keeps_any_name: bool,
}

/// The mount that serves a request, or the built-in part of the server.
#[derive(Clone, Copy, Debug)]
pub struct AuditedMount<'a> {
    /// Path of the mount.
    pub path: &'a MountPath,
    /// The type given when the mount was enabled.
    pub kind: &'a str,
    /// Accessor of the mount.
    pub accessor: &'a str,
    /// Version of the serving plugin.
    pub version: &'a str,
    /// SHA-256 of the serving plugin in hexadecimal digits; empty for the host's own code.
    pub digest: &'a str,
    /// The members of requests that lines show.
    pub shown_of_requests: &'a [String],
    /// The members of answers that lines show.
    pub shown_of_responses: &'a [String],
}

/// Formats milliseconds since 1970 as RFC 3339 in UTC.
pub(super) fn time(milliseconds: u64) -> String {
    let moment = OffsetDateTime::from_unix_timestamp_nanos(i128::from(milliseconds) * 1_000_000);
    moment.ok().and_then(|moment| moment.format(&Rfc3339).ok()).unwrap_or_default()
}

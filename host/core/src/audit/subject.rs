//! What is known of a request when it is written down.

use crate::mounts::{MountRecord, Running};
use crate::paging;
use crate::tokens::Caller;
use bulkhead_wire::description::{Field, Operation, Route};
use bulkhead_wire::request::Request;
use bulkhead_wire::route::Table;
use std::sync::Arc;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// What is known of a request when it is written down.
pub(crate) struct Subject<'a> {
    pub(crate) request: &'a Request,
    pub(crate) operation: Operation,
    /// `None` where the token is missing or none of ours.
    pub(crate) caller: Option<&'a Caller>,
    /// Those of the caller's entity and its groups, in order; none until they were looked up.
    pub(crate) identity_policies: &'a [String],
    /// `None` where no row answers to it.
    pub(crate) route: Option<Described<'a>>,
    /// What policy says; `None` where policy was not asked.
    pub(crate) verdict: Option<&'a Verdict>,
    /// It was refused before anything was entered.
    pub(crate) is_refused: bool,
    /// It asks for what is answered without a token.
    pub(crate) is_public: bool,
    /// Store time of the line, in milliseconds.
    pub(crate) now: u64,
}

impl Subject<'_> {
    /// Whether its sender is one whom the operator trusts with the disk of the audit: what others
    /// send takes a few KiB of it, and the rest is told by its number.
    pub(super) fn is_trusted(&self) -> bool {
        self.caller.is_some() && !self.is_refused && !self.is_public
    }

    /// Whether the endpoint reads a field of that name. Where there is none, nothing is known.
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

/// What policy says of a request.
pub(crate) enum Verdict {
    /// Allowed, by the policies of these names.
    Allowed(Arc<[Arc<str>]>),
    Denied,
}

/// What a route table says of a request.
pub(crate) struct Described<'a> {
    pub(crate) table: &'a Table,
    /// The row that answers.
    pub(crate) route: Option<&'a Route>,
    /// Name and text of each capture of the path.
    pub(crate) captures: &'a [(String, String)],
    /// The mount that serves, or the part of the server.
    pub(crate) mount: &'a MountRecord,
    pub(crate) running: Running<'a>,
}

/// RFC 3339 in UTC, of milliseconds since 1970.
pub(super) fn time(milliseconds: u64) -> String {
    let moment = OffsetDateTime::from_unix_timestamp_nanos(i128::from(milliseconds) * 1_000_000);
    moment.ok().and_then(|moment| moment.format(&Rfc3339).ok()).unwrap_or_default()
}

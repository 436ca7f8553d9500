//! A request that policy allowed: the common input of all ways of serving.

use super::destination::Destination;
use bulkhead_access::identity::EntityContext;
use bulkhead_access::paging;
use bulkhead_access::request_metrics::RequestOutcome;
use bulkhead_access::tokens::Caller;
use bulkhead_core::Core;
use bulkhead_core::mounts::Mount;
use bulkhead_core::permit::Permit;
use bulkhead_store::{Address, Unit};
use bulkhead_wire::description::Route;
use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::fields::FoldedFields;
use bulkhead_wire::request::Request;
use bulkhead_wire::response::Response;
use std::sync::Arc;
use tokio::time::Instant;

/// A permitted request, with everything needed for serving.
pub(super) struct PermittedRequest<'a> {
    pub(super) core: &'a Arc<Core>,
    pub(super) request: &'a Request,
    pub(super) destination: &'a Destination<'a>,
    pub(super) route: &'a Route,
    /// `None` for a login, which needs no caller.
    pub(super) caller: Option<&'a Caller>,
    /// The identity of the caller's token.
    pub(super) entity_context: EntityContext,
    pub(super) permit: Permit,
    pub(super) folded: FoldedFields,
    /// The object that a write creates or updates; `None` if the route does not tell the two apart.
    pub(super) object: Option<&'a Address>,
    pub(super) creates: bool,
    /// True for the first attempt, false for a retry after a conflict.
    pub(super) is_first: bool,
    /// Start of the first attempt: a deadline belongs to the request, not to an attempt.
    pub(super) began: Instant,
}

impl<'a> PermittedRequest<'a> {
    /// Returns the caller.
    ///
    /// # Errors
    /// 500 for a login, which has no known caller.
    pub(super) fn known_caller(&self) -> Result<&'a Caller, Failure> {
        self.caller
            .ok_or_else(|| Failure::internal("a login was served like a request with a token"))
    }

    /// Counts the request against the mount's rate limit: once, regardless of retries.
    pub(super) fn count(&self, mount: &Mount) -> Result<(), Failure> {
        if self.is_first { count_request(mount) } else { Ok(()) }
    }

    /// Lets a write queue before its component computes, if another request has its turn for the
    /// object. A write that computed first would lose its commit and compute again.
    ///
    /// # Errors
    /// A conflict, after which the request waits for its turn.
    pub(super) fn give_way(&self, unit: &Unit) -> Result<(), Failure> {
        match self.object {
            Some(address) => Ok(unit.give_way(address)?),
            None => Ok(()),
        }
    }

    /// Returns warnings about parameters that the endpoint did not read.
    pub(super) fn warn_of_unread(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        // The host itself pages the listings that have no handler.
        let is_read = |name: &str| self.route.list.is_some() && paging::FIELDS.contains(&name);
        let unread = self.folded.unknown.iter().map(String::as_str);
        let unread: Vec<&str> = unread.filter(|name| !is_read(name)).collect();
        if !unread.is_empty() {
            let names = unread.join(" ");
            warnings.push(format!("Endpoint ignored these unrecognized parameters: [{names}]"));
        }
        if !self.folded.overridden.is_empty() {
            let names = self.folded.overridden.join(" ");
            warnings.push(format!(
                "Endpoint replaced the value of these parameters with the values captured from \
                 its path: [{names}]"
            ));
        }
        warnings
    }
}

/// Refuses a request over the mount's rate limit.
pub(super) fn count_request(mount: &Mount) -> Result<(), Failure> {
    mount.compartment.count_request(Instant::now()).map_err(|wait| {
        let (path, rate) =
            (&mount.record.path, mount.compartment.limits().rate.unwrap_or_default());
        let message =
            format!("mount {path} is over the limit of {rate} requests a second; try again later");
        let retry_after = u64::try_from(wait.as_millis()).ok();
        Failure { retry_after, ..Failure::new(FailureKind::RateLimited, message) }
    })
}

/// Notes the caller of a request as a client of the month, unless the request was denied.
pub(super) fn note_client(core: &Core, caller: &Caller, response: &Response) {
    if RequestOutcome::of_status(response.status) != RequestOutcome::Denied {
        core.activity.note(&caller.record, core.store.now());
    }
}

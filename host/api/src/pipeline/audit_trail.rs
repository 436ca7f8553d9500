//! The audit trail of a request: a line before the request is entered, and a line before the answer
//! leaves.
//!
//! This file prevents an act without a trace. If devices exist and none recorded the request,
//! nothing is entered; if none recorded the answer, nothing of the answer leaves, and its lease or
//! token is ended. Sealing goes ahead regardless and is logged: a caller without a token must not
//! keep the service open by filling the audit disk.

use super::destination::{Destination, ServingCode};
use super::operation::operation;
use crate::endpoints::HostTable;
use bulkhead_access::identity::EntityContext;
use bulkhead_access::log::cause;
use bulkhead_access::tokens::{self, Caller, TokenEnding, TokenType};
use bulkhead_audit::line::SharedLineText;
use bulkhead_audit::subject::{self, ComponentCaller, PolicyDecision, RouteDescription};
use bulkhead_audit::{AuditDevices, RefusalReason};
use bulkhead_core::Core;
use bulkhead_core::mounts::{BuiltinMount, MountRecord};
use bulkhead_core::permit::Permit;
use bulkhead_wire::description::Operation;
use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::log_level::LogLevel;
use bulkhead_wire::request::Request;
use bulkhead_wire::response::{Response, ResponseBody};
use bulkhead_wire::secret::Secret;
use std::sync::Arc;

/// Maximum attempts to end a lease or token that no caller received, in case of conflicts.
const ATTEMPTS: u32 = 8;

/// The trail of one request.
pub(super) struct AuditTrail<'a> {
    core: &'a Arc<Core>,
    table: &'a HostTable,
    request: &'a Request,
    destination: Option<&'a Destination<'a>>,
    caller: Option<&'a Caller>,
    hidden_segments: &'a [String],
    /// The caller that a component named.
    component_caller: Option<ComponentCaller>,
    /// Policies of the caller's entity and its groups, once looked up.
    identity_policies: Vec<String>,
    /// The devices from when the request came, used to the end. Empty: nothing is recorded.
    devices: AuditDevices,
    /// An entry per device, once the request was to be recorded.
    entries: Vec<SharedLineText>,
    operation: Operation,
    /// `None` until policy was asked.
    verdict: Option<PolicyDecision>,
    /// The part of the server that serves, if no mount does.
    builtin: Arc<MountRecord>,
    step: TrailStep,
}

/// Progress of a trail.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TrailStep {
    Begun,
    /// The request is recorded.
    Entered,
    /// The request could not be recorded, and is served regardless.
    Unrecorded,
    /// The request could not be recorded.
    Lost,
}

/// A request with its caller and destination, as far as known.
pub(super) struct TrailSubject<'a> {
    pub(super) core: &'a Arc<Core>,
    pub(super) table: &'a HostTable,
    pub(super) request: &'a Request,
    pub(super) destination: Option<&'a Destination<'a>>,
    pub(super) caller: Option<&'a Caller>,
    /// Segments of the path shown as hashes in lines, besides the segments that the route marks.
    pub(super) hidden_segments: &'a [String],
}

impl<'a> AuditTrail<'a> {
    /// Begins the trail. Nothing is recorded yet.
    pub(super) fn begin(subject: TrailSubject<'a>) -> Self {
        let TrailSubject { core, table, request, destination, caller, hidden_segments } = subject;
        let operation = operation(request.verb, false);
        let (devices, entries) = (core.audit.devices(), Vec::new());
        let builtin = core
            .mounts
            .builtin(BuiltinMount::serving(&request.path).unwrap_or(BuiltinMount::System));
        let (verdict, step) = (None, TrailStep::Begun);
        Self {
            core,
            table,
            request,
            destination,
            caller,
            hidden_segments,
            component_caller: None,
            identity_policies: Vec::new(),
            devices,
            entries,
            operation,
            verdict,
            builtin,
            step,
        }
    }

    /// Returns the caller, if the request came with a valid token.
    pub(super) fn caller(&self) -> Option<&'a Caller> {
        self.caller
    }

    /// Records the policies of the caller's entity and groups.
    pub(super) fn record_entity_policies(&mut self, entity_context: &EntityContext) {
        if !self.devices.is_empty() {
            self.identity_policies = entity_context.policies();
        }
    }

    /// Notes the caller that a component authenticated.
    pub(super) fn name_caller(&mut self, caller: ComponentCaller) {
        self.component_caller = Some(caller);
    }

    /// Returns whether a component named the caller.
    pub(super) fn has_component_caller(&self) -> bool {
        self.component_caller.is_some()
    }

    /// Notes that policy allows the request.
    pub(super) fn permit(&mut self, permit: &Permit) {
        self.verdict = Some(PolicyDecision::Allowed(Arc::clone(permit.granting_policies())));
    }

    /// Records the request before anything is entered, once, regardless of retries.
    ///
    /// # Errors
    /// 500 if no device recorded the request.
    pub(super) async fn enter(&mut self, operation: Operation) -> Result<(), Failure> {
        if self.step == TrailStep::Begun {
            self.operation = operation;
            self.record(None).await;
        }
        if self.step == TrailStep::Lost
            && self.destination.is_some_and(Destination::goes_unrecorded)
        {
            self.log_unrecorded();
            self.step = TrailStep::Unrecorded;
        }
        if self.step == TrailStep::Lost {
            return Err(unrecorded_failure(UNRECORDED_REQUEST));
        }
        Ok(())
    }

    /// Logs an act that no device recorded.
    fn log_unrecorded(&self) {
        let name = self.caller.map(|caller| caller.record.display_name.clone());
        let pairs = [
            ("path", self.request.path.clone()),
            ("token", name.unwrap_or_default()),
            ("remote", self.request.remote.to_string()),
        ];
        self.core.log.line(LogLevel::Warn, "request-not-audited", &pairs);
    }

    /// Records the answer. A request refused before being entered is recorded first. Returns the
    /// answer that may leave.
    pub(super) async fn leave(mut self, served: Result<Response, Failure>) -> Response {
        if self.devices.is_empty() {
            return served.unwrap_or_else(|failure| Response::failed(&failure));
        }
        let (response, refusal) = match served {
            Ok(response) => (response, None),
            Err(failure) => {
                if failure.kind == FailureKind::PermissionDenied {
                    self.verdict = self.caller.map(|_| PolicyDecision::Denied);
                }
                (Response::failed(&failure), Some(RefusalReason::of(&failure)))
            }
        };
        if self.step == TrailStep::Unrecorded {
            return response;
        }
        if self.step == TrailStep::Begun {
            self.record(Some(&refusal.clone().unwrap_or_default())).await;
        }
        let mut recorded = false;
        if self.step == TrailStep::Entered {
            let subject = self.line_subject(false);
            for (device, entry) in self.devices.iter().zip(&self.entries) {
                recorded |= entry.response(device, &subject, &response, refusal.as_ref()).await;
            }
        }
        if recorded {
            return response;
        }
        let was_entered = self.step == TrailStep::Entered;
        Box::pin(self.end_what_was_made(&response.body)).await;
        let outcome = if was_entered { UNRECORDED_ANSWER } else { UNRECORDED_REQUEST };
        Response::failed(&unrecorded_failure(outcome))
    }

    /// Records the request on every device, with the reason of a refusal.
    async fn record(&mut self, refusal: Option<&RefusalReason>) {
        if self.devices.is_empty() {
            self.step = TrailStep::Entered;
            return;
        }
        let subject = self.line_subject(refusal.is_some());
        let (mut recorded, none) = (false, RefusalReason::default());
        let mut entries = Vec::with_capacity(self.devices.len());
        for device in self.devices.iter() {
            let entry = SharedLineText::of(device, &subject);
            recorded |= entry.request(device, &subject, refusal.unwrap_or(&none)).await;
            entries.push(entry);
        }
        self.entries = entries;
        self.step = if recorded { TrailStep::Entered } else { TrailStep::Lost };
    }

    /// Returns the request as audit lines word it.
    fn line_subject(&self, is_refused: bool) -> subject::AuditSubject<'_> {
        let route = self.destination.map(|destination| {
            let (captures, route) = (destination.captures.as_slice(), destination.route());
            match &destination.place {
                ServingCode::Host(_) => RouteDescription {
                    table: self.table.rows(),
                    route,
                    captures,
                    mount: BuiltinMount::running().audited_at(&self.builtin),
                    keeps_any_name: route.is_some_and(|route| route.open_fields)
                        || BuiltinMount::serving(&self.request.path)
                            == Some(BuiltinMount::Cubbyhole),
                },
                ServingCode::Mount(_, mount) | ServingCode::Raw(mount) => RouteDescription {
                    table: &mount.table,
                    route,
                    captures,
                    mount: mount.running().audited_at(&mount.record),
                    keeps_any_name: mount.table.routes().iter().any(|route| route.verbatim),
                },
            }
        });
        subject::AuditSubject {
            request: self.request,
            hidden_segments: self.hidden_segments,
            operation: self.operation,
            caller: self.caller,
            component_caller: self.component_caller.as_ref(),
            identity_policies: &self.identity_policies,
            route,
            verdict: self.verdict.as_ref(),
            is_refused,
            is_public: self
                .destination
                .is_some_and(|to| to.public().is_some() || to.is_open_row() || to.is_raw()),
            now: self.core.store.now(),
        }
    }

    /// Ends the lease or token of an answer that does not leave. Due work does the ending; the
    /// answer does not wait.
    pub(super) async fn end_what_was_made(&self, body: &ResponseBody) {
        let body = match body {
            ResponseBody::Wrapped { envelope, hidden } => {
                let info = envelope.wrap_info.as_ref();
                if let Some(token) = info.and_then(|info| info["token"].as_str()) {
                    self.end(IssuedCredential::Token(&Secret::new(token))).await;
                }
                &**hidden
            }
            body => body,
        };
        let (ResponseBody::Envelope(envelope) | ResponseBody::Copied(envelope)) = body else {
            return;
        };
        let is_of_a_mount =
            matches!(self.destination.map(|to| &to.place), Some(ServingCode::Mount(..)));
        // The host renews leases, but makes none.
        if is_of_a_mount && !envelope.lease_id.is_empty() {
            self.end(IssuedCredential::Lease(&envelope.lease_id)).await;
        }
        if let Some(auth) = &envelope.auth {
            self.end(IssuedCredential::Token(&auth.client_token)).await;
        }
    }

    async fn end(&self, credential: IssuedCredential<'_>) {
        let mut attempts = 1;
        loop {
            let ended = match credential {
                IssuedCredential::Lease(id) => self.core.leases.end_unanswered(id).await,
                IssuedCredential::Token(token) => self.end_token(token).await,
            };
            match ended {
                Ok(()) => return,
                Err(failure) if failure.kind == FailureKind::Conflict && attempts < ATTEMPTS => {
                    attempts += 1
                }
                // The lease or token ends when its time is over.
                Err(failure) => {
                    return self.core.log.line(
                        LogLevel::Error,
                        "unanswered-secret-not-revoked",
                        &[cause(&failure)],
                    );
                }
            }
        }
    }

    /// Returns whether `path` names something that this request made. A token role may add a
    /// suffix.
    fn is_own_creation(&self, path: &str) -> bool {
        let rest = path.strip_prefix(&self.request.path);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Ends a token that this very request made. A renewed token was in a caller's hands before.
    async fn end_token(&self, token: &Secret) -> Result<(), Failure> {
        let store = &self.core.store;
        let mut unit = store.begin();
        if let Some(issued_token) = tokens::find(store, &mut unit, token).await?
            && issued_token.kind == TokenType::Service
            && self.is_own_creation(&issued_token.record.path)
        {
            tokens::begin_end(
                &mut unit,
                &issued_token.hash,
                &issued_token.record,
                TokenEnding::WithChildren,
            )?;
            unit.commit().await?;
        }
        Ok(())
    }
}

/// A lease or token that an answer hands out.
#[derive(Clone, Copy)]
enum IssuedCredential<'a> {
    /// A lease, by its id.
    Lease(&'a str),
    Token(&'a Secret),
}

/// The outcome of a request that no device recorded.
const UNRECORDED_REQUEST: &str = "the request was not executed";
/// The outcome of a request with an answer that no device recorded.
const UNRECORDED_ANSWER: &str = "the answer is withheld: changes by the request stay, and a lease \
    or token of the answer is revoked";

/// Returns the failure, which names the part of the server, and nothing of the request. The first
/// words are those of published servers.
fn unrecorded_failure(outcome: &str) -> Failure {
    Failure::internal(format!(
        "internal error: no audit device can be written, and {outcome}; an operator finds the \
         cause in the log of the server"
    ))
    .recordable()
}

//! THE TABLE of the endpoints that the host itself serves.
//!
//! Each file of this folder is named after the path that it serves, and holds the rows of its
//! endpoints and what they do. This one joins the rows to the table and dispatches to the files.

mod auth_token;
mod auth_token_create;
mod auth_token_roles;
mod mount_grants;
mod mount_info;
mod mount_settings;
mod row;
mod sys_audit;
mod sys_auth;
mod sys_capabilities;
mod sys_health;
mod sys_init;
mod sys_internal_specs_openapi;
mod sys_internal_ui_mounts;
mod sys_leader;
mod sys_leases;
mod sys_mounts;
mod sys_plugins_catalog;
mod sys_policies;
mod sys_remount;
mod sys_rotate;
mod sys_seal_status;
mod sys_unseal;

use crate::audit::AuditChange;
use crate::catalog;
use crate::core::Core;
use crate::lifecycle;
use crate::mounts::{self, Builtin};
use crate::pipeline::{self, unsupported};
use crate::policies::ROOT;
use crate::policies::capability::Capability;
use crate::service::{Service, sealed};
use crate::tokens::{self, Caller};
use bulkhead_store::Unit;
use bulkhead_wire::description::{Route, Verb};
use bulkhead_wire::envelope::{Auth, Envelope};
use bulkhead_wire::failure::{Failure, Kind, quoted};
use bulkhead_wire::fields;
use bulkhead_wire::request::Request;
use bulkhead_wire::response::{Body as ResponseBody, Response};
use bulkhead_wire::route::{Match, Table};
use serde_json::{Map, Value};
use std::sync::Arc;

/// An endpoint of the host. Several rows may lead to one: old spellings, ids in path or body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handler {
    Open(OpenHandler),
    Public(PublicHandler),
    Seal,
    StepDown,
    Rotate(sys_rotate::Act),
    Audit(sys_audit::Act),
    Mounts(sys_mounts::Act),
    Remount(sys_remount::Act),
    Leases(sys_leases::Act),
    Policies(sys_policies::Act),
    PluginsCatalog(sys_plugins_catalog::Act),
    Capabilities(sys_capabilities::Act),
    Token(auth_token::Act),
    TokenCreate(auth_token_create::Act),
    TokenRoles(auth_token_roles::Act),
}

/// An endpoint that asks for no token and answers while sealed too, so that it knows the service
/// and not what is in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpenHandler {
    Health,
    Leader,
    SealStatus,
    InitStatus,
    Init,
    Unseal,
}

/// An endpoint that asks for no token and knows what is in the store, so that sealed nobody answers
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PublicHandler {
    UiMounts(sys_internal_ui_mounts::Act),
    OpenApi,
}

/// A row of the host's table, by its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint(usize);

/// The host's table with the handler of each row.
pub(crate) struct HostTable {
    table: Table,
    handlers: Vec<Handler>,
}

/// The request by the one path that its object has, where the caller wrote the object's name in
/// another way: policy and audit must see the object that is meant. `None` for nearly every
/// request.
pub(crate) fn canonical(request: &Request) -> Option<Request> {
    let path = sys_policies::canonical_path(&request.path)?;
    Some(Request { path, ..request.clone() })
}

/// The rows of every file of this folder.
fn rows() -> Vec<(Handler, Route)> {
    [
        sys_health::rows(),
        sys_leader::rows(),
        sys_seal_status::rows(),
        sys_init::rows(),
        sys_unseal::rows(),
        sys_rotate::rows(),
        sys_audit::rows(),
        sys_mounts::rows(),
        sys_auth::rows(),
        sys_remount::rows(),
        sys_internal_ui_mounts::rows(),
        sys_internal_specs_openapi::rows(),
        sys_leases::rows(),
        sys_policies::rows(),
        sys_plugins_catalog::rows(),
        sys_capabilities::rows(),
        auth_token::rows(),
        auth_token_create::rows(),
        auth_token_roles::rows(),
    ]
    .concat()
}

/// An endpoint and what the path carried.
pub(crate) type Found = (Endpoint, Vec<(String, String)>);

impl HostTable {
    /// Checks and builds the table.
    pub(crate) fn new() -> Result<Self, String> {
        let (handlers, routes): (Vec<Handler>, Vec<Route>) = rows().into_iter().unzip();
        Ok(Self { table: Table::new(routes)?, handlers })
    }

    /// The row for a request; `None` when the path is not the host's.
    ///
    /// # Errors
    /// 404 below `sys` and `auth/token`, which no mount can be; 405 for the wrong method.
    pub(crate) fn find(&self, verb: Verb, path: &str) -> Result<Option<Found>, Failure> {
        match self.table.find(verb, path) {
            Match::Row { index, captures, .. } => Ok(Some((Endpoint(index), captures))),
            Match::NoVerb => Err(unsupported(path)),
            Match::NoPath if Builtin::serving(path).is_some() => {
                Err(Failure::new(Kind::NotFound, format!("unsupported path {}", quoted(path))))
            }
            Match::NoPath => Ok(None),
        }
    }

    /// The endpoint, if it needs no token and no open store.
    pub(crate) fn open(&self, endpoint: Endpoint) -> Option<OpenEndpoint<'_>> {
        match (self.handlers.get(endpoint.0), self.route(endpoint)) {
            (Some(Handler::Open(handler)), Some(route)) => {
                Some(OpenEndpoint { handler: *handler, route })
            }
            _ => None,
        }
    }

    /// The endpoint, if it needs no token, but an open store.
    pub(crate) fn public<'a>(
        &'a self,
        endpoint: Endpoint,
        captures: &'a [(String, String)],
    ) -> Option<PublicEndpoint<'a>> {
        match (self.handlers.get(endpoint.0), self.route(endpoint)) {
            (Some(Handler::Public(handler)), Some(route)) => {
                Some(PublicEndpoint { handler: *handler, route, captures })
            }
            _ => None,
        }
    }

    /// All rows: what one marks secret is secret in the answers of others.
    pub(crate) fn table(&self) -> &Table {
        &self.table
    }

    pub(crate) fn route(&self, endpoint: Endpoint) -> Option<&Route> {
        self.table.routes().get(endpoint.0)
    }

    fn handler(&self, endpoint: Endpoint) -> Result<Handler, Failure> {
        self.handlers
            .get(endpoint.0)
            .copied()
            .ok_or_else(|| Failure::internal("an endpoint has no handler"))
    }
}

/// An [`OpenHandler`] with its row.
#[derive(Clone, Copy)]
pub(crate) struct OpenEndpoint<'a> {
    handler: OpenHandler,
    route: &'a Route,
}

/// A [`PublicHandler`] with its row and what the path carried.
#[derive(Clone, Copy)]
pub(crate) struct PublicEndpoint<'a> {
    handler: PublicHandler,
    route: &'a Route,
    captures: &'a [(String, String)],
}

/// A permitted request to the host.
pub(crate) struct HostCall<'a> {
    pub(crate) request: &'a Request,
    pub(crate) caller: &'a Caller,
    /// Canonical fields, captures included.
    pub(crate) values: &'a Map<String, Value>,
    /// What the caller's policies grant on the path; `root` for all.
    pub(crate) capabilities: &'a [String],
}

impl HostCall<'_> {
    /// May the caller do more on this path than its ordinary callers?
    fn has_sudo(&self) -> bool {
        self.capabilities.iter().any(|word| word == Capability::Sudo.word() || word == ROOT)
    }

    /// Did the caller send the field?
    fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    fn text(&self, name: &str) -> &str {
        text(self.values, name)
    }

    fn number(&self, name: &str) -> u64 {
        self.values.get(name).and_then(Value::as_u64).unwrap_or_default()
    }

    fn flag(&self, name: &str, default: bool) -> bool {
        self.values.get(name).and_then(Value::as_bool).unwrap_or(default)
    }

    fn list(&self, name: &str) -> Vec<String> {
        let items = self.values.get(name).and_then(Value::as_array).into_iter().flatten();
        items.filter_map(Value::as_str).map(str::to_owned).collect()
    }
}

/// What a host endpoint answers.
pub(crate) enum Body {
    /// 204.
    Nothing,
    /// 202: it goes on in the background.
    Begun,
    /// `data` of the envelope.
    Data(Map<String, Value>),
    /// `data`, and its members at the top level too.
    Copied(Map<String, Value>),
    /// `auth` of the envelope.
    Auth(Box<Auth>),
    /// A lease without data: a renewal.
    Lease { id: String, ttl: u64, renewable: bool },
}

/// What is to happen once the unit is committed.
pub(crate) enum Then {
    Nothing,
    PoliciesChanged,
    /// The token of that key is ending, and its descendants with it.
    TokenEnding(String),
    Seal,
    Mounts(mounts::Change),
    Audit(AuditChange),
    Catalog(catalog::Change),
}

/// A host endpoint's answer.
pub(crate) struct Reply {
    pub(crate) body: Body,
    pub(crate) warnings: Vec<String>,
    pub(crate) then: Then,
}

impl From<Body> for Reply {
    fn from(body: Body) -> Self {
        Self { body, warnings: Vec::new(), then: Then::Nothing }
    }
}

/// May the endpoint change something outside of the unit of work?
pub(crate) fn reaches_outside(core: &Core, endpoint: Endpoint) -> bool {
    match core.process.table.handler(endpoint) {
        Ok(Handler::Leases(act)) => act.reaches_outside(),
        Ok(Handler::Mounts(act)) => act.reaches_outside(),
        Ok(Handler::PluginsCatalog(act)) => act.reaches_outside(),
        Ok(Handler::Rotate(_)) => true,
        _ => false,
    }
}

/// Serves a permitted request.
pub(crate) async fn serve(
    core: &Arc<Core>,
    endpoint: Endpoint,
    unit: &mut Unit,
    call: &HostCall<'_>,
) -> Result<Reply, Failure> {
    match core.process.table.handler(endpoint)? {
        Handler::Open(_) => Err(Failure::internal("an open endpoint was asked behind the seal")),
        Handler::Public(_) => Err(Failure::internal("a public endpoint was asked for its permit")),
        Handler::Seal => Ok(sys_unseal::seal()),
        Handler::StepDown => Ok(sys_leader::step_down()),
        Handler::Rotate(act) => sys_rotate::serve(act, core).await,
        Handler::Audit(act) => sys_audit::serve(act, core, unit, call).await,
        Handler::Mounts(act) => sys_mounts::serve(act, core, unit, call).await,
        Handler::Remount(act) => sys_remount::serve(act, core, unit, call).await,
        Handler::Leases(act) => sys_leases::serve(act, core, unit, call).await,
        Handler::Policies(act) => sys_policies::serve(act, unit, call).await,
        Handler::PluginsCatalog(act) => sys_plugins_catalog::serve(act, core, unit, call).await,
        Handler::Capabilities(act) => sys_capabilities::serve(act, core, unit, call).await,
        Handler::Token(act) => auth_token::serve(act, core, unit, call).await,
        Handler::TokenCreate(act) => auth_token_create::serve(act, core, unit, call).await,
        Handler::TokenRoles(act) => auth_token_roles::serve(act, core, unit, call).await,
    }
}

/// Serves an endpoint that asks for no token.
pub(crate) async fn serve_open(
    service: &Arc<Service>,
    endpoint: OpenEndpoint<'_>,
    request: &Request,
) -> Result<Response, Failure> {
    let OpenEndpoint { handler, route } = endpoint;
    pipeline::check_body(route, request)?;
    let mut values = fields::fold(route, &request.fields, &[])?.values;
    fields::complete(route, &mut values, true)?;
    let answered = match handler {
        OpenHandler::Health => sys_health::health(service, &values).await,
        OpenHandler::Leader => sys_leader::leader(service),
        OpenHandler::SealStatus => sys_seal_status::read(service).await,
        OpenHandler::InitStatus => sys_init::status(service).await,
        OpenHandler::Init => sys_init::initialise(service, &values).await,
        OpenHandler::Unseal => sys_unseal::unseal(service, &values).await,
    };
    answered.map_err(|failure| for_strangers(service, failure))
}

/// Serves an endpoint that asks for no token, behind the seal.
pub(crate) async fn serve_public(
    core: &Core,
    endpoint: PublicEndpoint<'_>,
    request: &Request,
    caller: Option<&Caller>,
) -> Result<Response, Failure> {
    let PublicEndpoint { handler, route, captures } = endpoint;
    pipeline::check_body(route, request)?;
    let values = fields::fold(route, &request.fields, captures)?.values;
    let acl = match caller {
        Some(caller) => Some(core.policies.acl(&core.store, &caller.record.policies).await?),
        None => None,
    };
    let acl = acl.as_deref();
    let data = match handler {
        PublicHandler::UiMounts(act) => sys_internal_ui_mounts::serve(act, core, acl, &values)?,
        PublicHandler::OpenApi => {
            return Ok(Response::bare(
                200,
                sys_internal_specs_openapi::document(core, acl, &values),
            ));
        }
    };
    let (request_id, mount_type) = (request.id.clone(), "system".to_owned());
    let envelope = Envelope { request_id, mount_type, data: Some(data), ..Envelope::default() };
    Ok(Response {
        status: 200,
        body: ResponseBody::Envelope(Box::new(envelope)),
        retry_after: None,
    })
}

/// A failure of ours as somebody without a token may read it: paths, addresses and codes are for
/// the log.
fn for_strangers(service: &Service, failure: Failure) -> Failure {
    let is_ours =
        matches!(failure.kind, Kind::Internal | Kind::Unavailable) && service.core().is_none();
    if !is_ours || failure == sealed() {
        return failure;
    }
    service.process().settings.log.line("error", "seal-failed", &[("cause", failure.message)]);
    Failure::new(failure.kind, "the data cannot be used at present; the server's log says why")
}

/// A text field; empty when it was not sent.
fn text<'a>(values: &'a Map<String, Value>, name: &str) -> &'a str {
    values.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Lets the committed change take effect, before anybody is told of it.
pub(crate) async fn after_commit(core: &Arc<Core>, then: Then) -> Result<(), Failure> {
    match then {
        Then::Nothing => Ok(()),
        Then::PoliciesChanged => {
            core.policies.changed();
            Ok(())
        }
        Then::TokenEnding(key) => core.tokens.spread_end(&key).await,
        Then::Seal => {
            core.ask_to_seal();
            Ok(())
        }
        Then::Mounts(change) => lifecycle::apply_mount_change(core, change),
        Then::Audit(change) => {
            core.audit.change(change);
            Ok(())
        }
        Then::Catalog(change) => lifecycle::apply_catalog_change(core, change).await,
    }
}

/// RFC 3339 in UTC, of seconds since 1970.
pub(crate) fn timestamp(seconds: u64) -> Value {
    let moment = i64::try_from(seconds)
        .ok()
        .and_then(|seconds| time::OffsetDateTime::from_unix_timestamp(seconds).ok());
    let text = moment
        .and_then(|moment| moment.format(&time::format_description::well_known::Rfc3339).ok());
    text.map_or(Value::Null, Value::String)
}

//! THE TABLE of the endpoints that the host itself serves: one row each, one line in the dispatch.

mod rows;
mod sys_capabilities;
mod sys_health;
mod sys_init;
mod sys_leader;
mod sys_leases;
mod sys_mounts;
mod sys_policies;
mod sys_rotate;
mod sys_seal_status;
mod sys_unseal;
mod token;

use crate::core::Core;
use crate::mounts::MountRecord;
use crate::pipeline::{self, unsupported};
use crate::service::{Service, sealed};
use crate::tokens::Caller;
use bulkhead_store::Unit;
use bulkhead_wire::description::{Route, Verb};
use bulkhead_wire::envelope::Auth;
use bulkhead_wire::failure::{Failure, Kind, quoted};
use bulkhead_wire::fields;
use bulkhead_wire::request::Request;
use bulkhead_wire::response::Response;
use bulkhead_wire::route::{Match, Table};
use serde_json::{Map, Value};
use std::sync::Arc;

/// An endpoint of the host. Several rows may lead to one: old spellings, ids in path or body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handler {
    Open(OpenHandler),
    Seal,
    StepDown,
    Rotate,
    KeyStatus,
    MountList,
    MountRead,
    MountEnable,
    LeaseLookup,
    LeaseRenew,
    LeaseRevoke,
    PolicyList,
    PolicyRead,
    PolicyWrite,
    PolicyDelete,
    CapabilitiesSelf,
    TokenCreate,
    TokenLookup,
    TokenLookupSelf,
    TokenRenew,
    TokenRenewSelf,
    TokenRevoke,
    TokenRevokeSelf,
}

/// An endpoint that asks for no token and answers while sealed too, so that it knows the service and not what is in
/// the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpenHandler {
    Health,
    Leader,
    SealStatus,
    InitStatus,
    Init,
    Unseal,
}

/// A row of the host's table, by its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint(usize);

/// The host's table with the handler of each row.
pub(crate) struct HostTable {
    table: Table,
    handlers: Vec<Handler>,
}

type Found = Option<(Endpoint, Vec<(String, String)>)>;

impl HostTable {
    /// Checks and builds the table.
    pub(crate) fn new() -> Result<Self, String> {
        let (handlers, routes): (Vec<Handler>, Vec<Route>) = rows::all().into_iter().unzip();
        Ok(Self { table: Table::new(routes)?, handlers })
    }

    /// The row for a request; `None` when the path is not the host's.
    ///
    /// # Errors
    /// 404 below `sys` and `auth/token`, which no mount can be; 405 for the wrong method.
    pub(crate) fn find(&self, verb: Verb, path: &str) -> Result<Found, Failure> {
        match self.table.find(verb, path) {
            Match::Row { index, captures, .. } => Ok(Some((Endpoint(index), captures))),
            Match::NoVerb => Err(unsupported(path)),
            Match::NoPath if path == "sys" || path.starts_with("sys/") || path.starts_with("auth/token") => {
                Err(Failure::new(Kind::NotFound, format!("unsupported path {}", quoted(path))))
            }
            Match::NoPath => Ok(None),
        }
    }

    /// The endpoint for a request that needs no token and no open store.
    pub(crate) fn open(&self, verb: Verb, path: &str) -> Option<OpenEndpoint<'_>> {
        let Match::Row { index, .. } = self.table.find(verb, path) else { return None };
        match (self.handlers.get(index), self.table.routes().get(index)) {
            (Some(Handler::Open(handler)), Some(route)) => Some(OpenEndpoint { handler: *handler, route }),
            _ => None,
        }
    }

    pub(crate) fn route(&self, endpoint: Endpoint) -> Option<&Route> {
        self.table.routes().get(endpoint.0)
    }

    fn handler(&self, endpoint: Endpoint) -> Result<Handler, Failure> {
        self.handlers.get(endpoint.0).copied().ok_or_else(|| Failure::internal("an endpoint has no handler"))
    }
}

/// An [`OpenHandler`] with its row.
#[derive(Clone, Copy)]
pub(crate) struct OpenEndpoint<'a> {
    handler: OpenHandler,
    route: &'a Route,
}

/// A permitted request to the host.
pub(crate) struct HostCall<'a> {
    pub(crate) request: &'a Request,
    pub(crate) caller: &'a Caller,
    /// Canonical fields, captures included.
    pub(crate) values: &'a Map<String, Value>,
}

impl HostCall<'_> {
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
    Seal,
    Serve(Box<MountRecord>),
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
    let handler = core.process.table.handler(endpoint);
    matches!(handler, Ok(Handler::LeaseRenew | Handler::LeaseRevoke | Handler::Rotate))
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
        Handler::Seal => Ok(sys_unseal::seal()),
        Handler::StepDown => Ok(sys_leader::step_down()),
        Handler::Rotate => sys_rotate::rotate(core).await,
        Handler::KeyStatus => Ok(sys_rotate::key_status(core)),
        Handler::MountList => Ok(sys_mounts::list(core).into()),
        Handler::MountRead => sys_mounts::read(core, call),
        Handler::MountEnable => sys_mounts::enable(core, unit, call).await,
        Handler::LeaseLookup => sys_leases::lookup(core, unit, call).await,
        Handler::LeaseRenew => sys_leases::renew(core, call).await,
        Handler::LeaseRevoke => sys_leases::revoke(core, call).await,
        Handler::PolicyList => sys_policies::list(unit, call).await,
        Handler::PolicyRead => sys_policies::read(unit, call).await,
        Handler::PolicyWrite => sys_policies::write(unit, call),
        Handler::PolicyDelete => sys_policies::delete(unit, call),
        Handler::CapabilitiesSelf => sys_capabilities::of_self(core, call).await,
        Handler::TokenCreate => token::create(core, unit, call).await,
        Handler::TokenLookup => token::lookup(core, unit, call).await,
        Handler::TokenLookupSelf => Ok(token::lookup_self(core, call)),
        Handler::TokenRenew => token::renew(core, unit, call).await,
        Handler::TokenRenewSelf => token::renew_self(core, unit, call),
        Handler::TokenRevoke => token::revoke(core, unit, call).await,
        Handler::TokenRevokeSelf => token::revoke_self(unit, call),
    }
}

/// Serves an endpoint that asks for no token.
pub(crate) async fn serve_open(
    service: &Arc<Service>,
    endpoint: OpenEndpoint<'_>,
    request: &Request,
) -> Result<Response, Failure> {
    let OpenEndpoint { handler, route } = endpoint;
    pipeline::within_limit(route, request.body_bytes)?;
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

/// A failure of ours as somebody without a token may read it: paths, addresses and codes are for the log.
fn for_strangers(service: &Service, failure: Failure) -> Failure {
    let is_ours = matches!(failure.kind, Kind::Internal | Kind::Unavailable) && service.core().is_none();
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

/// Lets the committed change take effect in this process.
pub(crate) fn after_commit(core: &Core, then: Then) -> Result<(), Failure> {
    match then {
        Then::Nothing => Ok(()),
        Then::PoliciesChanged => {
            core.policies.changed();
            Ok(())
        }
        Then::Seal => {
            core.ask_to_seal();
            Ok(())
        }
        Then::Serve(record) => core.mounts.serve(*record, &core.catalog),
    }
}

/// RFC 3339 in UTC, of seconds since 1970.
pub(crate) fn timestamp(seconds: u64) -> Value {
    let moment =
        i64::try_from(seconds).ok().and_then(|seconds| time::OffsetDateTime::from_unix_timestamp(seconds).ok());
    let text = moment.and_then(|moment| moment.format(&time::format_description::well_known::Rfc3339).ok());
    text.map_or(Value::Null, Value::String)
}

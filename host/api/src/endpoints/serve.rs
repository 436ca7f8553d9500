//! Serves the endpoints that need no token. The pipeline serves permitted requests.

use super::body_check::check_body;
use super::call::{PublicCall, RequestFields, SealedCall};
use super::handler::{PublicHandler, SealedHandler};
use super::sys_metrics::{MetricsFormat, OpenScrapes};
use super::table::HostTable;
use bulkhead_access::log::cause;
use bulkhead_access::sealing::sealed_failure;
use bulkhead_access::tokens::Caller;
use bulkhead_core::Core;
use bulkhead_core::seal::ServiceSeal;
use bulkhead_wire::description::{Route, Verb};
use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::fields;
use bulkhead_wire::log_level::LogLevel;
use bulkhead_wire::request::Request;
use bulkhead_wire::response::Response;
use serde_json::{Map, Value};

/// Serves an endpoint that also answers while sealed.
pub(crate) async fn serve_while_sealed(
    seal: &ServiceSeal,
    route: &Route,
    handler: &SealedHandler,
    request: &Request,
) -> Result<Response, Failure> {
    refuse_wrapping(request)?;
    check_body(route, request)?;
    let values = read_fields(route, request, &[])?;
    let call = SealedCall { seal, remote: request.remote, fields: RequestFields::new(&values) };
    let answered = handler.handle(call).await;
    answered.map_err(|failure| mask_internal_failure(seal, failure))
}

/// Serves the metrics to a caller without a token, from the open service or from a sealed service
/// without `core`.
///
/// # Errors
/// The fault of the body or of a field; 429 if too many requests wait; the store's failure.
pub(crate) async fn serve_open_metrics(
    scrapes: &OpenScrapes,
    (seal, core): (&ServiceSeal, Option<&Core>),
    route: &Route,
    request: &Request,
) -> Result<Response, Failure> {
    check_body(route, request)?;
    let values = read_fields(route, request, &[])?;
    let format = MetricsFormat::of(RequestFields::new(&values), request.metrics)?;
    scrapes.answer(seal, core, format).await
}

/// An endpoint that needs no token but an open store, with the captures of the path.
#[derive(Clone, Copy)]
pub(crate) struct PublicEndpoint<'a> {
    pub(crate) route: &'a Route,
    pub(crate) handler: &'a PublicHandler,
    pub(crate) captures: &'a [(String, String)],
}

/// A request to an endpoint that needs no token, with the fields known to the endpoint.
#[derive(Clone, Copy)]
pub(crate) struct PublicRequest<'a> {
    pub(crate) endpoint: PublicEndpoint<'a>,
    pub(crate) request: &'a Request,
    pub(crate) fields: &'a Map<String, Value>,
}

/// Reads the fields that an endpoint without a token knows.
///
/// # Errors
/// The fault of the body or of a field, before the request is recorded as entered.
pub(crate) fn read_public_fields(
    endpoint: PublicEndpoint<'_>,
    request: &Request,
) -> Result<Map<String, Value>, Failure> {
    check_body(endpoint.route, request)?;
    read_fields(endpoint.route, request, endpoint.captures)
}

/// Reads the fields that the route knows, with their defaults.
fn read_fields(
    route: &Route,
    request: &Request,
    captures: &[(String, String)],
) -> Result<Map<String, Value>, Failure> {
    let mut values = fields::fold_names(route, &request.fields, captures)?.values;
    fields::apply_defaults(route, &mut values, true)?;
    Ok(values)
}

/// Refuses to wrap the answer to a write of a caller without a token: a wrapped answer is stored,
/// and such a caller must not fill the store. The answers to reads hold no secret, so that a client
/// may send the header with every request.
///
/// # Errors
/// 400.
pub(crate) fn refuse_wrapping(request: &Request) -> Result<(), Failure> {
    if request.wrap_ttl.is_none() || request.verb == Verb::Read {
        return Ok(());
    }
    Err(Failure::invalid("the answer of this path cannot be wrapped; leave X-Vault-Wrap-TTL out"))
}

/// Serves an endpoint that needs no token. A `caller` with a token sees the paths within reach of
/// the caller's policies.
pub(crate) async fn serve_without_a_token(
    core: &Core,
    table: &HostTable,
    public_request: PublicRequest<'_>,
    caller: Option<&Caller>,
) -> Result<Response, Failure> {
    let PublicRequest { endpoint, request, fields } = public_request;
    let acl = match caller {
        Some(caller) => Some(core.rights_of(&caller.record).await?.acl),
        None => None,
    };
    let (acl, fields) = (acl.as_deref(), RequestFields::new(fields));
    endpoint.handler.handle(PublicCall { core, rows: table.rows(), request, acl, fields }).await
}

/// Replaces an internal failure of a sealed service with a generic one and logs the cause: paths,
/// addresses and error codes are not for callers without a token. The failure about data of another
/// version stays: the failure has versions and at most the path of a mount, and only a caller whose
/// share completes a set of shares causes the failure.
fn mask_internal_failure(seal: &ServiceSeal, failure: Failure) -> Failure {
    use FailureKind::{Internal, OtherVersion, Unavailable};
    if !matches!(failure.kind, Internal | OtherVersion | Unavailable)
        || seal.core().is_some()
        || failure == sealed_failure()
    {
        return failure;
    }
    seal.settings().log.line(LogLevel::Error, "seal-failed", &[cause(&failure)]);
    if failure.kind == OtherVersion {
        return failure;
    }
    Failure::new(failure.kind, "the data cannot be used at present; the server's log says why")
}

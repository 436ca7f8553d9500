//! Checks a request against the caller's policies.
//!
//! This file prevents callers from learning which paths and objects exist: faults of a request are
//! told only to callers with permission for the request.

use super::destination::Destination;
use super::operation::operation;
use crate::endpoints;
use bulkhead_access::policies::acl::{AccessRequest, Acl};
use bulkhead_access::tokens::Caller;
use bulkhead_core::Core;
use bulkhead_core::permit::Permit;
use bulkhead_wire::description::{Operation, Route, Verb};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::fields::FoldedFields;
use bulkhead_wire::request::{Request, RequestHead};
use serde_json::{Map, Value};
use std::sync::Arc;

/// Maximum body length, in bytes, for comparing parameters in place. Longer bodies are compared on
/// a blocking thread, so that no other request waits.
const COMPARED_IN_PLACE_BYTES: u64 = 16 << 10;

/// Checks whether the policies allow the request as `operation`. Policies see the raw fields only
/// if the fields do not fold, which is not told to a caller without permission. If the route does
/// not take the body, the parameters are not checked: the request is refused for the body if the
/// caller may call. Without `acl`, the route must need no token.
///
/// # Errors
/// 403.
pub(super) async fn permit(
    acl: Option<&Arc<Acl>>,
    request: &Request,
    destination: &Destination<'_>,
    folded: Option<&FoldedFields>,
    operation: Operation,
) -> Result<Permit, Failure> {
    let route = destination.known_route()?;
    let Some(acl) = acl else { return Permit::without_token(route) };
    let none = Map::new();
    let act = AccessRequest {
        path: &request.path,
        operation,
        sudo: route.sudo,
        wrap_ttl: request.wrap_ttl,
        fields: &none,
        schema: &route.fields,
    };
    if !acl.speaks_of_parameters(&act) || endpoints::check_body(route, request).is_err() {
        return Permit::ask_apart_from_parameters(acl, &act);
    }
    let captures = if route.verbatim { &[][..] } else { &*destination.captures };
    let sent = sent_fields(captures, folded, &request.fields);
    if request.body_bytes <= COMPARED_IN_PLACE_BYTES {
        return Permit::ask(acl, &AccessRequest { fields: &sent, ..act });
    }
    let (acl, path, sudo) = (Arc::clone(acl), request.path.clone(), route.sudo);
    let wrap_ttl = request.wrap_ttl;
    let schema = route.fields.clone();
    let comparing = tokio::task::spawn_blocking(move || {
        let question = AccessRequest {
            path: &path,
            operation,
            sudo,
            wrap_ttl,
            fields: &sent,
            schema: &schema,
        };
        Permit::ask(&acl, &question)
    });
    comparing.await.map_err(|_| Failure::internal("holding a request against policies panicked"))?
}

/// Checks whether the caller's policies allow a request by its head, before the body is received.
/// The parameters are checked with the body.
pub(crate) async fn permits_head(
    core: &Core,
    caller: &Caller,
    head: &RequestHead<'_>,
    route: &Route,
) -> Result<bool, Failure> {
    let rights = core.rights_of(&caller.record).await?;
    let act = AccessRequest {
        path: head.path,
        operation: operation(head.verb, false),
        sudo: route.sudo,
        wrap_ttl: head.wrap_ttl,
        fields: &Map::new(),
        schema: &route.fields,
    };
    Ok(Permit::ask_apart_from_parameters(&rights.acl, &act).is_ok())
}

/// Returns the parameters sent by the caller, including unknown parameters but without the
/// captures: policies already see the captures in the path.
fn sent_fields(
    captures: &[(String, String)],
    folded: Option<&FoldedFields>,
    raw: &Map<String, Value>,
) -> Map<String, Value> {
    let captured = |name: &String| captures.iter().any(|(capture, _)| capture == name);
    let values = folded.map_or(raw, |folded| &folded.values);
    let unknown = folded
        .into_iter()
        .flat_map(|folded| &folded.unknown)
        .filter_map(|name| raw.get_key_value(name));
    let sent = values.iter().filter(|(name, _)| !captured(name)).chain(unknown);
    sent.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Tells only callers with permission for the request that the path does not exist.
pub(super) fn refuse_unknown(acl: &Acl, request: &Request, unknown: Failure) -> Failure {
    let ask = |operation| {
        let question = AccessRequest {
            path: &request.path,
            operation,
            sudo: false,
            wrap_ttl: request.wrap_ttl,
            fields: &request.fields,
            schema: &[],
        };
        // A long body is not worth comparing for a path that does not exist.
        if request.body_bytes > COMPARED_IN_PLACE_BYTES {
            return Permit::ask_apart_from_parameters(acl, &question);
        }
        Permit::ask(acl, &question)
    };
    let decision = ask(operation(request.verb, false));
    let decision = if request.verb == Verb::Write {
        decision.or_else(|_| ask(Operation::Create))
    } else {
        decision
    };
    decision.err().unwrap_or(unknown)
}

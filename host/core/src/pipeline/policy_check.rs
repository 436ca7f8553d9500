//! Holding a request against the caller's policies.
//!
//! The attack this file stops: learning by asking what exists. What is wrong with a request is told
//! only to callers whose policies allow it.

use super::destination::Destination;
use super::operation::operation;
use crate::permit::Permit;
use crate::policies::acl::{Acl, Question};
use bulkhead_wire::description::{Operation, Route, Verb};
use bulkhead_wire::failure::Failure;
use bulkhead_wire::fields::Folded;
use bulkhead_wire::request::Request;
use serde_json::{Map, Value};

/// Asks whether the policies allow the request as `operation`. They see the raw fields only where
/// those do not fold, which is not told to a caller who may not call.
///
/// # Errors
/// 403.
pub(super) fn permit(
    acl: &Acl,
    request: &Request,
    destination: &Destination<'_>,
    route: &Route,
    folded: Option<&Folded>,
    operation: Operation,
) -> Result<Permit, Failure> {
    let sent = sent_fields(destination, folded, &request.fields);
    let question = Question {
        path: &request.path,
        operation,
        sudo: route.sudo,
        fields: &sent,
        schema: &route.fields,
    };
    Permit::ask(acl, &question)
}

/// What the caller sent, also what no endpoint reads, without what the path carried: policies name
/// parameters, not paths, twice.
fn sent_fields(
    destination: &Destination<'_>,
    folded: Option<&Folded>,
    raw: &Map<String, Value>,
) -> Map<String, Value> {
    let captured = |name: &String| destination.captures.iter().any(|(capture, _)| capture == name);
    let values = folded.map_or(raw, |folded| &folded.values);
    let unknown = folded
        .into_iter()
        .flat_map(|folded| &folded.unknown)
        .filter_map(|name| raw.get_key_value(name));
    let sent = values.iter().filter(|(name, _)| !captured(name)).chain(unknown);
    sent.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// That there is nothing on the path is told only to callers whose policies would have allowed it.
pub(super) fn refuse_unknown(acl: &Acl, request: &Request, unknown: Failure) -> Failure {
    let ask = |operation| {
        let question = Question {
            path: &request.path,
            operation,
            sudo: false,
            fields: &request.fields,
            schema: &[],
        };
        Permit::ask(acl, &question)
    };
    let asked = ask(operation(request.verb, false));
    let asked =
        if request.verb == Verb::Write { asked.or_else(|_| ask(Operation::Create)) } else { asked };
    asked.err().unwrap_or(unknown)
}

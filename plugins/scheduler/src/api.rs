//! Routing of requests to endpoints, and the order in which unknown paths and methods are refused.

use crate::bootstrap;
use crate::policies;
use crate::refusal::{ForeignReply, Refusal};
use crate::region;
use crate::reply::{PLAIN_TEXT, Reply};
use crate::request::{ApiRequest, Method};
use crate::{roles, system, tokens};
use bulkhead_sdk::Failure;
use bulkhead_sdk::raw::Reply as Sent;

/// Serves one request.
///
/// # Errors
/// Failures of the host: conflicts, and a store that cannot be read.
pub(crate) fn serve(request: &ApiRequest<'_>) -> Result<Sent, Failure> {
    match route(request).and_then(|reply| with_age(request, reply)) {
        Ok(sent) => Ok(sent),
        Err(Refusal::Elsewhere(ForeignReply(sent))) => Ok(sent),
        Err(Refusal::Answered { status, text }) => Ok(refused(status, text)),
        Err(Refusal::Failed(failure)) => Err(failure),
    }
}

/// Converts the answer to the form that is sent, and adds its age to reads of a replica.
fn with_age(request: &ApiRequest<'_>, reply: Reply) -> Result<Sent, Refusal> {
    match request.method {
        Method::Read => region::tell_age(request, reply.sent()),
        _ => Ok(reply.sent()),
    }
}

/// Converts a refusal to the form that is sent: one line of text, without an envelope.
fn refused(status: u16, text: String) -> Sent {
    let content_type = ("Content-Type".to_owned(), PLAIN_TEXT.to_owned());
    let headers = if text.is_empty() { Vec::new() } else { vec![content_type] };
    Sent { status, headers, body: text.into_bytes(), park: None }
}

fn route(request: &ApiRequest<'_>) -> Result<Reply, Refusal> {
    let segments: Vec<&str> = request.segments.iter().map(String::as_str).collect();
    match (segments.as_slice(), request.method) {
        (["acl", "roles"], Method::Read) => roles::list(request),
        (["acl", "role"], Method::Write) => roles::write(request, None),
        (["acl", "role", rest @ ..], method) if !rest.is_empty() => role(request, rest, method),
        (["acl", "policies"], Method::Read) => policies::list(request),
        (["acl", "policy", rest @ ..], method) if !rest.is_empty() => {
            policy(request, &rest.join("/"), method)
        }
        (["acl", "tokens"], Method::Read) => tokens::list(request),
        (["acl", "token"], Method::Write) => tokens::write(request, None),
        (["acl", "token", rest @ ..], method) if !rest.is_empty() => {
            token(request, &rest.join("/"), method)
        }
        (["acl", "bootstrap"], Method::Write) => bootstrap::bootstrap(request),
        (["regions"], Method::Read) => system::regions(request),
        (["status", "leader"], Method::Read) => system::leader(request),
        (["status", "peers"], Method::Read) => system::peers(request),
        (["agent", "health"], Method::Read) => system::health(request),
        (["system", "gc"], Method::Write) => system::collect_garbage(request),
        (
            ["regions"] | ["status", "leader" | "peers"] | ["agent", "health"] | ["system", "gc"],
            _,
        ) => Err(Refusal::method()),
        (["acl", "roles" | "role" | "policies" | "tokens" | "token" | "bootstrap"], _) => {
            Err(Refusal::method())
        }
        _ => Err(Refusal::not_found("")),
    }
}

/// Routes `/v1/acl/role/…`.
fn role(request: &ApiRequest<'_>, rest: &[&str], method: Method) -> Result<Reply, Refusal> {
    match (rest, method) {
        ([""], _) => Err(Refusal::invalid("missing ACL role ID")),
        (["name", ""], Method::Read) => Err(Refusal::invalid("missing ACL role name")),
        (["name", name], Method::Read) => roles::read_by_name(request, name),
        ([id], Method::Read) => roles::read(request, id),
        ([id], Method::Write) => roles::write(request, Some(id)),
        ([id], Method::Delete) => roles::delete(request, id),
        ([_, _], Method::Read) | ([_, _, _, ..], _) => Err(Refusal::invalid("invalid URI")),
        _ => Err(Refusal::method()),
    }
}

/// Routes `/v1/acl/policy/…`.
fn policy(request: &ApiRequest<'_>, name: &str, method: Method) -> Result<Reply, Refusal> {
    match (name, method) {
        ("", _) => Err(Refusal::invalid("Missing Policy Name")),
        ("self", Method::Read) => policies::list_own(request),
        (name, Method::Read) => policies::read(request, name),
        (name, Method::Write) => policies::write(request, name),
        (name, Method::Delete) => policies::delete(request, name),
        (_, Method::Other) => Err(Refusal::method()),
    }
}

/// Routes `/v1/acl/token/…`.
fn token(request: &ApiRequest<'_>, accessor: &str, method: Method) -> Result<Reply, Refusal> {
    match (accessor, method) {
        ("", _) => Err(Refusal::invalid("Missing Token Accessor")),
        ("self", Method::Read) => tokens::read_own(request),
        (accessor, Method::Read) => tokens::read(request, accessor),
        (accessor, Method::Write) => tokens::write(request, Some(accessor)),
        (accessor, Method::Delete) => tokens::delete(request, accessor),
        (_, Method::Other) => Err(Refusal::method()),
    }
}

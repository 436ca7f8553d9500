//! Routing of requests to endpoints, and the order in which unknown paths and methods are refused.

use crate::bootstrap;
use crate::forward;
use crate::policies;
use crate::refusal::{ApiRefusal, ForeignReply};
use crate::region;
use crate::reply::{ApiReply, PLAIN_TEXT};
use crate::request::{ApiMethod, ApiRequest};
use crate::{roles, system, tokens};
use bulkhead_sdk::Failure;
use bulkhead_sdk::raw::RawReply as Sent;

/// Paths that the audit log shows. A token's accessor in a path is not shown, because callers give
/// their secret in its place by mistake; nor is a role's identifier, which has the same form.
pub(crate) const SHOWN_PATHS: &[&str] = &[
    "v1/acl/roles",
    "v1/acl/role",
    "v1/acl/role/name/:name",
    "v1/acl/policies",
    "v1/acl/policy/self",
    "v1/acl/policy/:name",
    "v1/acl/tokens",
    "v1/acl/token/self",
    "v1/acl/bootstrap",
    "v1/regions",
    "v1/status/leader",
    "v1/status/peers",
    "v1/agent/health",
    "v1/system/gc",
    "roles",
    "role",
    "role/name/:name",
    "policies",
    "policy/self",
    "policy/:name",
    "tokens",
    "token/self",
    "bootstrap",
];

/// Serves one request, and names the caller if the endpoint authenticated the caller.
///
/// # Errors
/// Failures of the host: conflicts, and a store that cannot be read.
pub(crate) fn serve(request: &ApiRequest<'_>) -> Result<Sent, Failure> {
    let sent = match route(request).and_then(|reply| with_age(request, reply)) {
        Ok(sent) | Err(ApiRefusal::Elsewhere(ForeignReply(sent))) => sent,
        Err(ApiRefusal::Answered { status, text }) => refused(status, text),
        Err(ApiRefusal::Failed(failure)) => return Err(failure),
    };
    Ok(Sent { caller: request.known_caller().map(Box::new), ..sent })
}

/// Converts the answer to the form that is sent, and adds its age to reads of a replica.
fn with_age(request: &ApiRequest<'_>, reply: ApiReply) -> Result<Sent, ApiRefusal> {
    match request.method {
        ApiMethod::Read => region::report_age(request, reply.sent()),
        _ => Ok(reply.sent()),
    }
}

/// Converts a refusal to the form that is sent: one line of text, without an envelope.
fn refused(status: u16, text: String) -> Sent {
    let content_type = ("Content-Type".to_owned(), PLAIN_TEXT.to_owned());
    let headers = if text.is_empty() { Vec::new() } else { vec![content_type] };
    Sent { status, headers, body: text.into_bytes(), ..Sent::default() }
}

/// Returns the noun of an ACL endpoint of the scheduler that is not served here; `None` for any
/// other path.
fn unserved(segments: &[&str]) -> Option<&'static str> {
    match segments {
        ["acl", "auth-methods" | "auth-method", ..] => Some("auth methods"),
        ["acl", "binding-rules" | "binding-rule", ..] => Some("binding rules"),
        ["acl", "login"] | ["acl", "oidc", ..] => Some("logins by auth methods"),
        ["acl", "token", "onetime"] | ["acl", "token", "onetime", "exchange"] => {
            Some("one-time tokens")
        }
        ["acl", "identity", ..] => Some("introduction tokens of clients"),
        _ => None,
    }
}

fn route(request: &ApiRequest<'_>) -> Result<ApiReply, ApiRefusal> {
    let segments: Vec<&str> = request.segments.iter().map(String::as_str).collect();
    if let Some(noun) = unserved(&segments) {
        return Err(ApiRefusal::not_found(format!(
            "{noun} are not served here; served are the ACL endpoints bootstrap, policies, roles \
             and tokens"
        )));
    }
    if request.method != ApiMethod::Read {
        forward::refuse_second_hop(request)?;
    }
    match (segments.as_slice(), request.method) {
        (["acl", "roles"], ApiMethod::Read) => roles::list(request),
        (["acl", "role"], ApiMethod::Write) => roles::write(request, None),
        (["acl", "role", rest @ ..], method) if !rest.is_empty() => role(request, rest, method),
        (["acl", "policies"], ApiMethod::Read) => policies::list(request),
        (["acl", "policy", rest @ ..], method) if !rest.is_empty() => {
            policy(request, &rest.join("/"), method)
        }
        (["acl", "tokens"], ApiMethod::Read) => tokens::list(request),
        (["acl", "token"], ApiMethod::Write) => tokens::write(request, None),
        (["acl", "token", rest @ ..], method) if !rest.is_empty() => {
            token(request, &rest.join("/"), method)
        }
        (["acl", "bootstrap"], ApiMethod::Write) => bootstrap::bootstrap(request),
        (["regions"], ApiMethod::Read) => system::regions(request),
        (["status", "leader"], ApiMethod::Read) => system::leader(request),
        (["status", "peers"], ApiMethod::Read) => system::peers(request),
        (["agent", "health"], ApiMethod::Read) => system::health(request),
        (["system", "gc"], ApiMethod::Write) => system::collect_garbage(request),
        (
            ["regions"] | ["status", "leader" | "peers"] | ["agent", "health"] | ["system", "gc"],
            _,
        ) => Err(ApiRefusal::method()),
        (["acl", "roles" | "role" | "policies" | "tokens" | "token" | "bootstrap"], _) => {
            Err(ApiRefusal::method())
        }
        _ => Err(ApiRefusal::not_found("")),
    }
}

/// Routes `/v1/acl/role/…`.
fn role(
    request: &ApiRequest<'_>,
    rest: &[&str],
    method: ApiMethod,
) -> Result<ApiReply, ApiRefusal> {
    match (rest, method) {
        ([""], _) => Err(ApiRefusal::invalid("missing ACL role ID")),
        (["name", ""], ApiMethod::Read) => Err(ApiRefusal::invalid("missing ACL role name")),
        (["name", name], ApiMethod::Read) => roles::read_by_name(request, name),
        ([id], ApiMethod::Read) => roles::read(request, id),
        ([id], ApiMethod::Write) => roles::write(request, Some(id)),
        ([id], ApiMethod::Delete) => roles::delete(request, id),
        ([_, _], ApiMethod::Read) | ([_, _, _, ..], _) => Err(ApiRefusal::invalid("invalid URI")),
        _ => Err(ApiRefusal::method()),
    }
}

/// Routes `/v1/acl/policy/…`.
fn policy(request: &ApiRequest<'_>, name: &str, method: ApiMethod) -> Result<ApiReply, ApiRefusal> {
    match (name, method) {
        ("", _) => Err(ApiRefusal::invalid("Missing Policy Name")),
        ("self", ApiMethod::Read) => policies::list_own(request),
        (name, ApiMethod::Read) => policies::read(request, name),
        (name, ApiMethod::Write) => policies::write(request, name),
        (name, ApiMethod::Delete) => policies::delete(request, name),
        (_, ApiMethod::Other) => Err(ApiRefusal::method()),
    }
}

/// Routes `/v1/acl/token/…`.
fn token(
    request: &ApiRequest<'_>,
    accessor: &str,
    method: ApiMethod,
) -> Result<ApiReply, ApiRefusal> {
    match (accessor, method) {
        ("", _) => Err(ApiRefusal::invalid("Missing Token Accessor")),
        ("self", ApiMethod::Read) => tokens::read_own(request),
        (accessor, ApiMethod::Read) => tokens::read(request, accessor),
        (accessor, ApiMethod::Write) => tokens::write(request, Some(accessor)),
        (accessor, ApiMethod::Delete) => tokens::delete(request, accessor),
        (_, ApiMethod::Other) => Err(ApiRefusal::method()),
    }
}

//! Requests that the authoritative region serves: writes of records that are valid in every region,
//! and reads that name the authoritative region.
//!
//! This file prevents unauthenticated callers from making this region send requests (only callers
//! with a token that this region knows are forwarded), forwarding loops (a request passes only one
//! region), a second execution of a write (see `authority`), and regions that accept writes unknown
//! to the authoritative region.
//!
//! The object in the answer is stored at once, so that the writer reads its own write. Everything
//! that the local commit depends on is read before the request is sent: a conflict after the write
//! would report a failure to the caller although the write succeeded.

use crate::authority::{AuthoritativeRegion, HOP};
use crate::caller::authenticate;
use crate::index::RecordTable;
use crate::policy::Policy;
use crate::query::{self, ReadQuery};
use crate::refusal::{ApiRefusal, ForeignReply};
use crate::region_config::RegionConfig;
use crate::replica::{ForwardedMark, RemoteToken, put_token};
use crate::request::{ApiMethod, ApiRequest};
use crate::role::{GivenRole, Role};
use crate::token::Token;
use crate::token_records;
use bulkhead_sdk::host::LogLevel;
use bulkhead_sdk::http::{Request, Response};
use bulkhead_sdk::raw::RawReply as Sent;
use bulkhead_sdk::{Failure, Host};

/// Timeout of a forwarded read, in milliseconds. The call occupies a component instance meanwhile.
const READ_TIMEOUT_MS: u32 = 15_000;
/// Timeout of a forwarded write, in milliseconds. A write that timed out may have happened;
/// replication then fetches the record.
const WRITE_TIMEOUT_MS: u32 = 10_000;
/// Maximum wait of a forwarded blocking read. The answer then shows the present state.
const LONGEST_WAIT: &str = "5s";
/// Headers that can carry the caller's token.
const TOKEN_HEADERS: [&str; 3] = ["x-nomad-token", "x-scheduler-token", "authorization"];

/// A write of a record that is valid in every region.
pub(crate) enum GlobalWrite<'a> {
    /// Creation or change of the role with this identifier, which is empty for a new role.
    Role(&'a str),
    RoleRemoval(&'a str),
    Policy(&'a str, &'a Policy),
    PolicyRemoval(&'a str),
    /// Creation or change of the global token with this accessor, which is empty for a new token.
    Token(&'a str),
    TokenRemoval(&'a str, &'a Token),
}

/// Forwards the write if another region is authoritative. The caller was authenticated before.
///
/// # Errors
/// [`ApiRefusal::Elsewhere`] with that region's answer. 500 if the authoritative region does not
/// answer.
pub(crate) fn divert(request: &ApiRequest<'_>, change: &GlobalWrite<'_>) -> Result<(), ApiRefusal> {
    let config = RegionConfig::stored(request.host)?;
    if !config.is_replica() {
        return Ok(());
    }
    let before = ReplacedRecord::read(request.host, change)?;
    // Drops the reads so far from conflict detection: the commit after the write must not fail
    // because of them.
    request.storage().checkpoint()?;
    let answer = send(request, &config, WRITE_TIMEOUT_MS)?;
    if answer.status == 200 {
        store(request, change, &before, &answer);
    }
    Err(ApiRefusal::Elsewhere(ForeignReply(sent(answer))))
}

/// Refuses a request that has passed a region already, if this region follows another region. The
/// check precedes the check of the token: regions that follow each other replicate no token, and
/// 403 would hide the mistake in their configurations.
///
/// # Errors
/// 500 that names the reason.
pub(crate) fn refuse_second_hop(request: &ApiRequest<'_>) -> Result<(), ApiRefusal> {
    let has_passed = request.headers().iter().any(|(name, _)| name == HOP);
    if has_passed && RegionConfig::stored(request.host)?.is_replica() {
        return Err(ApiRefusal::no_path());
    }
    Ok(())
}

/// Refuses a bootstrap of a region that follows another region: the followed region was
/// bootstrapped before its management token was written here, and a bootstrap needs no token.
///
/// # Errors
/// 400 that names the authoritative region.
pub(crate) fn refuse_on_replica(request: &ApiRequest<'_>) -> Result<(), ApiRefusal> {
    let config = RegionConfig::stored(request.host)?;
    if !config.is_replica() {
        return Ok(());
    }
    let region = &config.authoritative_region;
    Err(ApiRefusal::invalid(format!(
        "ACL bootstrap already done: this region follows region {region}; send a further bootstrap \
         to region {region} itself"
    )))
}

/// Returns the parameters of a read that this region serves.
///
/// # Errors
/// 400 for the first malformed parameter. 500 for an unknown region. If the query names the
/// authoritative region: 403 without a token that this region knows, or [`ApiRefusal::Elsewhere`]
/// with that region's answer.
pub(crate) fn read_query(request: &ApiRequest<'_>) -> Result<ReadQuery, ApiRefusal> {
    let query = query::read_query(request.pairs())?;
    read_elsewhere(request, &query.region)?;
    Ok(query)
}

fn read_elsewhere(request: &ApiRequest<'_>, region: &str) -> Result<(), ApiRefusal> {
    let config = RegionConfig::stored(request.host)?;
    if region.is_empty() || region == config.region {
        return Ok(());
    }
    if !config.is_replica() || region != config.authoritative_region {
        return Err(ApiRefusal::no_path());
    }
    refuse_second_hop(request)?;
    if authenticate(request)?.token().is_none() {
        return Err(ApiRefusal::denied());
    }
    let answer = send(request, &config, READ_TIMEOUT_MS)?;
    Err(ApiRefusal::Elsewhere(ForeignReply(sent(answer))))
}

/// Sends the caller's request to the authoritative region.
fn send(
    request: &ApiRequest<'_>,
    config: &RegionConfig,
    timeout: u32,
) -> Result<Response, ApiRefusal> {
    let path = target(request, config);
    let answer =
        AuthoritativeRegion::of(request.host, config)
            .send(request.verb(), &path, |sent| with_caller(request, sent).timeout(timeout));
    answer.map_err(|why| ApiRefusal::Answered {
        status: 500,
        text: format!("rpc error: failed to get conn: {}", why.message),
    })
}

/// Adds the caller's token and body to the request.
fn with_caller(request: &ApiRequest<'_>, mut sent: Request) -> Request {
    for (name, value) in request.headers() {
        if TOKEN_HEADERS.contains(&name.as_str()) && !value.trim().is_empty() {
            sent = sent.header(name, value).secret(value);
        }
    }
    if !request.body().is_empty() {
        sent = sent.header("content-type", "application/json");
    }
    sent.body = request.body().to_vec();
    sent
}

/// Returns path and query as received, but with the authoritative region, and with a short wait for
/// reads.
fn target(request: &ApiRequest<'_>, config: &RegionConfig) -> String {
    let mut query = format!("region={}", config.authoritative_region);
    for pair in request.raw_query().split('&').filter(|pair| !pair.is_empty()) {
        match pair.split('=').next().unwrap_or_default() {
            "region" => {}
            "wait" => query.push_str(&format!("&wait={LONGEST_WAIT}")),
            _ => query.push_str(&format!("&{pair}")),
        }
    }
    if request.method == ApiMethod::Read && !query.contains("&wait=") {
        query.push_str(&format!("&wait={LONGEST_WAIT}"));
    }
    let path = request.raw_path();
    let begin = if path.starts_with("v1/") { "/" } else { "/v1/acl/" };
    format!("{begin}{path}?{query}")
}

/// Converts the answer to the form that the caller receives: status, body and the scheduler's
/// headers.
fn sent(answer: Response) -> Sent {
    let is_handed_on = |name: &str| {
        let name = name.to_ascii_lowercase();
        name == "content-type" || name.starts_with("x-nomad-") || name.starts_with("x-scheduler-")
    };
    let headers = answer.headers.into_iter().filter(|(name, _)| is_handed_on(name)).collect();
    // The contract allows no other status.
    let status = if (200..=599).contains(&answer.status) { answer.status } else { 500 };
    Sent { status, headers, body: answer.body, ..Sent::default() }
}

/// Parts of the replaced local record that other keys are derived from: a role's name, a token's
/// secret.
#[derive(Default)]
struct ReplacedRecord {
    role_name: Option<String>,
    token: Option<Token>,
}

impl ReplacedRecord {
    fn read(host: &dyn Host, change: &GlobalWrite<'_>) -> Result<Self, Failure> {
        match change {
            GlobalWrite::Role(id) | GlobalWrite::RoleRemoval(id) if crate::names::is_uuid(id) => {
                let role = host.storage().get::<Role>(&Role::key(id))?;
                Ok(Self { role_name: role.map(|role| role.name), token: None })
            }
            GlobalWrite::Token(accessor) if crate::names::is_uuid(accessor) => {
                let token = host.storage().get::<Token>(&Token::key(accessor))?;
                Ok(Self { role_name: None, token })
            }
            _ => Ok(Self::default()),
        }
    }
}

/// Stores the written record. Failures are only logged, because the write itself succeeded;
/// replication then fetches the record.
fn store(
    request: &ApiRequest<'_>,
    change: &GlobalWrite<'_>,
    before: &ReplacedRecord,
    answer: &Response,
) {
    if let Err(why) = try_store(request, change, before, answer) {
        let pairs = [("error", why.message.as_str())];
        request.host.log().write(LogLevel::Warn, "forwarded-write-not-stored", &pairs);
    }
}

fn try_store(
    request: &ApiRequest<'_>,
    change: &GlobalWrite<'_>,
    before: &ReplacedRecord,
    answer: &Response,
) -> Result<(), Failure> {
    let host = request.host;
    let (table, id) = match change {
        GlobalWrite::Role(_) => (RecordTable::Roles, store_role(host, before, answer)?),
        GlobalWrite::RoleRemoval(id) => {
            if let Some(name) = &before.role_name {
                host.storage().delete(&Role::key(id))?;
                host.storage().delete(&Role::name_key(name))?;
            }
            (RecordTable::Roles, (*id).to_owned())
        }
        GlobalWrite::Policy(name, policy) => {
            host.storage().put(&Policy::key(name), *policy)?;
            (RecordTable::Policies, (*name).to_owned())
        }
        GlobalWrite::PolicyRemoval(name) => {
            host.storage().delete(&Policy::key(name))?;
            (RecordTable::Policies, (*name).to_owned())
        }
        GlobalWrite::Token(_) => {
            let remote = RemoteToken::read(&answer.body)?;
            put_token(host, &remote, before.token.as_ref())?;
            (RecordTable::Tokens, remote.accessor)
        }
        GlobalWrite::TokenRemoval(accessor, token) => {
            token_records::remove(host, accessor, token)?;
            (RecordTable::Tokens, (*accessor).to_owned())
        }
    };
    table.touch(host.storage())?;
    ForwardedMark::mark(host, table, &id, index_of(answer))
}

/// Stores the role of an answer and returns its identifier.
fn store_role(
    host: &dyn Host,
    before: &ReplacedRecord,
    answer: &Response,
) -> Result<String, Failure> {
    let GivenRole { id, role } =
        GivenRole::read(&answer.body).map_err(|_| Failure::internal("the answer is not a role"))?;
    if !crate::names::is_uuid(&id) || role.check().is_err() {
        return Err(Failure::internal("the answer is not a valid role"));
    }
    if let Some(name) = before.role_name.as_ref().filter(|name| **name != role.name) {
        host.storage().delete(&Role::name_key(name))?;
    }
    host.storage().put(&Role::key(&id), &role)?;
    host.storage().put_plain(&Role::name_key(&role.name), id.as_str())?;
    Ok(id)
}

/// Returns the authoritative region's index of a write; 0 if the answer has none.
fn index_of(answer: &Response) -> u64 {
    answer.header("x-nomad-index").and_then(|text| text.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests;

//! Requests that another region serves: writes of what holds in every region, and reads that name
//! the authoritative region.
//!
//! Prevents a forwarding loop (a request passes one region), a second execution of a write (see
//! `authority`), and a region that accepts writes that the authoritative region does not know.
//!
//! The answer's object is stored at once, so that the writer reads its own write. Everything that
//! the local commit relies on is read before the request is sent: a conflict after the write would
//! tell the caller of a failure that did not happen.

use crate::authority::{Authority, HOP};
use crate::config::RegionConfig;
use crate::index::Table;
use crate::policy::Policy;
use crate::refusal::{ForeignReply, Refusal};
use crate::replica::{Forwarded, RemoteToken, put_token};
use crate::request::{ApiRequest, Method};
use crate::role::{GivenRole, Role};
use crate::token::Token;
use crate::tokens;
use bulkhead_sdk::host::Level;
use bulkhead_sdk::http::{Request, Response};
use bulkhead_sdk::raw::Reply as Sent;
use bulkhead_sdk::{Failure, Host};

/// Milliseconds for the answer to a forwarded read: the caller keeps an instance meanwhile.
const READ_TIME: u32 = 15_000;
/// Longest wait of a forwarded read. The read then answers what is there, as after any wake-up.
const LONGEST_WAIT: &str = "5s";
/// Headers that the caller's token is in.
const TOKEN_HEADERS: [&str; 3] = ["x-nomad-token", "x-scheduler-token", "authorization"];

/// A write of what holds in every region.
pub(crate) enum Change<'a> {
    /// A role is created or changed; its identifier, empty for a new role.
    Role(&'a str),
    RoleRemoval(&'a str),
    Policy(&'a str, &'a Policy),
    PolicyRemoval(&'a str),
    /// A global token is created or changed; its accessor, empty for a new token.
    Token(&'a str),
    TokenRemoval(&'a str, &'a Token),
    /// The first management token is made.
    Bootstrap,
}

/// Forwards the write where another region is authoritative.
///
/// # Errors
/// [`Refusal::Elsewhere`] with that region's answer; 500 where the request passed a region already
/// or that region does not answer.
pub(crate) fn divert(request: &ApiRequest<'_>, change: &Change<'_>) -> Result<(), Refusal> {
    let config = RegionConfig::stored(request.host)?;
    if !config.is_replica() {
        return Ok(());
    }
    let before = Before::read(request.host, change)?;
    // What was read so far is no condition of the commit that follows the write.
    request.storage().checkpoint()?;
    let answer = send(request, &config, 0)?;
    if answer.status == 200 {
        store(request, change, &before, &answer);
    }
    Err(Refusal::Elsewhere(ForeignReply(sent(answer))))
}

/// Forwards a read that names the authoritative region.
///
/// # Errors
/// [`Refusal::Elsewhere`] with that region's answer; 500 for every other region.
pub(crate) fn read_elsewhere(request: &ApiRequest<'_>, region: &str) -> Result<(), Refusal> {
    let config = RegionConfig::stored(request.host)?;
    if region.is_empty() || region == config.region {
        return Ok(());
    }
    if !config.is_replica() || region != config.authoritative_region {
        return Err(Refusal::no_path());
    }
    let answer = send(request, &config, READ_TIME)?;
    Err(Refusal::Elsewhere(ForeignReply(sent(answer))))
}

/// Sends the caller's request to the authoritative region.
fn send(
    request: &ApiRequest<'_>,
    config: &RegionConfig,
    timeout: u32,
) -> Result<Response, Refusal> {
    if request.headers().iter().any(|(name, _)| name == HOP) {
        return Err(Refusal::no_path());
    }
    let path = target(request, config);
    let answer = Authority::of(request.host, config)
        .send(request.verb(), &path, |sent| with_caller(request, sent).timeout(timeout));
    answer.map_err(|why| Refusal::Answered {
        status: 500,
        text: format!("rpc error: failed to get conn: {}", why.message),
    })
}

/// The request with the caller's token and body.
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

/// Path and query as they came, with the authoritative region, and a short wait for reads.
fn target(request: &ApiRequest<'_>, config: &RegionConfig) -> String {
    let mut query = format!("region={}", config.authoritative_region);
    for pair in request.raw_query().split('&').filter(|pair| !pair.is_empty()) {
        match pair.split('=').next().unwrap_or_default() {
            "region" => {}
            "wait" => query.push_str(&format!("&wait={LONGEST_WAIT}")),
            _ => query.push_str(&format!("&{pair}")),
        }
    }
    if request.method == Method::Read && !query.contains("&wait=") {
        query.push_str(&format!("&wait={LONGEST_WAIT}"));
    }
    let path = request.raw_path();
    let begin = if path.starts_with("v1/") { "/" } else { "/v1/acl/" };
    format!("{begin}{path}?{query}")
}

/// The answer as the caller receives it: status, body and the scheduler's headers.
fn sent(answer: Response) -> Sent {
    let is_handed_on = |name: &str| {
        let name = name.to_ascii_lowercase();
        name == "content-type" || name.starts_with("x-nomad-") || name.starts_with("x-scheduler-")
    };
    let headers = answer.headers.into_iter().filter(|(name, _)| is_handed_on(name)).collect();
    // A status outside of the contract is no answer of the API.
    let status = if (200..=599).contains(&answer.status) { answer.status } else { 500 };
    Sent { status, headers, body: answer.body, park: None }
}

/// The local record that a change replaces, as far as other records lead to it.
#[derive(Default)]
struct Before {
    role_name: Option<String>,
    token: Option<Token>,
}

impl Before {
    fn read(host: &dyn Host, change: &Change<'_>) -> Result<Self, Failure> {
        match change {
            Change::Role(id) | Change::RoleRemoval(id) if crate::names::is_uuid(id) => {
                let role = host.storage().get::<Role>(&Role::key(id))?;
                Ok(Self { role_name: role.map(|role| role.name), token: None })
            }
            Change::Token(accessor) if crate::names::is_uuid(accessor) => {
                let token = host.storage().get::<Token>(&Token::key(accessor))?;
                Ok(Self { role_name: None, token })
            }
            _ => Ok(Self::default()),
        }
    }
}

/// Stores what was written. The write itself has happened: an answer that cannot be stored is
/// reported to the operator, and replication brings the record.
fn store(request: &ApiRequest<'_>, change: &Change<'_>, before: &Before, answer: &Response) {
    if let Err(why) = try_store(request, change, before, answer) {
        let pairs = [("error", why.message.as_str())];
        request.host.log().write(Level::Warn, "forwarded-write-not-stored", &pairs);
    }
}

fn try_store(
    request: &ApiRequest<'_>,
    change: &Change<'_>,
    before: &Before,
    answer: &Response,
) -> Result<(), Failure> {
    let host = request.host;
    let (table, id) = match change {
        Change::Role(_) => (Table::Roles, store_role(host, before, answer)?),
        Change::RoleRemoval(id) => {
            if let Some(name) = &before.role_name {
                host.storage().delete(&Role::key(id))?;
                host.storage().delete(&Role::name_key(name))?;
            }
            (Table::Roles, (*id).to_owned())
        }
        Change::Policy(name, policy) => {
            host.storage().put(&Policy::key(name), *policy)?;
            (Table::Policies, (*name).to_owned())
        }
        Change::PolicyRemoval(name) => {
            host.storage().delete(&Policy::key(name))?;
            (Table::Policies, (*name).to_owned())
        }
        Change::Token(_) | Change::Bootstrap => {
            let remote = RemoteToken::read(&answer.body)?;
            put_token(host, &remote, before.token.as_ref())?;
            (Table::Tokens, remote.accessor)
        }
        Change::TokenRemoval(accessor, token) => {
            tokens::remove(host, accessor, token)?;
            (Table::Tokens, (*accessor).to_owned())
        }
    };
    table.touch(host.storage())?;
    Forwarded::mark(host, table, &id, index_of(answer))
}

/// Stores the role of an answer and gives its identifier.
fn store_role(host: &dyn Host, before: &Before, answer: &Response) -> Result<String, Failure> {
    let GivenRole { id, role } =
        GivenRole::read(&answer.body).map_err(|_| Failure::internal("the answer is no role"))?;
    if !crate::names::is_uuid(&id) || role.check().is_err() {
        return Err(Failure::internal("the answer is no role that can be stored"));
    }
    if let Some(name) = before.role_name.as_ref().filter(|name| **name != role.name) {
        host.storage().delete(&Role::name_key(name))?;
    }
    host.storage().put(&Role::key(&id), &role)?;
    host.storage().put_plain(&Role::name_key(&role.name), id.as_str())?;
    Ok(id)
}

/// The authoritative index of a write; 0 where the answer tells none.
fn index_of(answer: &Response) -> u64 {
    answer.header("x-nomad-index").and_then(|text| text.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests;

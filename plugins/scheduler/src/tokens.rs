//! `/v1/acl/token` and `/v1/acl/tokens`.
//!
//! Prevents an upload from taking over a token that lives (its secret must be unused), an update
//! that makes a token live for ever (what is left out is kept, decision F6), and an answer that
//! tells a stranger which tokens exist.

use crate::caller::{
    BadToken, Caller, accessor_of, authenticate, forget_secret, index_secret, look_up,
};
use crate::forward::{self, Change};
use crate::given_token::GivenToken;
use crate::index::{Table, latest};
use crate::names::{is_uuid, uuid_of};
use crate::prefix::Prefix;
use crate::query::{ReadQuery, first};
use crate::refusal::Refusal;
use crate::reply::Reply;
use crate::request::ApiRequest;
use crate::token::{ShownToken, Token, TokenStub, live_links};
use bulkhead_sdk::host::{Entry, Storage};
use bulkhead_sdk::{Failure, Host};

const NOT_FOUND: &str = "ACL token not found";
/// What a timer's key begins with.
const EXPIRY: &str = "expire/";
/// Milliseconds after its creation for which an expired token is kept.
const YOUNG: u64 = 3_600_000;

/// `GET /v1/acl/tokens`.
///
/// # Errors
/// 400 and 403, as the scheduler words them.
pub(crate) fn list(request: &ApiRequest<'_>) -> Result<Reply, Refusal> {
    let query = request.read_query()?;
    let prefix = Prefix::read(&query.prefix, request.is_lenient())?;
    authenticate(request)?.demand_management()?;
    if !query.filter.is_empty() {
        let text = "filter is not served; list by prefix, or leave it out and choose yourself";
        return Err(Refusal::invalid(text));
    }
    let is_global_only = first(request.pairs(), "global").is_some_and(|value| value == "true");
    let storage = request.storage();
    let mut found = Vec::new();
    storage.scan::<Token>("token/", |accessor, entry| {
        if prefix.begins(accessor) && (entry.value.global || !is_global_only) {
            found.push((accessor.to_owned(), entry));
        }
        Ok(())
    })?;
    let is_by_accessor = !prefix.is_empty() || is_global_only;
    let (page, next) = page(found, &query, is_by_accessor);
    let mut stubs = Vec::new();
    for (accessor, entry) in page {
        let links = live_links(storage, &entry.value)?;
        stubs.push(TokenStub::of(&accessor, entry, links));
    }
    let reply = Reply::read(&stubs, Table::Tokens.index(storage)?, request.is_pretty())?;
    Ok(reply.continued(next).watching(
        vec![Table::Tokens.marker().to_owned()],
        &query,
        request.wait(&query),
    ))
}

type Found = Vec<(String, Entry<Token>)>;

/// One page of tokens, in the order of their creation or of their accessors, and where the next
/// page begins.
fn page(mut found: Found, query: &ReadQuery, is_by_accessor: bool) -> (Found, Option<String>) {
    let place = |(accessor, entry): &(String, Entry<Token>)| {
        (if is_by_accessor { 0 } else { entry.created }, accessor.clone())
    };
    found.sort_by_key(place);
    if query.reverse {
        found.reverse();
    }
    let name = |(accessor, entry): &(String, Entry<Token>)| match is_by_accessor {
        true => accessor.clone(),
        false => format!("{}.{accessor}", entry.created),
    };
    if !query.next_token.is_empty() {
        let begins = found.iter().position(|token| name(token) == query.next_token);
        found.drain(..begins.unwrap_or(found.len()));
    }
    let size = usize::try_from(query.per_page).unwrap_or(usize::MAX);
    let next = if size == 0 { None } else { found.get(size).map(name) };
    if size > 0 {
        found.truncate(size);
    }
    (found, next)
}

/// `GET /v1/acl/token/self`, which never waits.
///
/// # Errors
/// 400 and 403, as the scheduler words them.
pub(crate) fn read_own(request: &ApiRequest<'_>) -> Result<Reply, Refusal> {
    request.read_query()?;
    match look_up(request)?.map_err(tell_expired)? {
        Caller::Anonymous => Reply::read(&ShownToken::anonymous(), 0, request.is_pretty()),
        Caller::Known { accessor, token } => show(request, &accessor, *token),
    }
}

/// `GET /v1/acl/token/:accessor`.
///
/// # Errors
/// 400, 403 and 404, as the scheduler words them.
pub(crate) fn read(request: &ApiRequest<'_>, accessor: &str) -> Result<Reply, Refusal> {
    let query = request.read_query()?;
    let caller = look_up(request)?.map_err(tell_expired)?;
    let is_own = matches!(&caller, Caller::Known { accessor: own, .. } if own == accessor);
    if !is_own && !caller.is_management() {
        return Err(Refusal::denied());
    }
    let Some(entry) = entry_of(request.storage(), accessor)? else {
        let reply = Reply::missing(NOT_FOUND, Table::Tokens.index(request.storage())?);
        let marker = vec![Table::Tokens.marker().to_owned()];
        return Ok(reply.watching(marker, &query, request.wait(&query)));
    };
    Ok(show(request, accessor, entry)?.watching(
        vec![Token::key(accessor)],
        &query,
        request.wait(&query),
    ))
}

fn tell_expired(bad: BadToken) -> Refusal {
    match bad {
        BadToken::Unknown => Refusal::denied(),
        BadToken::Expired => {
            Refusal::Answered { status: 403, text: "ACL token expired".to_owned() }
        }
    }
}

fn show(request: &ApiRequest<'_>, accessor: &str, entry: Entry<Token>) -> Result<Reply, Refusal> {
    let (index, links) = (entry.modified, live_links(request.storage(), &entry.value)?);
    Reply::read(&ShownToken::whole(accessor, entry, links), index, request.is_pretty())
}

/// The token `accessor`; `None` also for what is no identifier.
fn entry_of(storage: &dyn Storage, accessor: &str) -> Result<Option<Entry<Token>>, Failure> {
    if is_uuid(accessor) { storage.entry(&Token::key(accessor)) } else { Ok(None) }
}

/// `POST /v1/acl/token`, and `POST /v1/acl/token/:accessor` where `accessor` is given.
///
/// # Errors
/// 400 and 403, as the scheduler words them; nothing is stored.
pub(crate) fn write(request: &ApiRequest<'_>, accessor: Option<&str>) -> Result<Reply, Refusal> {
    let given = GivenToken::read(request.body())?;
    if accessor.is_some_and(|accessor| accessor != given.accessor) {
        return Err(Refusal::invalid("ACL token accessor does not match request path"));
    }
    if given.is_global() {
        forward::divert(request, &Change::Token(&given.accessor))?;
    }
    authenticate(request)?.demand_management()?;
    let storage = request.storage();
    let roles = given.role_ids(storage)?;
    let (now, host) = (request.now(), request.host);
    if given.accessor.is_empty() {
        let (accessor, secret) = (random_uuid(host)?, random_uuid(host)?);
        let token = given.create(secret, roles, now)?;
        return store(request, &accessor, &token);
    }
    if let Some(before) = entry_of(storage, &given.accessor)? {
        let token = given.update(&before.value, roles)?;
        if token == before.value {
            return written(request, &given.accessor, before, latest(storage)?);
        }
        return store(request, &given.accessor, &token);
    }
    let token = given.upload(roles, now)?;
    if accessor_of(host, &token.secret)?.is_some() {
        let text = "SecretID is the secret of another token; give one of your own, or leave out \
                    AccessorID and SecretID";
        return Err(Refusal::invalid(text));
    }
    store(request, &given.accessor, &token)
}

fn random_uuid(host: &dyn Host) -> Result<String, Failure> {
    let random = host.random().bytes(16);
    let random = random.try_into().map_err(|_| Failure::internal("16 random bytes"))?;
    Ok(uuid_of(random))
}

/// Stores the token with what finds it by its secret and at its end.
fn store(request: &ApiRequest<'_>, accessor: &str, token: &Token) -> Result<Reply, Refusal> {
    let index = put(request.host, accessor, token)?;
    let stored = entry_of(request.storage(), accessor)?;
    let stored = stored.ok_or_else(|| Failure::internal("the token is gone as it was stored"))?;
    written(request, accessor, stored, index)
}

/// Stores `token` and commits it.
///
/// # Errors
/// Those of the store.
pub(crate) fn put(host: &dyn Host, accessor: &str, token: &Token) -> Result<u64, Failure> {
    place(host, accessor, token)?;
    host.storage().checkpoint()
}

/// Stores `token` with what finds it by its secret and at its end, without a commit.
///
/// # Errors
/// Those of the store.
pub(crate) fn place(host: &dyn Host, accessor: &str, token: &Token) -> Result<(), Failure> {
    host.storage().put(&Token::key(accessor), token)?;
    index_secret(host, &token.secret, accessor)?;
    if let Some(expires) = token.expires {
        // A token that ends young is removed when it is an hour old: clients that poll its
        // accessor learn that it is over.
        let removed = expires.max(token.created.saturating_add(YOUNG)).saturating_add(1);
        host.clock().schedule(&expiry_timer(accessor), removed, "expiry")?;
    }
    Table::Tokens.touch(host.storage())
}

/// The timer that removes an expired token.
#[must_use]
pub(crate) fn expiry_timer(accessor: &str) -> String {
    format!("{EXPIRY}{accessor}")
}

fn written(
    request: &ApiRequest<'_>,
    accessor: &str,
    stored: Entry<Token>,
    index: u64,
) -> Result<Reply, Refusal> {
    let links = live_links(request.storage(), &stored.value)?;
    let shown = ShownToken::whole(accessor, stored, links);
    Reply::written(&shown, index, request.is_pretty())
}

/// `DELETE /v1/acl/token/:accessor`.
///
/// # Errors
/// 400 for a token that is not there, and 403.
pub(crate) fn delete(request: &ApiRequest<'_>, accessor: &str) -> Result<Reply, Refusal> {
    let entry = entry_of(request.storage(), accessor)?;
    if let Some(entry) = entry.as_ref().filter(|entry| entry.value.global) {
        forward::divert(request, &Change::TokenRemoval(accessor, &entry.value))?;
    }
    authenticate(request)?.demand_management()?;
    let Some(entry) = entry else {
        return Err(Refusal::invalid(format!("Cannot delete nonexistent tokens: {accessor}")));
    };
    remove(request.host, accessor, &entry.value)?;
    Ok(Reply::done(request.storage().checkpoint()?))
}

/// Removes the token with all that finds it.
///
/// # Errors
/// Those of the store.
pub(crate) fn remove(host: &dyn Host, accessor: &str, token: &Token) -> Result<(), Failure> {
    host.storage().delete(&Token::key(accessor))?;
    forget_secret(host, &token.secret)?;
    host.clock().cancel(&expiry_timer(accessor))?;
    Table::Tokens.touch(host.storage())
}

/// Removes the token of a timer, if it is over.
///
/// # Errors
/// Those of the store; internal for a key of no timer.
pub(crate) fn expire(host: &dyn Host, key: &str) -> Result<(), Failure> {
    let accessor = key.strip_prefix(EXPIRY).ok_or_else(|| {
        Failure::internal(format!("the scheduler was woken for {key:?}, which it did not schedule"))
    })?;
    let Some(entry) = entry_of(host.storage(), accessor)? else { return Ok(()) };
    if entry.value.is_expired(host.clock().now()) {
        remove(host, accessor, &entry.value)?;
    }
    Ok(())
}

/// Removes every token that is over, and tells the index of the commit.
///
/// # Errors
/// Those of the store.
pub(crate) fn remove_expired(host: &dyn Host) -> Result<u64, Failure> {
    let (storage, now) = (host.storage(), host.clock().now());
    let mut expired = Vec::new();
    storage.scan::<Token>("token/", |accessor, entry| {
        if entry.value.is_expired(now) {
            expired.push((accessor.to_owned(), entry.value));
        }
        Ok(())
    })?;
    if expired.is_empty() {
        return latest(storage);
    }
    for (accessor, token) in &expired {
        remove(host, accessor, token)?;
    }
    storage.checkpoint()
}

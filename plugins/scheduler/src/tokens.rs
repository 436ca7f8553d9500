//! The endpoints `/v1/acl/token` and `/v1/acl/tokens`.
//!
//! This file prevents an upload from taking over an existing token (the uploaded secret must be
//! unused), an update from making an expiring token permanent (omitted fields keep the expiry,
//! decision F6), and answers that show unauthenticated callers which tokens exist.

use crate::body;
use crate::caller::{
    ApiCaller, BadToken, accessor_of, authenticate, authenticate_manager, look_up,
};
use crate::forward::{self, GlobalWrite};
use crate::given_token::GivenToken;
use crate::index::{RecordTable, latest};
use crate::names::uuid_of;
use crate::prefix::IdPrefix;
use crate::query::{ReadQuery, first};
use crate::refusal::ApiRefusal;
use crate::reply::ApiReply;
use crate::request::ApiRequest;
use crate::token::{ShownToken, Token, TokenStub, live_links};
use crate::token_records::{entry_of, put, remove};
use bulkhead_sdk::host::Entry;
use bulkhead_sdk::{Failure, Host};

const NOT_FOUND: &str = "ACL token not found";

/// Serves `GET /v1/acl/tokens`.
///
/// # Errors
/// 400 and 403, in the scheduler's words.
pub(crate) fn list(request: &ApiRequest<'_>) -> Result<ApiReply, ApiRefusal> {
    let query = forward::read_query(request)?;
    let prefix = IdPrefix::read(&query.prefix, request.is_lenient())?;
    authenticate(request)?.demand_management()?;
    if !query.filter.is_empty() {
        let text = "filter is not served; leave filter out and list by prefix, or filter the \
                    answer yourself";
        return Err(ApiRefusal::invalid(text));
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
    let reply = ApiReply::read(&stubs, RecordTable::Tokens.index(storage)?, request.is_pretty())?;
    Ok(reply.continued(next).watching(
        vec![RecordTable::Tokens.marker().to_owned()],
        &query,
        request.wait(&query),
    ))
}

type TokenEntries = Vec<(String, Entry<Token>)>;

/// Place of a token in a list. Places are compared, so that the place of a deleted token is still
/// the begin of a page.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct ListPlace {
    /// Index of the creation; `None` in a list in the order of accessors.
    created: Option<u64>,
    accessor: String,
}

impl ListPlace {
    fn of(accessor: &str, created: Option<u64>) -> Self {
        Self { created, accessor: accessor.to_owned() }
    }

    /// Parses the name of a place in the list; `None` for the name of a place in no list.
    fn read(name: &str, is_by_accessor: bool) -> Option<Self> {
        if is_by_accessor {
            return Some(Self::of(name, None));
        }
        let (created, accessor) = name.split_once('.')?;
        Some(Self::of(accessor, Some(created.parse().ok()?)))
    }

    /// Returns the name that callers send as `next_token`.
    fn name(&self) -> String {
        let accessor = &self.accessor;
        self.created.map_or_else(|| accessor.clone(), |created| format!("{created}.{accessor}"))
    }
}

/// Returns one page of tokens, sorted by creation or by accessor, and the begin of the next page.
fn page(
    mut found: TokenEntries,
    query: &ReadQuery,
    is_by_accessor: bool,
) -> (TokenEntries, Option<String>) {
    let place = |(accessor, entry): &(String, Entry<Token>)| {
        ListPlace::of(accessor, (!is_by_accessor).then_some(entry.created))
    };
    found.sort_by_cached_key(place);
    if query.reverse {
        found.reverse();
    }
    if !query.next_token.is_empty() {
        let begin = ListPlace::read(&query.next_token, is_by_accessor);
        found.retain(|token| {
            let order = begin.as_ref().map(|begin| place(token).cmp(begin));
            order.is_some_and(|order| if query.reverse { order.is_le() } else { order.is_ge() })
        });
    }
    let size = usize::try_from(query.per_page).unwrap_or(usize::MAX);
    let next = if size == 0 { None } else { found.get(size).map(|token| place(token).name()) };
    if size > 0 {
        found.truncate(size);
    }
    (found, next)
}

/// Serves `GET /v1/acl/token/self`. Never waits.
///
/// # Errors
/// 400 and 403, in the scheduler's words.
pub(crate) fn read_own(request: &ApiRequest<'_>) -> Result<ApiReply, ApiRefusal> {
    forward::read_query(request)?;
    match look_up(request)?.map_err(refusal_of_bad_token)? {
        ApiCaller::Anonymous => ApiReply::read(&ShownToken::anonymous(), 0, request.is_pretty()),
        ApiCaller::Known { accessor, token } => show(request, &accessor, *token),
    }
}

/// Serves `GET /v1/acl/token/:accessor`.
///
/// # Errors
/// 400, 403 and 404, in the scheduler's words.
pub(crate) fn read(request: &ApiRequest<'_>, accessor: &str) -> Result<ApiReply, ApiRefusal> {
    let query = forward::read_query(request)?;
    let caller = look_up(request)?.map_err(refusal_of_bad_token)?;
    let is_own = matches!(&caller, ApiCaller::Known { accessor: own, .. } if own == accessor);
    if !is_own && !caller.is_management() {
        return Err(ApiRefusal::denied());
    }
    let Some(entry) = entry_of(request.storage(), accessor)? else {
        let reply = ApiReply::missing(NOT_FOUND, RecordTable::Tokens.index(request.storage())?);
        let marker = vec![RecordTable::Tokens.marker().to_owned()];
        return Ok(reply.watching(marker, &query, request.wait(&query)));
    };
    Ok(show(request, accessor, entry)?.watching(
        vec![Token::key(accessor)],
        &query,
        request.wait(&query),
    ))
}

fn refusal_of_bad_token(bad: BadToken) -> ApiRefusal {
    match bad {
        BadToken::Unknown => ApiRefusal::denied(),
        BadToken::Expired => {
            ApiRefusal::Answered { status: 403, text: "ACL token expired".to_owned() }
        }
    }
}

fn show(
    request: &ApiRequest<'_>,
    accessor: &str,
    entry: Entry<Token>,
) -> Result<ApiReply, ApiRefusal> {
    let (index, links) = (entry.modified, live_links(request.storage(), &entry.value)?);
    ApiReply::read(&ShownToken::whole(accessor, entry, links), index, request.is_pretty())
}

/// Serves `POST /v1/acl/token`, or `POST /v1/acl/token/:accessor` if `accessor` is given.
///
/// # Errors
/// 400 and 403, in the scheduler's words; nothing is stored.
pub(crate) fn write(
    request: &ApiRequest<'_>,
    accessor: Option<&str>,
) -> Result<ApiReply, ApiRefusal> {
    let fields = body::object(request.body())?;
    authenticate_manager(request)?;
    let given_token = GivenToken::of(&fields)?;
    if accessor.is_some_and(|accessor| accessor != given_token.accessor) {
        return Err(ApiRefusal::invalid("ACL token accessor does not match request path"));
    }
    if given_token.is_global() {
        forward::divert(request, &GlobalWrite::Token(&given_token.accessor))?;
    }
    let storage = request.storage();
    let roles = given_token.role_ids(storage)?;
    let (now, host) = (request.now(), request.host);
    if given_token.accessor.is_empty() {
        let (accessor, secret) = (random_uuid(host)?, random_uuid(host)?);
        let token = given_token.create(secret, roles, now)?;
        return store(request, &accessor, &token);
    }
    if let Some(before) = entry_of(storage, &given_token.accessor)? {
        let token = given_token.update(&before.value, roles)?;
        if token == before.value {
            return written(request, &given_token.accessor, before, latest(storage)?);
        }
        return store(request, &given_token.accessor, &token);
    }
    let token = given_token.upload(roles, now)?;
    if accessor_of(host, &token.secret)?.is_some() {
        let text = "SecretID is the secret of another token; give another secret, or leave \
                    out AccessorID and SecretID";
        return Err(ApiRefusal::invalid(text));
    }
    store(request, &given_token.accessor, &token)
}

fn random_uuid(host: &dyn Host) -> Result<String, Failure> {
    let random = host.random().bytes(16);
    let random = random.try_into().map_err(|_| Failure::internal("16 random bytes"))?;
    Ok(uuid_of(random))
}

/// Stores the token with its index entry and timer.
fn store(request: &ApiRequest<'_>, accessor: &str, token: &Token) -> Result<ApiReply, ApiRefusal> {
    let index = put(request.host, accessor, token)?;
    let stored = entry_of(request.storage(), accessor)?;
    let stored = stored.ok_or_else(|| Failure::internal("the stored token is missing"))?;
    written(request, accessor, stored, index)
}

fn written(
    request: &ApiRequest<'_>,
    accessor: &str,
    stored: Entry<Token>,
    index: u64,
) -> Result<ApiReply, ApiRefusal> {
    let links = live_links(request.storage(), &stored.value)?;
    let shown = ShownToken::whole(accessor, stored, links);
    ApiReply::written(&shown, index, request.is_pretty())
}

/// Serves `DELETE /v1/acl/token/:accessor`.
///
/// # Errors
/// 400 for a token that does not exist, and 403.
pub(crate) fn delete(request: &ApiRequest<'_>, accessor: &str) -> Result<ApiReply, ApiRefusal> {
    authenticate_manager(request)?;
    let entry = entry_of(request.storage(), accessor)?;
    if let Some(entry) = entry.as_ref().filter(|entry| entry.value.global) {
        forward::divert(request, &GlobalWrite::TokenRemoval(accessor, &entry.value))?;
    }
    let Some(entry) = entry else {
        return Err(ApiRefusal::invalid(format!("Cannot delete nonexistent tokens: {accessor}")));
    };
    remove(request.host, accessor, &entry.value)?;
    Ok(ApiReply::done(request.storage().checkpoint()?))
}

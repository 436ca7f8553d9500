//! The endpoints `/v1/acl/policy` and `/v1/acl/policies`.

use crate::caller::{ApiCaller, authenticate, authenticate_manager};
use crate::forward::{self, GlobalWrite};
use crate::index::RecordTable;
use crate::names::is_name;
use crate::pages;
use crate::policy::{Policy, PolicyStub, ShownPolicy};
use crate::query::ReadQuery;
use crate::refusal::ApiRefusal;
use crate::reply::ApiReply;
use crate::request::ApiRequest;
use crate::role::Role;
use bulkhead_sdk::Failure;
use bulkhead_sdk::host::Storage;
use std::collections::BTreeSet;

const NOT_FOUND: &str = "ACL policy not found";
/// Name of the policy for callers without a token. Every caller may read the policy.
const ANONYMOUS: &str = "anonymous";

/// Serves `GET /v1/acl/policies`: lists the policies that the caller may read.
///
/// # Errors
/// 400 and 403, in the scheduler's words.
pub(crate) fn list(request: &ApiRequest<'_>) -> Result<ApiReply, ApiRefusal> {
    let query = forward::read_query(request)?;
    let caller = authenticate(request)?;
    list_for(request, &caller, &query)
}

/// Lists the policies that the caller may read, with the prefix of the query.
fn list_for(
    request: &ApiRequest<'_>,
    caller: &ApiCaller,
    query: &ReadQuery,
) -> Result<ApiReply, ApiRefusal> {
    if caller.is_management() {
        let mut stubs = Vec::new();
        let next = pages::scan::<Policy>(request.storage(), "policy/", query, |name, entry| {
            let is_found = name.starts_with(&query.prefix);
            stubs.extend(is_found.then(|| PolicyStub::of(name, entry)));
            is_found
        })?;
        return Ok(listed(request, &stubs, query)?.continued(next));
    }
    let reachable = reachable(request.storage(), caller)?;
    let names = reachable.into_iter().filter(|name| name.starts_with(&query.prefix));
    let stubs = stubs_of(request.storage(), names)?;
    listed(request, &stubs, query)
}

/// Serves `GET /v1/acl/policy/self`: lists the policies of the caller's own token. A management
/// token has every policy.
///
/// # Errors
/// 400, and 403 without a token, in the scheduler's words.
pub(crate) fn list_own(request: &ApiRequest<'_>) -> Result<ApiReply, ApiRefusal> {
    let query = forward::read_query(request)?;
    let caller = authenticate(request)?;
    if caller.token().is_none() {
        return Err(ApiRefusal::denied());
    }
    list_for(request, &caller, &query)
}

fn listed(
    request: &ApiRequest<'_>,
    stubs: &[PolicyStub],
    query: &ReadQuery,
) -> Result<ApiReply, ApiRefusal> {
    let index = RecordTable::Policies.index(request.storage())?;
    let reply = ApiReply::read(&stubs, index, request.is_pretty())?;
    Ok(reply.watching(vec![RecordTable::Policies.marker().to_owned()], query, request.wait(query)))
}

/// Returns the existing policies among `names`.
fn stubs_of(
    storage: &dyn Storage,
    names: impl IntoIterator<Item = String>,
) -> Result<Vec<PolicyStub>, Failure> {
    let mut stubs = Vec::new();
    for name in names.into_iter().filter(|name| is_name(name)) {
        if let Some(entry) = storage.entry::<Policy>(&Policy::key(&name))? {
            stubs.push(PolicyStub::of(&name, entry));
        }
    }
    Ok(stubs)
}

/// Returns the names of the policies that the caller's token has, directly and through its roles,
/// sorted.
fn reachable(storage: &dyn Storage, caller: &ApiCaller) -> Result<BTreeSet<String>, Failure> {
    let mut names = BTreeSet::new();
    let Some(token) = caller.token() else {
        names.insert(ANONYMOUS.to_owned());
        return Ok(names);
    };
    names.extend(token.policies.iter().cloned());
    for id in &token.roles {
        let role = storage.get::<Role>(&Role::key(id))?;
        names.extend(role.into_iter().flat_map(|role| role.policies));
    }
    Ok(names)
}

/// Serves `GET /v1/acl/policy/:name`.
///
/// # Errors
/// 400, 403 and 404, in the scheduler's words.
pub(crate) fn read(request: &ApiRequest<'_>, name: &str) -> Result<ApiReply, ApiRefusal> {
    let query = forward::read_query(request)?;
    let caller = authenticate(request)?;
    let storage = request.storage();
    let may =
        name == ANONYMOUS || caller.is_management() || reachable(storage, &caller)?.contains(name);
    if !may {
        return Err(ApiRefusal::denied());
    }
    let entry = if is_name(name) { storage.entry::<Policy>(&Policy::key(name))? } else { None };
    let Some(entry) = entry else {
        let reply = ApiReply::missing(NOT_FOUND, RecordTable::Policies.index(storage)?);
        let marker = vec![RecordTable::Policies.marker().to_owned()];
        return Ok(reply.watching(marker, &query, request.wait(&query)));
    };
    let index = entry.modified;
    let reply = ApiReply::read(&ShownPolicy::of(name, entry), index, request.is_pretty())?;
    Ok(reply.watching(vec![Policy::key(name)], &query, request.wait(&query)))
}

/// Serves `POST /v1/acl/policy/:name`. Every write counts as a change, even if the text is the
/// same.
///
/// # Errors
/// 400 and 403, in the scheduler's words; nothing is stored.
pub(crate) fn write(request: &ApiRequest<'_>, name: &str) -> Result<ApiReply, ApiRefusal> {
    let policy = Policy::read(name, request.body())?;
    authenticate_manager(request)?;
    forward::divert(request, &GlobalWrite::Policy(name, &policy))?;
    policy.check(name)?;
    let storage = request.storage();
    storage.put(&Policy::key(name), &policy)?;
    RecordTable::Policies.touch(storage)?;
    Ok(ApiReply::done(storage.checkpoint()?))
}

/// Serves `DELETE /v1/acl/policy/:name`. Deleting an absent policy succeeds. Roles and tokens keep
/// the name.
///
/// # Errors
/// 403.
pub(crate) fn delete(request: &ApiRequest<'_>, name: &str) -> Result<ApiReply, ApiRefusal> {
    authenticate_manager(request)?;
    forward::divert(request, &GlobalWrite::PolicyRemoval(name))?;
    let storage = request.storage();
    if is_name(name) && storage.get_bytes(&Policy::key(name))?.is_some() {
        storage.delete(&Policy::key(name))?;
        RecordTable::Policies.touch(storage)?;
        return Ok(ApiReply::done(storage.checkpoint()?));
    }
    Ok(ApiReply::done(crate::index::latest(storage)?))
}

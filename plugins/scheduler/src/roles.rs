//! The endpoints `/v1/acl/role` and `/v1/acl/roles`.
//!
//! This file prevents a caller from learning which roles exist: a caller without a management token
//! gets 403 for every role to which its token does not link, whether or not the role exists.

use crate::body;
use crate::caller::{authenticate, authenticate_manager};
use crate::forward::{self, GlobalWrite};
use crate::index::{RecordTable, latest};
use crate::names::{is_name, is_uuid, uuid_of};
use crate::pages;
use crate::policy::Policy;
use crate::prefix::IdPrefix;
use crate::query::ReadQuery;
use crate::refusal::ApiRefusal;
use crate::reply::ApiReply;
use crate::request::ApiRequest;
use crate::role::{GivenRole, Role, ShownRole, id_of};
use bulkhead_sdk::Failure;
use bulkhead_sdk::host::{Entry, Storage};

const NOT_FOUND: &str = "ACL role not found";

/// Serves `GET /v1/acl/roles`: lists the roles that the caller may read.
///
/// # Errors
/// 400 and 403, in the scheduler's words.
pub(crate) fn list(request: &ApiRequest<'_>) -> Result<ApiReply, ApiRefusal> {
    let query = forward::read_query(request)?;
    let prefix = IdPrefix::read(&query.prefix, request.is_lenient())?;
    let caller = authenticate(request)?;
    let storage = request.storage();
    let (mut roles, mut next) = (Vec::new(), None);
    let mut show = |id: &str, entry: Entry<Role>| {
        let is_found = prefix.begins(id);
        roles.extend(is_found.then(|| ShownRole::of(id, entry)));
        is_found
    };
    if caller.is_management() {
        next = pages::scan::<Role>(storage, "role/", &query, show)?;
    } else {
        let mut ids = caller.token().map(|token| token.roles.clone()).unwrap_or_default();
        ids.sort_unstable();
        for id in ids {
            if let Some(entry) = storage.entry::<Role>(&Role::key(&id))? {
                show(&id, entry);
            }
        }
    }
    let reply = ApiReply::read(&roles, RecordTable::Roles.index(storage)?, request.is_pretty())?;
    Ok(reply.continued(next).watching(
        vec![RecordTable::Roles.marker().to_owned()],
        &query,
        request.wait(&query),
    ))
}

/// Serves `GET /v1/acl/role/:id`.
///
/// # Errors
/// 400, 403 and 404, in the scheduler's words.
pub(crate) fn read(request: &ApiRequest<'_>, id: &str) -> Result<ApiReply, ApiRefusal> {
    let query = forward::read_query(request)?;
    let caller = authenticate(request)?;
    // A link to a deleted role gives no rights, not even to learn that the role is gone.
    let may = caller.is_management()
        || (caller.has_role(id) && entry_of(request.storage(), id)?.is_some());
    if !may {
        return Err(ApiRefusal::denied());
    }
    show(request, id, &query)
}

/// Serves `GET /v1/acl/role/name/:name`.
///
/// # Errors
/// 400, 403 and 404, in the scheduler's words.
pub(crate) fn read_by_name(request: &ApiRequest<'_>, name: &str) -> Result<ApiReply, ApiRefusal> {
    let query = forward::read_query(request)?;
    let caller = authenticate(request)?;
    let id = id_of(request.storage(), name)?;
    let is_linked = id.as_ref().is_some_and(|id| caller.has_role(id));
    if !caller.is_management() && !is_linked {
        return Err(ApiRefusal::denied());
    }
    show(request, id.as_deref().unwrap_or_default(), &query)
}

fn show(request: &ApiRequest<'_>, id: &str, query: &ReadQuery) -> Result<ApiReply, ApiRefusal> {
    let storage = request.storage();
    let Some(entry) = entry_of(storage, id)? else {
        let reply = ApiReply::missing(NOT_FOUND, RecordTable::Roles.index(storage)?);
        let marker = vec![RecordTable::Roles.marker().to_owned()];
        return Ok(reply.watching(marker, query, request.wait(query)));
    };
    let index = entry.modified;
    let reply = ApiReply::read(&ShownRole::of(id, entry), index, request.is_pretty())?;
    Ok(reply.watching(vec![Role::key(id)], query, request.wait(query)))
}

/// Serves `POST /v1/acl/role`, or `POST /v1/acl/role/:id` if `id` is given.
///
/// # Errors
/// 400 and 403, in the scheduler's words; nothing is stored.
pub(crate) fn write(request: &ApiRequest<'_>, id: Option<&str>) -> Result<ApiReply, ApiRefusal> {
    let fields = body::object(request.body())?;
    authenticate_manager(request)?;
    let GivenRole { id: given_id, role } = GivenRole::of(&fields)?;
    if id.is_some_and(|id| id != given_id) {
        return Err(ApiRefusal::invalid("ACL role ID does not match request path"));
    }
    forward::divert(request, &GlobalWrite::Role(&given_id))?;
    role.check()?;
    let storage = request.storage();
    let (id, before) = target(request, given_id, &role)?;
    for policy in &role.policies {
        if !is_name(policy) || storage.get_bytes(&Policy::key(policy))?.is_none() {
            return Err(ApiRefusal::invalid(format!("cannot find policy {policy}")));
        }
    }
    if let Some(before) = before.as_ref().filter(|before| before.value == role) {
        let unchanged = ShownRole::of(&id, before.clone());
        return ApiReply::written(&unchanged, latest(storage)?, request.is_pretty());
    }
    let index = store(storage, &id, before.map(|entry| entry.value), &role)?;
    let stored = storage.entry::<Role>(&Role::key(&id))?;
    let stored = stored.ok_or_else(|| Failure::internal("the stored role is missing"))?;
    ApiReply::written(&ShownRole::of(&id, stored), index, request.is_pretty())
}

/// Returns the identifier to write under, and the present record of the role.
fn target(
    request: &ApiRequest<'_>,
    given_id: String,
    role: &Role,
) -> Result<(String, Option<Entry<Role>>), ApiRefusal> {
    let storage = request.storage();
    let holder = id_of(storage, &role.name)?;
    if given_id.is_empty() {
        if holder.is_some() {
            return Err(ApiRefusal::invalid(format!(
                "role with name {} already exists",
                role.name
            )));
        }
        let random = request.host.random().bytes(16);
        let random = random.try_into().map_err(|_| Failure::internal("16 random bytes"))?;
        return Ok((uuid_of(random), None));
    }
    let before = entry_of(storage, &given_id)?;
    let before =
        before.ok_or_else(|| ApiRefusal::invalid(format!("cannot find role {given_id}")))?;
    if holder.is_some_and(|holder| holder != given_id) {
        let text = format!("ACL role with name {} already exists", role.name);
        return Err(ApiRefusal::invalid(text));
    }
    Ok((given_id, Some(before)))
}

/// Stores the role under its identifier and its name. Returns the index of the commit.
fn store(
    storage: &dyn Storage,
    id: &str,
    before: Option<Role>,
    role: &Role,
) -> Result<u64, Failure> {
    if let Some(before) = before.filter(|before| before.name != role.name) {
        storage.delete(&Role::name_key(&before.name))?;
    }
    storage.put(&Role::key(id), role)?;
    storage.put_plain(&Role::name_key(&role.name), id)?;
    RecordTable::Roles.touch(storage)?;
    storage.checkpoint()
}

/// Serves `DELETE /v1/acl/role/:id`.
///
/// # Errors
/// 403, and 404 for a role that does not exist (decision F2).
pub(crate) fn delete(request: &ApiRequest<'_>, id: &str) -> Result<ApiReply, ApiRefusal> {
    authenticate_manager(request)?;
    forward::divert(request, &GlobalWrite::RoleRemoval(id))?;
    let storage = request.storage();
    let entry = entry_of(storage, id)?.ok_or_else(|| ApiRefusal::not_found(NOT_FOUND))?;
    storage.delete(&Role::key(id))?;
    storage.delete(&Role::name_key(&entry.value.name))?;
    RecordTable::Roles.touch(storage)?;
    Ok(ApiReply::done(storage.checkpoint()?))
}

/// Returns the role `id`; `None` if there is none or `id` is not a UUID.
fn entry_of(storage: &dyn Storage, id: &str) -> Result<Option<Entry<Role>>, Failure> {
    if is_uuid(id) { storage.entry(&Role::key(id)) } else { Ok(None) }
}

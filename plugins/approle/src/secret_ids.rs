//! `role/{role_name}/secret-id` and the paths beside it: the secret ids of a role.
//!
//! This file prevents an operator of one role from reading or removing a secret id of another role:
//! each request names its role, and finds only secret ids and accessors of this role.

use crate::role::{Role, name_in_path};
use crate::secret_id::{self, SecretId, SecretIdKey};
use crate::{metadata, networks, uuid};
use bulkhead_sdk::table::Field;
use bulkhead_sdk::wire::duration;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Answer, Call, Failure, FailureKind, Host};
use serde_json::json;

/// Minimum length of a chosen secret id, and minimum length without a warning.
const MIN_SECRET_ID_CHARS: usize = 12;
const WARN_SECRET_ID_CHARS: usize = 20;
/// Maximum length of a chosen secret id, in bytes.
const MAX_SECRET_ID_BYTES: usize = 4_096;
/// Maximum number of keys in a page of storage.
const PAGE: u32 = 1_000;

/// Fields of a new secret id.
pub(crate) const FIELDS: &[Field] = &[
    Field::any("metadata", "shown with the tokens of logins: an object, or an object as JSON text"),
    Field::words("cidr_list", "accepted networks of logins, within the role's networks"),
    Field::words("token_bound_cidrs", "accepted networks of tokens, within the role's networks"),
    Field::whole("num_uses", "number of logins; default: the role's number"),
    Field::seconds("ttl", "lifetime of the secret id; default: the role's lifetime"),
];

/// The field that gives a secret id.
pub(crate) const SECRET: &[Field] =
    &[Field::text("secret_id", "the secret id").required().secret()];

/// The field that names a secret id by its accessor.
pub(crate) const ACCESSOR: &[Field] =
    &[Field::text("secret_id_accessor", "the accessor of a secret id").required()];

/// Generates a secret id.
pub(crate) fn generate(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let (_, role) = Role::named(host, call)?;
    add(host, call, &role, &uuid::random(host))
}

/// Adds a secret id of the caller's choice.
pub(crate) fn add_custom(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let (_, role) = Role::named(host, call)?;
    let secret_id = call.text("secret_id");
    if !(MIN_SECRET_ID_CHARS..=MAX_SECRET_ID_BYTES).contains(&secret_id.len()) {
        return Err(Failure::invalid(format!(
            "secret_id has {} bytes; choose {WARN_SECRET_ID_CHARS} or more random characters, at \
             least {MIN_SECRET_ID_CHARS} and at most {MAX_SECRET_ID_BYTES}",
            secret_id.len()
        )));
    }
    let answer = add(host, call, &role, secret_id)?;
    let warning = (secret_id.len() < WARN_SECRET_ID_CHARS).then(|| {
        format!(
            "a secret id of less than {WARN_SECRET_ID_CHARS} characters may be guessed; choose a \
             longer secret id"
        )
    });
    Ok(answer.warn(warning))
}

fn add(host: &dyn Host, call: &Call, role: &Role, secret_id: &str) -> Result<Answer, Failure> {
    if !role.bind_secret_id {
        return Err(Failure::invalid(
            "bind_secret_id is not set on the role: logins need no secret id",
        ));
    }
    let place = SecretIdKey::of_new(host, role, secret_id)?;
    place.make_free(host)?;
    let (added, warning) = properties(host, call, role)?;
    place.add(host, &added)?;
    let answer = Answer::data(&json!({
        "secret_id": secret_id,
        "secret_id_accessor": added.accessor,
        "secret_id_ttl": added.ttl,
        "secret_id_num_uses": added.num_uses,
    }))?;
    Ok(answer.warn(warning))
}

/// Returns the properties of a new secret id by the fields of the call, within the settings of the
/// role and the limits of the mount; and a warning if a limit shortens its lifetime.
fn properties(
    host: &dyn Host,
    call: &Call,
    role: &Role,
) -> Result<(SecretId, Option<String>), Failure> {
    let cidr_list = networks::given(call, "cidr_list")?;
    networks::check_within("cidr_list", &cidr_list, &role.secret_id_bound_cidrs)?;
    let token_bound_cidrs = networks::given(call, "token_bound_cidrs")?;
    let of_role = &role.token.token_bound_cidrs;
    networks::check_within("token_bound_cidrs", &token_bound_cidrs, of_role)?;
    let num_uses = within(call, "num_uses", role.secret_id_num_uses)?;
    let wanted = within(call, "ttl", role.secret_id_ttl)?;
    let max = call.mount.max_ttl;
    let ttl = if max > 0 { wanted.min(max) } else { wanted };
    let warning = (ttl < wanted).then(|| {
        let (ttl, wanted) = (duration::show(ttl), duration::show(wanted));
        format!("the secret id lives for {ttl}, the mount's maximum, instead of {wanted}")
    });
    let now = host.clock().now();
    let secret_id = SecretId {
        accessor: uuid::random(host),
        num_uses,
        ttl,
        created: now,
        updated: now,
        expires: (ttl > 0).then(|| now.saturating_add(ttl.saturating_mul(1_000))),
        metadata: metadata::given(call)?,
        cidr_list,
        token_bound_cidrs,
    };
    Ok((secret_id, warning))
}

/// Returns a limit of the call, or the limit of the role. 0 means without limit; the limit of the
/// role cannot be exceeded.
fn within(call: &Call, name: &str, of_role: u64) -> Result<u64, Failure> {
    let mut wanted = of_role;
    call.merge(name, &mut wanted)?;
    if of_role > 0 && (wanted == 0 || wanted > of_role) {
        return Err(Failure::invalid(format!(
            "{name} cannot be {wanted}{}: the role's secret_id_{name} is {of_role}; give 1 to \
             {of_role}, or change the role",
            if wanted == 0 { ", which is without limit" } else { "" }
        )));
    }
    Ok(wanted)
}

/// Lists the accessors of the role.
pub(crate) fn list(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let (_, role) = Role::named(host, call)?;
    let prefix = secret_id::accessors(&role.id);
    let mut keys: Vec<String> = Vec::new();
    loop {
        let after = keys.last().map(String::as_str).unwrap_or_default();
        let page = host.storage().keys(&prefix, after, PAGE)?;
        if page.is_empty() {
            break;
        }
        keys.extend(page);
    }
    match keys.is_empty() {
        true => Err(Failure::absent()),
        false => Answer::data(&json!({ "keys": keys })),
    }
}

/// Shows the properties of a secret id; nothing if the role has no such secret id.
pub(crate) fn look_up(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let (_, role) = Role::named(host, call)?;
    let place = SecretIdKey::of(host, &role, call.text("secret_id"))?;
    let found = place.map(|place| place.live(host)).transpose()?.flatten();
    found.map_or_else(|| Ok(Answer::nothing()), |found| Answer::data(&found.shown()))
}

/// Removes a secret id. Succeeds if the role has no such secret id.
pub(crate) fn destroy(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let (_, role) = Role::named(host, call)?;
    if let Some(place) = SecretIdKey::of(host, &role, call.text("secret_id"))?
        && let Some(found) = place.live(host)?
    {
        place.remove(host, &found)?;
    }
    Ok(Answer::nothing())
}

/// Shows the properties of the secret id with an accessor.
pub(crate) fn look_up_accessor(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let (_, role) = Role::named(host, call)?;
    let (_, found) = by_accessor(host, call, &role)?;
    Answer::data(&found.shown())
}

/// Removes the secret id with an accessor.
pub(crate) fn destroy_accessor(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let (_, role) = Role::named(host, call)?;
    let (place, found) = by_accessor(host, call, &role)?;
    place.remove(host, &found)?;
    Ok(Answer::nothing())
}

fn by_accessor<'a>(
    host: &dyn Host,
    call: &Call,
    role: &'a Role,
) -> Result<(SecretIdKey<'a>, SecretId), Failure> {
    if let Some(place) = SecretIdKey::of_accessor(host, role, call.text("secret_id_accessor"))?
        && let Some(found) = place.live(host)?
    {
        return Ok((place, found));
    }
    let role = quoted(name_in_path(call)?);
    let message =
        format!("role {role} has no secret id with this secret_id_accessor; list secret-id");
    Err(Failure::new(FailureKind::NotFound, message))
}

#[cfg(test)]
mod tests;

//! `static-creds/{name}`: the present credential of a static role's account. A read changes
//! nothing.
//!
//! This file prevents an answer with a password that the database refused.

use crate::connection;
use crate::static_account;
use crate::static_role::{CredentialProof, StaticRole};
use crate::unfinished::UnfinishedChange;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Answer, Call, Failure, FailureKind, Host};
use serde_json::json;

/// Shows the credential and the time until the next rotation.
pub(crate) fn read(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let (name, mount) = (call.text("name"), &call.mount.path);
    let unknown = || {
        let shown = quoted(name);
        Failure::invalid(format!(
            "unknown role: {shown} is not a static role; write {mount}static-roles/{name} first"
        ))
    };
    let role = StaticRole::find(host, name)?.ok_or_else(unknown)?;
    connection::check_admission(host, &role.db_name, name, mount)?;
    let unfinished = UnfinishedChange::find(host, &static_account::key(name))?;
    refuse_dead(name, &role, unfinished.as_ref())?;
    let mut shown = role.held.show();
    shown.insert("username".to_owned(), json!(role.username));
    shown.insert("ttl".to_owned(), json!(role.times.ttl(host.clock().now())));
    shown.extend(role.rotation.show_chosen());
    shown.extend(role.times.show_last());
    let unfinished = unfinished.filter(|change| !change.cause.is_empty()).map(|change| {
        format!(
            "a rotation of static role {} is not finished, so another password may be in force; \
             the last attempt failed: {}",
            quoted(name),
            change.cause
        )
    });
    Ok(Answer::data(&shown)?.warn(role.doubt()).warn(unfinished))
}

/// Refuses to show a credential that the database refused as wrong.
fn refuse_dead(
    name: &str,
    role: &StaticRole,
    unfinished: Option<&UnfinishedChange>,
) -> Result<(), Failure> {
    let dead = unfinished.filter(|change| change.is_dead);
    let (name, user) = (quoted(name), quoted(&role.username));
    let message = match (dead, role.proof) {
        (Some(change), _) => format!(
            "no password of user {user} is known to work: the database refuses the stored \
             password, and the background rotation of static role {name} failed: {}. Correct the \
             cause, or change rotation_statements, and ask again",
            change.cause
        ),
        (None, CredentialProof::Refused) => role.doubt().unwrap_or_default(),
        (None, CredentialProof::Verified | CredentialProof::Unverified) => return Ok(()),
    };
    Err(Failure::new(FailureKind::Unavailable, message))
}

#[cfg(test)]
mod tests;

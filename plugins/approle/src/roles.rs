//! `role/{role_name}` and its role id.

use crate::role::{self, Role, name_in_path};
use crate::tidy;
use bulkhead_sdk::table::Field;
use bulkhead_sdk::{Answer, Call, Failure, Host};
use serde_json::json;

/// The field of `role/{role_name}/role-id`.
pub(crate) const ID: &[Field] = &[Field::text("role_id", "the role id").required()];

/// Creates or changes a role; absent fields keep their values.
pub(crate) fn write(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let name = name_in_path(call)?;
    let before = Role::find(host, name)?;
    let mut role = match before {
        Some(role) => keep_local(call, role)?,
        None => Role { local_secret_ids: call.flag("local_secret_ids"), ..Role::new(host) },
    };
    role.merge(call)?;
    if !call.text("role_id").is_empty() {
        role.release_id(host)?;
        role.role_id = call.text("role_id").to_owned();
    }
    role.store(host, name)?;
    Ok(Answer::nothing().warn(role.token.warnings(&call.mount)))
}

/// Refuses a change of a setting that only the creation of a role sets.
fn keep_local(call: &Call, role: Role) -> Result<Role, Failure> {
    let changes =
        call.is_given("local_secret_ids") && call.flag("local_secret_ids") != role.local_secret_ids;
    match changes {
        false => Ok(role),
        true => Err(Failure::invalid(
            "local_secret_ids can only be set when the role is created; remove the role first",
        )),
    }
}

/// Shows a role.
pub(crate) fn read(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let role = Role::find(host, name_in_path(call)?)?.ok_or_else(Failure::absent)?;
    Answer::data(&role.shown())
}

/// Removes a role. Its secret ids prove nothing from now on, because their keys hold the id of the
/// role; a timer removes them.
pub(crate) fn delete(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let name = name_in_path(call)?;
    if let Some(role) = Role::find(host, name)? {
        role.release_id(host)?;
        host.storage().delete(&role::key(name))?;
        tidy::remove_all(host, &role.id)?;
    }
    Ok(Answer::nothing())
}

/// Shows the role id.
pub(crate) fn read_id(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let role = Role::find(host, name_in_path(call)?)?.ok_or_else(Failure::absent)?;
    Answer::data(&json!({ "role_id": role.role_id }))
}

/// Changes the role id.
pub(crate) fn write_id(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let (name, mut role) = Role::named(host, call)?;
    role.release_id(host)?;
    role.role_id = call.text("role_id").to_owned();
    role.store(host, name)?;
    Ok(Answer::nothing())
}

#[cfg(test)]
mod tests;

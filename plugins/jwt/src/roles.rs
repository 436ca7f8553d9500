//! `role/{name}`.

use crate::role::{self, Role};
use bulkhead_sdk::{Answer, Call, Failure, Host};

/// Creates or changes a role; absent fields keep their values.
pub(crate) fn write(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let name = name_in_path(call)?;
    let mut role = Role::find(host, name)?.unwrap_or_else(|| Role::new(host));
    role.merge(call)?;
    host.storage().put(&role::key(name), &role)?;
    Ok(Answer::nothing().warn(role.warnings(call)))
}

/// Shows a role.
pub(crate) fn read(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let role = Role::find(host, name_in_path(call)?)?.ok_or_else(Failure::absent)?;
    Answer::data(&role.shown())
}

/// Removes a role.
pub(crate) fn delete(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    host.storage().delete(&role::key(name_in_path(call)?))?;
    Ok(Answer::nothing())
}

/// Returns the role name in the path (decision J2).
///
/// # Errors
/// As [`Call::lower_case_name`].
fn name_in_path(call: &Call) -> Result<&str, Failure> {
    call.lower_case_name("name", "roles")
}

#[cfg(test)]
mod tests;

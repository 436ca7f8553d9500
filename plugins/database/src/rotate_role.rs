//! `rotate-role/{name}`: changes the credential of a static role now, even if no rotation is due.

use crate::static_role::StaticRole;
use crate::static_rotation;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Answer, Call, Failure, Host};

/// Rotates the credential. The role's rotation period starts again now; a rotation schedule stays
/// as before.
pub(crate) fn write(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let (name, mount) = (call.text("name"), &call.mount.path);
    let unknown = || {
        let shown = quoted(name);
        Failure::invalid(format!(
            "no static role found for role name {shown}; write {mount}static-roles/{name} first"
        ))
    };
    let role = StaticRole::find(host, name)?.ok_or_else(unknown)?;
    let connection = role.connection(host, name, mount)?;
    static_rotation::refuse_open(host, name)?;
    let proof = static_rotation::rotate(host, name, &role, &connection).map_err(|why| {
        let message = format!(
            "unable to finish rotating credentials; retries will continue in the background but it \
             is also safe to retry manually: {}",
            why.message
        );
        Failure { message, ..why }
    })?;
    Ok(Answer::nothing().warn(StaticRole { proof, ..role }.doubt()))
}

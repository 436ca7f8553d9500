//! `rotate-root/{name}`: changes the password of a connection's own user now. No read ever shows
//! the password.

use crate::connection::Connection;
use crate::root_rotation;
use bulkhead_sdk::{Answer, Call, Failure, Host};

/// Rotates the password. The connection's rotation period starts again now.
pub(crate) fn write(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let name = call.text("name");
    let connection = Connection::named(host, name, &call.mount.path)?;
    root_rotation::refuse_open(host, name)?;
    Ok(Answer::nothing().warn(root_rotation::rotate(host, name, &connection)?))
}

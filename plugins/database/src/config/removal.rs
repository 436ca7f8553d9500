//! `DELETE config/{name}`: removal of a connection.
//!
//! This file prevents the removal of the only copy of a password. After a rotation, only the engine
//! knows the password of the connection's own user. Without that password, no operator could write
//! the connection again for the leases that wait for the connection. A rotation that is not
//! finished may have changed the password, too.

use crate::connection::Connection;
use crate::root_rotation;
use crate::static_role;
use bulkhead_sdk::table::Field;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Answer, Call, Failure, Host};

/// Maximum number of static roles that the warning counts.
const MOST_COUNTED: u32 = 1_000;

/// Fields of a removal.
pub(crate) const FIELDS: &[Field] = &[Field::flag(
    "force",
    "remove the connection although only the engine knows the user's password",
)];

/// Removes a connection. The connection's roles and leases stay, because the operator may be about
/// to write the connection again.
///
/// # Errors
/// Invalid request if only the engine knows the password, unless `force` is given.
pub(crate) fn delete(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let name = call.text("name");
    let connection = Connection::find(host, name)?;
    let is_changing = root_rotation::is_open(host, name)?;
    let own = connection.filter(|connection| connection.has_own_password || is_changing);
    let lost = own.map(|connection| only_copy(&connection, name, &call.mount.path));
    if let (Some(lost), false) = (&lost, call.flag("force")) {
        return Err(Failure::invalid(format!("{lost}, or remove the connection with force=true")));
    }
    let live = host.leases().count(name)?;
    let accounts = host.storage().keys(&static_role::accounts(name), "", MOST_COUNTED)?.len();
    Connection::remove(host, name)?;
    host.databases().release(name)?;
    host.databases().close(name);
    let stranded = (live > 0).then(|| {
        format!(
            "leases that still need connection {name:?}: {live}; until {}config/{name} is written \
             again, the leases can be neither renewed nor revoked",
            call.mount.path
        )
    });
    let unrotated = (accounts > 0).then(|| {
        let name = quoted(name);
        format!("static roles that still need connection {name}, now waiting: {accounts}")
    });
    Ok(Answer::nothing().warn(lost).warn(stranded).warn(unrotated))
}

fn only_copy(connection: &Connection, name: &str, mount: &str) -> String {
    let user = quoted(connection.setting("username"));
    let shown = quoted(name);
    format!(
        "only the engine knows the password of user {user} of connection {shown}, since a \
         rotation: give the user another password in the database, and write the password to \
         {mount}config/{name}"
    )
}

#[cfg(test)]
mod tests {
    use crate::fixture::{account_with, ready};
    use bulkhead_sdk::FailureKind;
    use serde_json::json;

    #[test]
    fn only_copy_of_password_is_not_removed() {
        let bed = ready();
        account_with(&bed, "orders", ("root", "hunter2-of-root"));
        bed.write("rotate-root/orders", &json!({})).unwrap();
        let refused = bed.delete("config/orders").err().unwrap();
        assert_eq!(refused.kind, FailureKind::InvalidRequest);
        for word in ["only the engine", "\"root\"", "force=true"] {
            assert!(refused.message.contains(word), "{}", refused.message);
        }
        assert!(bed.host.stored("config/orders").is_some(), "a refusal changes nothing");
        bed.write("config/orders", &json!({"max_open_connections": 7})).unwrap();
        assert!(bed.delete("config/orders").is_err(), "a connection with the same password stays");
        account_with(&bed, "orders", ("root", "of-the-operator"));
        bed.write("config/orders", &json!({"password": "of-the-operator"})).unwrap();
        assert!(bed.delete("config/orders").unwrap().warnings.is_empty());
    }
}

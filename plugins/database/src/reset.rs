//! `reset/{name}`: closes a connection's sessions and starts again with the stored settings, and
//! with the version that pins and settings choose now.
//!
//! The attack that this file prevents: a caller who rotates the connection's password without a
//! pause makes every reset fail. The login takes longer than the pause between two rotations, and a
//! unit of work that also read the connection would conflict with each of them.

use crate::connection::{Connection, about};
use bulkhead_sdk::{Answer, Call, Failure, Host};

/// Chooses the version again and closes the sessions. Then logs in to the database, if the
/// connection is a verified connection.
pub(crate) fn write(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let name = call.text("name");
    let connection = Connection::named(host, name, &call.mount.path)?;
    // The login may use a connection that has changed: the host replaces a password that a rotation
    // changed meanwhile. The choice of the version is stored only after a successful login.
    host.storage().checkpoint()?;
    let mut warning = connection.choose_again(host, name);
    host.databases().close(name);
    if connection.is_verified() {
        // The write of the connection already reported any rights that the user lacks.
        host.databases().verify(&connection.for_host(name)).map_err(|why| about(name, why))?;
    }
    // No version is stored for a connection that was removed meanwhile, and no other version than
    // the version that a write of the connection chose meanwhile.
    let now = Connection::named(host, name, &call.mount.path)?;
    if now.chooses_otherwise(&connection) {
        warning = now.choose_again(host, name);
    }
    Ok(Answer::nothing().warn(warning))
}

#[cfg(test)]
mod tests {
    use crate::fixture::{empty, ready};
    use bulkhead_sdk::{Failure, FailureKind};
    use serde_json::json;

    #[test]
    fn reset_closes_sessions_and_tries_login_anew() {
        let bed = ready();
        assert!(bed.write("reset/orders", &json!({})).unwrap().warnings.is_empty());
        assert_eq!(bed.host.steps(), ["checkpoint", "close orders", "verify orders"]);
    }

    #[test]
    fn reset_only_closes_unverified_connection() {
        let bed = ready();
        bed.write("config/orders", &json!({"verify_connection": false})).unwrap();
        bed.host.steps();
        bed.write("reset/orders", &json!({})).unwrap();
        assert_eq!(bed.host.steps(), ["checkpoint", "close orders"]);
    }

    #[test]
    fn reset_names_unreachable_database_with_connection() {
        let bed = ready();
        bed.host.refuse("verify", Failure::new(FailureKind::Unreachable, "no answer from db:5432"));
        let refused = bed.write("reset/orders", &json!({})).err().unwrap();
        assert_eq!(refused.kind, FailureKind::Unreachable);
        assert_eq!(refused.message, "connection \"orders\": no answer from db:5432");
    }

    #[test]
    fn reset_chooses_version_again_or_keeps_with_warning() {
        let bed = ready();
        bed.host.add_version("2.0.0");
        assert!(bed.write("reset/orders", &json!({})).unwrap().warnings.is_empty());
        assert_eq!(bed.host.chosen_version("orders").unwrap(), "2.0.0");
        bed.host.refuse("choose", Failure::invalid("version 1.0.0 is pinned"));
        let reply = bed.write("reset/orders", &json!({})).unwrap();
        assert_eq!(
            reply.warnings,
            ["connection \"orders\": version 1.0.0 is pinned; the version stays"]
        );
    }

    #[test]
    fn an_unknown_connection_is_the_callers_mistake() {
        let refused = empty().write("reset/orders", &json!({})).err().unwrap();
        assert_eq!(refused.kind, FailureKind::InvalidRequest);
        assert_eq!(
            refused.message,
            "there is no connection \"orders\"; write database/config/orders first"
        );
    }
}

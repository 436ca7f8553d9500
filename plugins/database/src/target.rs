//! Targets: the servers on which the user of a lease was created, and the check that a connection
//! still leads to one of these servers.
//!
//! This file prevents revocation at the wrong server, after a connection was pointed to another
//! server while leases live. The other server may have no user of that name: the user would count
//! as removed, and the credential would stay valid on the first server. Or the other server may
//! have a different user of the same name.
//!
//! A target is a server, named by the connection's plugin. A connection that moves to another
//! database of the same server still reaches the user. If the user cannot be removed from that
//! database, the server refuses the removal and the lease stays.

use crate::connection::Connection;
use bulkhead_sdk::destination::has_another;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Failure, FailureKind, Host};

/// Milliseconds until the next check that the connection leads back to the user's server.
const RETRY: u64 = 60_000;

/// Returns `true` if a connection to `now` reaches a user created at `origin`. A single common
/// server is enough, because all servers of a connection belong to the same database. Returns
/// `true` if either list is empty: an earlier release stored the lease, or the plugin names no
/// targets.
pub(crate) fn reaches(now: &[String], origin: &[String]) -> bool {
    let is_known = |target: &String| origin.iter().any(|other| other.eq_ignore_ascii_case(target));
    origin.is_empty() || now.is_empty() || now.iter().any(is_known)
}

/// Returns `true` if a connection to `now` sends a credential for `former` to no other server. An
/// empty `former` comes from an earlier release and gives `true`.
pub(crate) fn keeps(former: &[String], now: &[String]) -> bool {
    let leads_elsewhere =
        has_another(former.iter().map(String::as_str), now.iter().map(String::as_str));
    former.is_empty() || !leads_elsewhere
}

/// Refuses a connection that leads to no server where `username` was created. The error is retried,
/// because the user can be reached again after the operator writes the earlier address back.
pub(crate) fn check(
    host: &dyn Host,
    connection: &Connection,
    name: &str,
    username: &str,
    origin: &[String],
) -> Result<(), Failure> {
    let now = connection.targets(host, name)?;
    if reaches(&now, origin) {
        return Ok(());
    }
    let (user, shown, origin, now) =
        (quoted(username), quoted(name), origin.join(", "), now.join(", "));
    let message = format!(
        "user {user} was made at {origin}, and connection {shown} leads to {now} now; write \
         config/{name} with the former server, or give the lease up with sys/leases/revoke-force"
    );
    // With `retry_after`, the database does not count as unreachable, and other revocations go on.
    Err(Failure { retry_after: Some(RETRY), ..Failure::new(FailureKind::Unreachable, message) })
}

/// Returns the warning about leases that a write of the connection leaves behind. `before` lists
/// the earlier targets; empty for a new connection.
///
/// # Errors
/// Errors of counting the leases.
pub(crate) fn warning(
    host: &dyn Host,
    name: &str,
    before: &[String],
    now: &[String],
) -> Result<Option<String>, Failure> {
    if !before.is_empty() && reaches(now, before) {
        return Ok(None);
    }
    let live = host.leases().count(name)?;
    let (shown, now) = (quoted(name), now.join(", "));
    let origin = match before {
        [] => "made by an earlier connection of this name".to_owned(),
        before => format!("made at {}", before.join(", ")),
    };
    Ok((live > 0).then(|| {
        format!(
            "connection {shown} leads to {now}, and leases were {origin}: {live}; a user made \
             elsewhere can be neither renewed nor revoked until the connection leads there again, \
             or sys/leases/revoke-force gives the lease up"
        )
    }))
}

#[cfg(test)]
mod tests {
    use super::reaches;

    fn reached(now: &[&str], origin: &[&str]) -> bool {
        let owned = |list: &[&str]| list.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>();
        reaches(&owned(now), &owned(origin))
    }

    #[test]
    fn one_common_server_suffices_and_none_is_elsewhere() {
        assert!(reached(&["postgres://a:5432"], &["postgres://A:5432"]));
        assert!(reached(
            &["postgres://b:1", "postgres://c:1"],
            &["postgres://a:1", "postgres://b:1"]
        ));
        for elsewhere in ["postgres://b:5432", "postgres://a:5433", "mysql://a:5432"] {
            assert!(!reached(&[elsewhere], &["postgres://a:5432"]), "{elsewhere}");
        }
        assert!(reached(&["postgres://a:1"], &[]), "a lease of an earlier release");
    }
}

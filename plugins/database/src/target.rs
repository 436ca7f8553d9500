//! Where users are: what a lease remembers of the servers on which its user was made, and whether a
//! connection still leads to one of them.
//!
//! The attack this file stops: a connection that is pointed at another server while leases live.
//! There, no user of the lease's name is found, which counts as removed, and the credential lives
//! on where it was made; or a user of the same name is found, which is another one.
//!
//! A target is a server, as the connection's plugin names it to the host. A connection that moves
//! to another database of the same server still reaches the user: where it cannot remove it from
//! there, the server refuses, and the lease stays.

use crate::connection::Connection;
use bulkhead_sdk::destination::has_another;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Failure, Host, Kind};

/// Milliseconds after which it is looked at again whether the connection leads back.
const RETRY: u64 = 60_000;

/// Whether a connection to `now` reaches what was made at `made`: one server is enough, because
/// those of one connection are one database. Where nothing is known of either, by a lease of an
/// earlier release or a plugin that names no targets, it does.
pub(crate) fn reaches(now: &[String], made: &[String]) -> bool {
    let is_known = |target: &String| made.iter().any(|other| other.eq_ignore_ascii_case(target));
    made.is_empty() || now.is_empty() || now.iter().any(is_known)
}

/// Whether a connection to `now` sends a credential that is for `known` to no other server. Where
/// nothing is known of it, an earlier release stored it.
pub(crate) fn keeps(known: &[String], now: &[String]) -> bool {
    let leads_elsewhere =
        has_another(known.iter().map(String::as_str), now.iter().map(String::as_str));
    known.is_empty() || !leads_elsewhere
}

/// Refuses a connection that leads elsewhere than to where `username` was made. A kind that is
/// tried again: once the connection is written back, the user can be reached.
pub(crate) fn check(
    host: &dyn Host,
    connection: &Connection,
    name: &str,
    username: &str,
    made: &[String],
) -> Result<(), Failure> {
    let now = connection.targets(host, name)?;
    if reaches(&now, made) {
        return Ok(());
    }
    let (user, shown, made, now) =
        (quoted(username), quoted(name), made.join(", "), now.join(", "));
    let message = format!(
        "user {user} was made at {made}, and connection {shown} leads to {now} now; write \
         config/{name} so that it leads there again, or give the lease up with \
         sys/leases/revoke-force"
    );
    // No silence of the database: what it has to end elsewhere must not keep back the rest.
    Err(Failure { retry_after: Some(RETRY), ..Failure::new(Kind::Unreachable, message) })
}

/// What a write of a connection says of the leases that its change leaves behind. `before` is where
/// the connection led; nothing where it is new.
///
/// # Errors
/// Those of counting the leases.
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
    let whose = match before {
        [] => "made by an earlier connection of this name".to_owned(),
        before => format!("made while it led to {}", before.join(", ")),
    };
    Ok((live > 0).then(|| {
        format!(
            "connection {shown} leads to {now}, and leases were {whose}: {live}; a user that was \
             made elsewhere can be neither renewed nor revoked until the connection leads there \
             again, or sys/leases/revoke-force gives the lease up"
        )
    }))
}

#[cfg(test)]
mod tests {
    use super::reaches;

    fn reached(now: &[&str], made: &[&str]) -> bool {
        let owned = |list: &[&str]| list.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>();
        reaches(&owned(now), &owned(made))
    }

    #[test]
    fn one_server_in_common_is_enough_and_none_is_elsewhere() {
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

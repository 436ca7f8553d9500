//! The password that a rotation made, when a write of the connection replaces the password or leads
//! elsewhere.
//!
//! This file prevents the loss of the only copy of a password: after `rotate-root`, a write with
//! the first password, as a tool sends it that writes every field at each change, would otherwise
//! replace the password that works.

use crate::connection::{Connection, PASSWORD, about};
use crate::login_place::LoginPlace;
use bulkhead_sdk::database_plugin::Credential;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Call, Failure, Host};

/// The password that a rotation made, after a write of the connection.
pub(crate) enum KeptPassword {
    /// The password is not kept: the write does not replace it, or another one has logged in.
    No,
    /// The password is kept, with a warning for the operator. Nothing tries the password before a
    /// later write, because the database refused it now, and refused logins lock accounts.
    ForLaterWrites(String),
    /// The password is kept, with a warning for the operator, and is to be tried soon.
    ForTrial(String),
}

impl KeptPassword {
    /// Returns the warning for the operator.
    pub(crate) fn warning(self) -> Option<String> {
        match self {
            Self::No => None,
            Self::ForLaterWrites(warning) | Self::ForTrial(warning) => Some(warning),
        }
    }
}

/// Decides whether a write of the connection `name` may replace the password that a rotation made.
/// `before` is the stored connection and `after` the one to be stored.
///
/// # Errors
/// Invalid request if the given password does not log in and the password of the rotation does.
pub(crate) fn check_replacement(
    host: &dyn Host,
    call: &Call,
    name: &str,
    (before, after): (&Connection, &Connection),
) -> Result<KeptPassword, Failure> {
    let former = before.setting(PASSWORD);
    let is_forced = call.flag("force");
    if !before.has_own_password && !is_forced {
        return Ok(KeptPassword::No);
    }
    let place = |connection| LoginPlace::of(host, name, connection);
    let (old, new) = (place(before)?, place(after)?);
    let user = quoted(before.setting("username"));
    if before.has_own_password && old != new {
        old.keep(host, former)?;
        return Ok(KeptPassword::ForTrial(format!(
            "the password made by a rotation for user {user} is kept for the former servers and \
             settings of connection {}; a write back to these uses the kept password instead of \
             the given password",
            quoted(name)
        )));
    }
    if is_forced {
        return new.kept(host)?.forget().map(|()| KeptPassword::No);
    }
    if former == after.setting(PASSWORD) {
        return Ok(KeptPassword::No);
    }
    let logs_in = |password: &str| logs_in(host, name, after, password);
    match (logs_in(after.setting(PASSWORD)), logs_in(former)) {
        (Ok(Some(true)), Ok(Some(true))) => {
            new.keep(host, former)?;
            Ok(KeptPassword::ForLaterWrites(format!(
                "the database accepts user {user} with the given password and with the password \
                 made by a rotation, so neither is proven; the password of the rotation is kept"
            )))
        }
        (Ok(Some(true)), _) => new.kept(host)?.forget().map(|()| KeptPassword::No),
        (Ok(Some(false)), Ok(Some(true))) => Err(Failure::invalid(format!(
            "password is not the present password of user {user}, and the password made by a \
             rotation is: leave password out, or replace the working password with force=true"
        ))),
        (Ok(Some(false)), Ok(Some(false))) => {
            new.keep(host, former)?;
            Ok(KeptPassword::ForLaterWrites(format!(
                "the database refuses user {user} with the given password and with the password \
                 made by a rotation; write config/{name} with the password in force"
            )))
        }
        _ => {
            new.keep(host, former)?;
            Ok(KeptPassword::ForTrial(format!(
                "the given password of user {user} could not be proven; the password made by a \
                 rotation is kept, and the engine uses the working password of the two"
            )))
        }
    }
}

/// Asks if the connection's own user logs in with `password`. `None`: the database cannot tell.
///
/// # Errors
/// Errors of the plugin and the database, with the name of the connection.
pub(crate) fn logs_in(
    host: &dyn Host,
    name: &str,
    connection: &Connection,
    password: &str,
) -> Result<Option<bool>, Failure> {
    let credential = Credential::Password(password.to_owned());
    let (called, user) = (connection.for_host(name), connection.setting("username"));
    let answer = host.databases().check_credential(&called, user, &credential);
    answer.map_err(|why| about(name, why))
}

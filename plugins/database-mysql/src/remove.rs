//! Removes a user at every host that it has an account for, and ends its sessions.
//!
//! The attack this file stops: a session that outlasts `DROP USER`, as they all do. A user that is
//! gone is success, because backups and people remove users too.

use crate::accounts::{self, ANY_HOST, NO_ACCOUNT, account};
use crate::run::run;
use crate::settings::Connection;
use crate::sql_failure;
use bulkhead_sdk::connection::Denial;
use bulkhead_sdk::database_plugin::{Refusal, SqlFailure, SqlHost, Statement};
use bulkhead_sdk::statements::{self, Dialect, Values};

/// Numbers of a grant that is not there, and of an account.
const GONE: [&str; 5] = ["1133", "1141", "1147", "1396", "3162"];

/// The sessions of a user, oldest first; what is more is ended by the next attempt.
const SESSIONS: &str = "SELECT CAST(ID AS CHAR) FROM information_schema.PROCESSLIST WHERE USER = ? \
                        ORDER BY 1 LIMIT 1000";

/// Removes `username` with the operator's statements, or with the plugin's own where there are
/// none.
pub(crate) fn delete(
    host: &dyn SqlHost,
    connection: &Connection,
    username: &str,
    given: &[String],
) -> Result<(), Refusal> {
    if username == connection.target.username {
        return Err(Denial::ConnectionUser.refusal());
    }
    let values = Values { username, password: None, subject: None, expiration: None };
    let prepared = statements::prepare(Dialect::Mysql, given, &values)?;
    let refused = |failure| sql_failure::refusal(failure, &connection.target);
    let mut hosts = accounts::hosts(host, connection, username).map_err(refused)?;
    if prepared.is_empty() {
        // Also where there is none yet: a creation whose answer was lost may still be under way,
        // and the server lets one statement about accounts wait for the other.
        if !hosts.iter().any(|host| host == ANY_HOST) {
            hosts.push(ANY_HOST.to_owned());
        }
        drop_accounts(host, connection, username, &hosts).map_err(refused)?;
    } else {
        // The operator's statements may clean up more than the user.
        match run(host, &connection.target, prepared) {
            Err(failure) if hosts.is_empty() && sql_failure::has_number(&failure, &GONE) => {}
            other => other.map_err(refused)?,
        }
    }
    end_sessions(host, connection, username).map_err(refused)
}

/// Each account by itself, so that one that is gone does not keep the others.
fn drop_accounts(
    host: &dyn SqlHost,
    connection: &Connection,
    username: &str,
    hosts: &[String],
) -> Result<(), SqlFailure> {
    for from in hosts {
        let text = format!("DROP USER {}", account(username, from));
        match host.transact(&connection.target, &[Statement::plain(text)]) {
            Err(failure) if sql_failure::has_number(&failure, &NO_ACCOUNT) => {}
            dropped => dropped?,
        }
    }
    Ok(())
}

/// As far as the connection's user may see and end them; a session that ends meanwhile is ended.
fn end_sessions(
    host: &dyn SqlHost,
    connection: &Connection,
    username: &str,
) -> Result<(), SqlFailure> {
    let found = match host.query(&connection.target, SESSIONS, &[username]) {
        Err(failure) if failure.code == "statement-failed" => return Ok(()),
        found => found?,
    };
    let sessions = found.into_iter().filter_map(|row| row.into_iter().next().flatten());
    for session in sessions.filter(|number| number.bytes().all(|byte| byte.is_ascii_digit())) {
        let kill = Statement::plain(format!("KILL CONNECTION {session}"));
        match host.execute(&connection.target, &kill) {
            Err(failure) if failure.code == "statement-failed" => {}
            ended => ended?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;

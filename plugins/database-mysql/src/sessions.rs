//! The open sessions of a user, which outlast its accounts.
//!
//! Prevents a session that goes on unseen: without the right to see the sessions of others, the
//! server answers that there are none. So the question is asked together with one that the server
//! refuses without that right.

use crate::codes::Code;
use crate::settings::Connection;
use crate::sql_failure;
use bulkhead_sdk::database_plugin::{Refusal, SqlFailure, SqlHost, Statement};

/// Most sessions that one attempt ends.
const MOST: usize = 1000;

/// Number of a right on the whole server that the user lacks.
pub(crate) const DENIED: &str = "1227";

/// Number of a session that is gone.
const NO_SESSION: &str = "1094";

/// The sessions of a user, oldest first. The table of the condition is a small one, of which rows
/// are counted for PROCESS alone.
const SESSIONS: &str = "SELECT CAST(ID AS CHAR) FROM information_schema.PROCESSLIST WHERE USER = ? \
                        AND (SELECT COUNT(*) FROM information_schema.INNODB_CMP) >= 0 \
                        ORDER BY 1 LIMIT 1000";

/// Ends all sessions of `username`.
///
/// # Errors
/// A refusal where the connection's user may not see or end them; a conflict where more were open
/// than one attempt ends.
pub(crate) fn end(
    host: &dyn SqlHost,
    connection: &Connection,
    username: &str,
) -> Result<(), Refusal> {
    let target = &connection.target;
    let refused = |failure| sql_failure::refusal(failure, target);
    let rows = host.query(target, SESSIONS, &[username]).map_err(|failure| {
        if sql_failure::has_number(&failure, &[DENIED]) {
            return about(Code::SessionsUnseen, connection, failure);
        }
        refused(failure)
    })?;
    let is_all = rows.len() < MOST;
    let sessions = rows.into_iter().filter_map(|row| row.into_iter().next().flatten());
    for session in sessions.filter(|number| number.bytes().all(|byte| byte.is_ascii_digit())) {
        let kill = Statement::plain(format!("KILL CONNECTION {session}"));
        match host.execute(target, &kill) {
            Err(failure) if sql_failure::has_number(&failure, &[NO_SESSION]) => {}
            Err(failure) if failure.code == "statement-failed" => {
                return Err(about(Code::SessionsRemain, connection, failure));
            }
            ended => ended.map_err(refused)?,
        }
    }
    if is_all {
        Ok(())
    } else {
        Err(Code::Conflict.refusal().with("what", "more than 1000 sessions"))
    }
}

/// A refusal by that code, with the server's number and the connection's user.
pub(crate) fn about(code: Code, connection: &Connection, failure: SqlFailure) -> Refusal {
    let refusal = code.refusal().with("user", &connection.target.username);
    Refusal { vendor_code: failure.sqlstate, ..refusal }
}

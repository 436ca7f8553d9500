//! Open sessions of a user, which outlast the removal of the user's accounts.
//!
//! This file prevents an unnoticed open session. Without the right to see the sessions of others,
//! the server answers that there are none; the query therefore also reads a table that the server
//! refuses without this right.

use crate::codes::Code;
use crate::settings::ParsedConnection;
use crate::sql_failure;
use bulkhead_sdk::database_plugin::{Refusal, SqlFailure, SqlHost, Statement};

/// Maximum number of sessions ended by an attempt.
const MOST: usize = 1000;

/// Error number of a missing right on the whole server.
pub(crate) const DENIED: &str = "1227";

/// Error number of a session that no longer exists.
const NO_SESSION: &str = "1094";

/// Query for the sessions of a user, oldest first. The table in the condition is small and readable
/// only with PROCESS.
const SESSIONS: &str = "SELECT CAST(ID AS CHAR) FROM information_schema.PROCESSLIST WHERE USER = ? \
                        AND (SELECT COUNT(*) FROM information_schema.INNODB_CMP) >= 0 \
                        ORDER BY 1 LIMIT 1000";

/// Ends all sessions of `username`.
///
/// # Errors
/// A refusal if the connection's user may not see or end the sessions; a conflict if more sessions
/// were open than an attempt ends.
pub(crate) fn end(
    host: &dyn SqlHost,
    connection: &ParsedConnection,
    username: &str,
) -> Result<(), Refusal> {
    let target = &connection.target;
    let refused = |failure| sql_failure::refusal(failure, target);
    let sessions = host.query_column(target, SESSIONS, &[username]).map_err(|failure| {
        if failure.has_sqlstate(&[DENIED]) {
            return about(Code::SessionsUnseen, connection, failure);
        }
        refused(failure)
    })?;
    let is_all = sessions.len() < MOST;
    let is_number = |text: &&String| text.bytes().all(|byte| byte.is_ascii_digit());
    for session in sessions.iter().filter(is_number) {
        let kill = Statement::plain(format!("KILL CONNECTION {session}"));
        match host.execute(target, &kill) {
            Err(failure) if failure.has_sqlstate(&[NO_SESSION]) => {}
            Err(failure) if failure.code == "statement-failed" => {
                return Err(about(Code::SessionsRemain, connection, failure));
            }
            ended => ended.map_err(refused)?,
        }
    }
    if is_all {
        Ok(())
    } else {
        Err(Code::Conflict.refusal().with("work", "more than 1000 sessions"))
    }
}

/// Returns a refusal with `code`, the server's error number and the connection's user.
pub(crate) fn about(code: Code, connection: &ParsedConnection, failure: SqlFailure) -> Refusal {
    let refusal = code.refusal().with("user", &connection.target.username);
    Refusal { vendor_code: failure.sqlstate, ..refusal }
}

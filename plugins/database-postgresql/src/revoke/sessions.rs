//! Open sessions of a user being removed. Sessions outlast `DROP ROLE` under the user's OID.
//!
//! This file prevents an unnoticed open session: if the server refuses to end sessions, the removal
//! succeeds only if there are none.

use super::{INSUFFICIENT_PRIVILEGE, RoleRemoval, tolerate_refusal};
use crate::codes::Code;
use bulkhead_sdk::database_plugin::{Refusal, SqlFailure, Statement};

/// SQLSTATE of a function that this server does not have.
const UNDEFINED_FUNCTION: &str = "42883";

/// Condition for sessions whose user is gone. It also finds the sessions of a removed user whose
/// OID is unknown.
const ORPHANS: &str = "usesysid IS NOT NULL AND NOT EXISTS (SELECT FROM pg_roles r WHERE r.oid = \
                       usesysid)";

impl RoleRemoval<'_> {
    /// Ends every session of the user and waits for the end, because a session's temporary tables
    /// are objects owned by the user. If the connection's user lacks the right, it becomes a member
    /// of the role, which is sufficient.
    ///
    /// # Errors
    /// A refusal if sessions remain.
    pub(super) fn end_sessions(&self, oid: &str) -> Result<(), Refusal> {
        let whose = of_user(oid);
        let mut ended = self.terminate(&whose);
        if ended.as_ref().is_err_and(|failure| failure.has_sqlstate(&[INSUFFICIENT_PRIVILEGE])) {
            let joined = self.run_alone(format!("GRANT {} TO CURRENT_USER", self.role));
            tolerate_refusal(joined).map_err(|failure| self.refusal(failure))?;
            ended = self.terminate(&whose);
        }
        self.settle(ended, &whose)
    }

    /// Ends sessions whose login was in progress during the removal; the user's OID outlives its
    /// name.
    ///
    /// # Errors
    /// A refusal if sessions remain.
    pub(super) fn end_late_sessions(&self, oid: &str) -> Result<(), Refusal> {
        let whose = of_user(oid);
        self.settle(self.terminate(&whose), &whose)
    }

    /// Ends the sessions of all users that are gone.
    ///
    /// # Errors
    /// A refusal if sessions remain.
    pub(super) fn end_orphans(&self) -> Result<(), Refusal> {
        self.settle(self.terminate(ORPHANS), ORPHANS)
    }

    fn terminate(&self, whose: &str) -> Result<(), SqlFailure> {
        let of_user = format!("FROM pg_stat_activity WHERE {whose} AND pid <> pg_backend_pid()");
        let ask = |call: &str| {
            let text = format!("SELECT {call} {of_user}");
            self.host.execute(&self.connection.target, &Statement::plain(text))
        };
        match ask("pg_terminate_backend(pid, 2000)") {
            // Servers before version 14 cannot wait.
            Err(failure) if failure.has_sqlstate(&[UNDEFINED_FUNCTION]) => {
                ask("pg_terminate_backend(pid)")
            }
            ended => ended,
        }
    }

    /// Ignores the server's refusal to end sessions if no session is open.
    fn settle(&self, ended: Result<(), SqlFailure>, whose: &str) -> Result<(), Refusal> {
        let Err(failure) = ended else { return Ok(()) };
        if !matches!(failure.code.as_str(), "statement-failed" | "conflict") {
            return Err(self.refusal(failure));
        }
        let query = format!(
            "SELECT count(*)::text FROM pg_stat_activity WHERE {whose} AND pid <> pg_backend_pid()"
        );
        let open = self.host.query_column(&self.connection.target, &query, &[]);
        let open = open.map_err(|failure| self.refusal(failure))?;
        if open.first().is_some_and(|count| count == "0") {
            return Ok(());
        }
        let refusal = Code::SessionsRemain.refusal().with("user", &self.connection.target.username);
        Err(Refusal { vendor_code: failure.sqlstate, ..refusal })
    }
}

fn of_user(oid: &str) -> String {
    format!("usesysid = {oid}")
}

//! Removes a user's roles, their sessions and their privileges.
//!
//! This file prevents three faults. Live sessions outlast `DROP ROLE`, so sessions are ended before
//! and after the drop. A user whose removal fails could still log in, so logins are denied first.
//! Objects owned by the user are the operator's data, so no object is ever dropped with its owner.
//! A missing user counts as removed, because backups and people remove users too.
//!
//! A role with a recorded identity is found under another name, and a role of somebody else that
//! has the name now is not touched (see `identity.rs`).

use crate::codes::Code;
use crate::identity::{self, CatalogRole, RoleLocation};
use crate::settings::ParsedConnection;
use crate::sql_failure;
use crate::users::UNDEFINED_OBJECT;
use bulkhead_sdk::connection::Denial;
use bulkhead_sdk::database_plugin::{
    Account, CreatedUser, Refusal, SqlFailure, SqlHost, Statement,
};
use bulkhead_sdk::statements::{self, FilledStatement, PlaceholderValues, SqlDialect};
use bulkhead_sdk::user_statements;

mod drop;
mod sessions;

/// SQLSTATE of a role that already exists.
const DUPLICATE_OBJECT: &str = "42710";

/// SQLSTATE of a role that another transaction created during the statement.
const UNIQUE_VIOLATION: &str = "23505";

/// SQLSTATE of an act that the connection's user may not do.
const INSUFFICIENT_PRIVILEGE: &str = "42501";

/// Query by OID that tells if a user can still log in; no row if the user is gone.
const LOGS_IN: &str = "SELECT rolcanlogin::text FROM pg_roles WHERE oid = $1::oid";

/// SQLSTATE of a check that failed.
const DIVISION_BY_ZERO: &str = "22012";

/// Removes the roles of `user` with the operator's statements, or with the plugin's own statements
/// if there are none.
pub(crate) fn delete(
    host: &dyn SqlHost,
    connection: &ParsedConnection,
    user: &CreatedUser,
    operator_statements: &[String],
) -> Result<(), Refusal> {
    if user.username == connection.target.username {
        return Err(Denial::ConnectionUser.refusal());
    }
    let named = [Account::named(&user.username)];
    let accounts = if user.accounts.is_empty() { &named[..] } else { &user.accounts };
    let removal = |account| RoleRemoval::begin(host, connection, account);
    let mut roles = accounts.iter().map(removal).collect::<Result<Vec<_>, _>>()?;
    if roles.iter().any(|role| role.name == connection.target.username) {
        return Err(Denial::ConnectionUser.refusal());
    }
    let is_main = |role: &RoleRemoval<'_>| role.recorded == user.username;
    let main = roles.iter().position(is_main).unwrap_or_default();
    roles.rotate_left(main);
    let username = roles.first().map_or(user.username.as_str(), |role| &role.name);
    let values = PlaceholderValues::named(username);
    match statements::prepare(SqlDialect::Postgres, operator_statements, &values) {
        Err(fault) => {
            shut_all_out(&roles)?;
            Err(fault.into())
        }
        Ok(statements) if statements.is_empty() => {
            // One role that stays must not keep the others.
            let removed: Vec<_> = roles.iter().map(RoleRemoval::remove_alone).collect();
            removed.into_iter().collect()
        }
        Ok(statements) => run_given(&roles, statements),
    }
}

/// Denies new sessions of all roles and ends open ones, as far as the connection's user may.
fn shut_all_out(roles: &[RoleRemoval<'_>]) -> Result<(), Refusal> {
    let found = roles.iter().filter_map(|role| Some((role, role.found.as_ref()?)));
    let shut: Vec<_> = found.map(|(role, found)| role.shut_out_as_far(&found.oid)).collect();
    shut.into_iter().collect()
}

/// Locks the roles out, runs the operator's statements, and checks that each role is gone or still
/// locked out. The statements may clean up more than the roles, and therefore run if the roles are
/// gone already; but not if the first role's name belongs to somebody else.
fn run_given(roles: &[RoleRemoval<'_>], statements: Vec<FilledStatement>) -> Result<(), Refusal> {
    shut_all_out(roles)?;
    let gone = roles.iter().filter(|role| role.found.is_none());
    gone.clone().try_for_each(RoleRemoval::prove_gone)?;
    if let Some(main) = roles.first().filter(|main| !main.is_name_taken) {
        match user_statements::run(main.host, &main.connection.target, statements) {
            // An earlier attempt or another session has removed the user. The other roles are
            // locked out, which the checks below prove.
            Err(failure)
                if failure.has_sqlstate(&[UNDEFINED_OBJECT]) && main.is_gone().unwrap_or(false) => {
            }
            ran => ran.map_err(|failure| main.refusal(failure))?,
        }
    }
    gone.clone().try_for_each(RoleRemoval::end_outlasting)?;
    for (role, found) in roles.iter().filter_map(|role| Some((role, role.found.as_ref()?))) {
        role.check_locked_out(&found.oid)?;
        role.end_late_sessions(&found.oid)?;
    }
    Ok(())
}

/// A role being removed.
struct RoleRemoval<'a> {
    host: &'a dyn SqlHost,
    connection: &'a ParsedConnection,
    /// The name at the creation.
    recorded: String,
    /// The name in the catalog, or at the creation if the role is gone.
    name: String,
    /// `name` as a quoted identifier.
    role: String,
    /// The role in the catalog; `None`: the role is gone.
    found: Option<CatalogRole>,
    /// The OID of a role that is gone, if the OID was recorded.
    gone_oid: Option<String>,
    /// The role is gone, and a role of somebody else has the name.
    is_name_taken: bool,
}

impl<'a> RoleRemoval<'a> {
    fn begin(
        host: &'a dyn SqlHost,
        connection: &'a ParsedConnection,
        account: &Account,
    ) -> Result<Self, Refusal> {
        let (found, gone_oid, is_name_taken) = match identity::locate(host, connection, account)? {
            RoleLocation::Found(role) => (Some(role), None, false),
            RoleLocation::Gone { oid, is_name_taken } => (None, oid, is_name_taken),
        };
        let name = found.as_ref().map_or(&account.name, |role| &role.name).clone();
        let (role, recorded) = (identifier(&name), account.name.clone());
        Ok(Self { host, connection, recorded, name, role, found, gone_oid, is_name_taken })
    }

    /// Removes the role with the plugin's own statements.
    fn remove_alone(&self) -> Result<(), Refusal> {
        let Some(CatalogRole { oid, holds_something, .. }) = &self.found else {
            self.prove_gone()?;
            return self.end_outlasting();
        };
        if *holds_something || !self.remove_bare(oid)? {
            self.shut_out(oid)?;
            self.remove(oid)?;
        }
        self.end_late_sessions(oid)
    }

    /// Tells if the role is gone by now.
    fn is_gone(&self) -> Result<bool, SqlFailure> {
        match &self.found {
            Some(found) => Ok(self.column(LOGS_IN, &found.oid)?.is_empty()),
            None => Ok(true),
        }
    }

    /// Proves that the role is gone, and not only unknown to a copy of the server that lags behind:
    /// a copy refuses to assign the number of a transaction.
    fn prove_gone(&self) -> Result<(), Refusal> {
        let Some(oid) = &self.gone_oid else { return self.fence() };
        self.run_alone(format!(
            "SELECT pg_catalog.txid_current(), 1 / (1 - count(*)) FROM pg_catalog.pg_roles WHERE \
             oid = {oid}"
        ))
        .map_err(|failure| self.refusal(failure))
    }

    /// Ends the sessions that outlasted a role that is gone.
    fn end_outlasting(&self) -> Result<(), Refusal> {
        match &self.gone_oid {
            Some(oid) => self.end_late_sessions(oid),
            None => self.end_orphans(),
        }
    }

    /// Proves that the user is gone and not about to appear: a `CREATE ROLE` whose answer was lost
    /// may still await its commit.
    ///
    /// Role names are unique, so creating the same name waits for this commit, and fails if the
    /// commit succeeds. A read-only server proves nothing, because it may be a lagging replica.
    fn fence(&self) -> Result<(), Refusal> {
        let texts = [format!("CREATE ROLE {} NOLOGIN", self.role), self.drop_role()];
        let statements = texts.map(Statement::plain);
        match self.host.transact(&self.connection.target, &statements) {
            Err(failure) if failure.has_sqlstate(&[DUPLICATE_OBJECT, UNIQUE_VIOLATION]) => {
                Err(Code::Conflict.refusal())
            }
            // A user without the right to create roles has created none.
            Err(failure) if failure.has_sqlstate(&[INSUFFICIENT_PRIVILEGE]) => Ok(()),
            proven => proven.map_err(|failure| self.refusal(failure)),
        }
    }

    /// Denies new sessions. A missing user counts as denied: the answer to an earlier drop may have
    /// been lost.
    fn deny_login(&self) -> Result<(), SqlFailure> {
        let check = self.found.as_ref().map(|found| self.check_name(&found.oid));
        let deny = format!("ALTER ROLE {} NOLOGIN", self.role);
        let statements: Vec<_> = check.into_iter().chain([deny]).map(Statement::plain).collect();
        match self.host.transact(&self.connection.target, &statements) {
            Err(failure) if failure.has_sqlstate(&[UNDEFINED_OBJECT]) => Ok(()),
            denied => denied,
        }
    }

    /// Denies logins of a user that cannot be removed. Returns `why`, or the failure to deny
    /// logins, which is more serious.
    fn deny_login_for(&self, why: Refusal) -> Refusal {
        match self.deny_login() {
            Err(failure) => self.refusal(failure),
            Ok(()) => why,
        }
    }

    /// Denies new sessions, then ends open sessions. If the server refuses to deny logins, the
    /// removal continues, because the following drop needs the same right.
    fn shut_out(&self, oid: &str) -> Result<(), Refusal> {
        let denied = self.deny_login();
        tolerate_refusal(denied.clone()).map_err(|failure| self.refusal(failure))?;
        self.end_sessions(oid).map_err(|remain| match denied {
            Err(failure) => self.refusal(failure),
            Ok(()) => remain,
        })
    }

    /// Locks the user out as [`shut_out`](Self::shut_out) does, but tolerates missing rights of the
    /// connection's user, because the operator's statements that follow may have more rights.
    fn shut_out_as_far(&self, oid: &str) -> Result<(), Refusal> {
        tolerate_refusal(self.deny_login()).map_err(|failure| self.refusal(failure))?;
        match self.end_sessions(oid) {
            Err(remain) if remain.code == Code::SessionsRemain.word() => Ok(()),
            ended => ended,
        }
    }

    fn check_locked_out(&self, oid: &str) -> Result<(), Refusal> {
        let left = self.column(LOGS_IN, oid).map_err(|failure| self.refusal(failure))?;
        if left.iter().any(|logs_in| logs_in != "false") {
            let user = &self.connection.target.username;
            return Err(Code::StillLogsIn.refusal().with("user", user));
        }
        Ok(())
    }

    fn drop_role(&self) -> String {
        format!("DROP ROLE IF EXISTS {}", self.role)
    }

    /// Returns a statement that fails with [`DIVISION_BY_ZERO`] if the role has got another name
    /// since the look-up, or another role has got this name.
    fn check_name(&self, oid: &str) -> String {
        let name = self.name.replace('\\', r"\\").replace('\'', "''");
        format!(
            "SELECT 1 / (1 - least(count(*), 1)) FROM pg_catalog.pg_roles WHERE (oid = {oid}) <> \
             (rolname = E'{name}')"
        )
    }

    /// Runs a statement in its own transaction, so that the host can retry the transaction.
    fn run_alone(&self, text: String) -> Result<(), SqlFailure> {
        self.host.transact(&self.connection.target, &[Statement::plain(text)])
    }

    /// Returns the first column of a query with 1 parameter.
    fn column(&self, query: &str, parameter: &str) -> Result<Vec<String>, SqlFailure> {
        self.host.query_column(&self.connection.target, query, &[parameter])
    }

    fn refusal(&self, failure: SqlFailure) -> Refusal {
        if failure.has_sqlstate(&[DIVISION_BY_ZERO]) {
            return Code::Conflict.refusal();
        }
        sql_failure::refusal(failure, &self.connection.target)
    }
}

/// Ignores a refusal of the database if a later step decides; keeps an outage.
fn tolerate_refusal(outcome: Result<(), SqlFailure>) -> Result<(), SqlFailure> {
    match outcome {
        Err(failure) if matches!(failure.code.as_str(), "statement-failed" | "conflict") => Ok(()),
        other => other,
    }
}

/// Quotes a name.
fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod identity_tests;
#[cfg(test)]
mod tests;

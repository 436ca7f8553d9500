//! Removes a user, its sessions and its privileges.
//!
//! Prevents three faults. Live sessions outlast `DROP ROLE`, so sessions are ended before and after
//! the drop. A user whose removal fails could still log in, so logins are denied first. Objects
//! owned by the user are the operator's data, so no object is ever dropped with its owner. A
//! missing user counts as removed, because backups and people remove users too.

use crate::codes::Code;
use crate::settings::ParsedConnection;
use crate::sql_failure;
use crate::users::{self, UNDEFINED_OBJECT};
use bulkhead_sdk::connection::Denial;
use bulkhead_sdk::database_plugin::{Refusal, SqlFailure, SqlHost, Statement};
use bulkhead_sdk::statements::{self, FilledStatement, PlaceholderValues, SqlDialect};

mod sessions;

/// SQLSTATE of a role with dependent objects.
const DEPENDENT_OBJECTS: &str = "2BP01";

/// SQLSTATE of a role that already exists.
const DUPLICATE_OBJECT: &str = "42710";

/// SQLSTATE of a role that another transaction created during the statement.
const UNIQUE_VIOLATION: &str = "23505";

/// SQLSTATE of an act that the connection's user may not do.
const INSUFFICIENT_PRIVILEGE: &str = "42501";

/// SQLSTATE of a catalog that this server does not have.
const UNDEFINED_TABLE: &str = "42P01";

/// Maximum number of owned objects named in a refusal.
const NAMED_OBJECTS: usize = 10;

/// Query for descriptions of everything that depends on the user. Objects of other databases have
/// no name in the current database.
const DEPENDENCIES: &str = "SELECT DISTINCT CASE WHEN d.oid IS NULL THEN \
                            coalesce(pg_describe_object(s.classid, s.objid, s.objsubid), 'an \
                            object') ELSE 'something in database ' || d.datname END FROM \
                            pg_shdepend s LEFT JOIN pg_database d ON d.oid = s.dbid AND d.datname \
                            <> current_database() WHERE s.refclassid = 'pg_authid'::regclass AND \
                            s.refobjid = $1::oid";

/// Query for a user's OID and for dependencies: owned objects and direct privileges in any
/// database, but not memberships in groups.
const USER: &str = "SELECT r.oid::text, EXISTS (SELECT FROM pg_shdepend s WHERE s.refclassid = \
                    'pg_authid'::regclass AND s.refobjid = r.oid)::text FROM pg_roles r WHERE \
                    r.rolname = $1";

/// Variant of [`USER`] for servers without this catalog.
const USER_ALONE: &str = "SELECT oid::text FROM pg_roles WHERE rolname = $1";

/// Query by OID that tells if a user can still log in; no row if the user is gone.
const LOGS_IN: &str = "SELECT rolcanlogin::text FROM pg_roles WHERE oid = $1::oid";

/// Query for schemas with a table or column privilege granted to the user.
const SCHEMAS: &str = "SELECT DISTINCT table_schema::text FROM \
                       information_schema.role_column_grants WHERE grantee = $1 ORDER BY 1";

/// Removes `username` with the operator's statements, or with the plugin's own statements if there
/// are none.
pub(crate) fn delete(
    host: &dyn SqlHost,
    connection: &ParsedConnection,
    username: &str,
    given: &[String],
) -> Result<(), Refusal> {
    if username == connection.target.username {
        return Err(Denial::ConnectionUser.refusal());
    }
    let values = PlaceholderValues { username, password: None, subject: None, expiration: None };
    let prepared = statements::prepare(SqlDialect::Postgres, given, &values);
    let leaving = UserRemoval { host, connection, username, role: identifier(username) };
    let Some(user) = leaving.find().map_err(|failure| leaving.refusal(failure))? else {
        return leaving.prove_gone(prepared?);
    };
    let oid = &user.oid;
    match prepared {
        Err(fault) => {
            leaving.shut_out_as_far(oid)?;
            return Err(fault.into());
        }
        Ok(given) if !given.is_empty() => leaving.run_given(oid, given)?,
        Ok(_) if user.holds_something || !leaving.remove_bare(oid)? => {
            leaving.shut_out(oid)?;
            leaving.remove(oid)?;
        }
        Ok(_) => {}
    }
    leaving.end_late_sessions(oid)
}

/// A user in the database's catalog.
struct CatalogUser {
    /// The user's OID, which its sessions keep after the removal of the name.
    oid: String,
    /// Set if the user may own objects or hold direct privileges.
    holds_something: bool,
}

/// A user being removed.
struct UserRemoval<'a> {
    host: &'a dyn SqlHost,
    connection: &'a ParsedConnection,
    username: &'a str,
    /// The name as a quoted identifier.
    role: String,
}

impl UserRemoval<'_> {
    fn find(&self) -> Result<Option<CatalogUser>, SqlFailure> {
        let ask = |query| self.host.query(&self.connection.target, query, &[self.username]);
        let found = match ask(USER) {
            Err(failure) if has_sqlstate(&failure, UNDEFINED_TABLE) => ask(USER_ALONE),
            found => found,
        };
        let mut cells = found?.into_iter().next().unwrap_or_default().into_iter().flatten();
        let oid = cells.next().filter(|oid| is_number(oid));
        let holds_something = cells.next().is_none_or(|holds| holds != "false");
        Ok(oid.map(|oid| CatalogUser { oid, holds_something }))
    }

    /// Proves that the user is gone, runs the operator's statements, which may clean up more than
    /// the user, and ends sessions that outlasted the user.
    fn prove_gone(&self, given: Vec<FilledStatement>) -> Result<(), Refusal> {
        self.fence()?;
        match users::run(self.host, &self.connection.target, given) {
            Err(failure) if has_sqlstate(&failure, UNDEFINED_OBJECT) => {}
            other => other.map_err(|failure| self.refusal(failure))?,
        }
        self.end_orphans()
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
            Err(failure)
                if has_sqlstate(&failure, DUPLICATE_OBJECT)
                    || has_sqlstate(&failure, UNIQUE_VIOLATION) =>
            {
                Err(Code::Conflict.refusal())
            }
            // A user without the right to create roles has created none.
            Err(failure) if has_sqlstate(&failure, INSUFFICIENT_PRIVILEGE) => Ok(()),
            proven => proven.map_err(|failure| self.refusal(failure)),
        }
    }

    /// Denies new sessions. A missing user counts as denied: the answer to an earlier drop may have
    /// been lost.
    fn deny_login(&self) -> Result<(), SqlFailure> {
        match self.run_alone(format!("ALTER ROLE {} NOLOGIN", self.role)) {
            Err(failure) if has_sqlstate(&failure, UNDEFINED_OBJECT) => Ok(()),
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

    /// Locks the user out, runs the operator's statements, and checks that the user is gone or
    /// still locked out.
    fn run_given(&self, oid: &str, given: Vec<FilledStatement>) -> Result<(), Refusal> {
        self.shut_out_as_far(oid)?;
        match users::run(self.host, &self.connection.target, given) {
            // Another session has removed the user since the look-up.
            Err(failure)
                if has_sqlstate(&failure, UNDEFINED_OBJECT)
                    && self.find().is_ok_and(|found| found.is_none()) => {}
            ran => ran.map_err(|failure| self.refusal(failure))?,
        }
        let left = self.column(LOGS_IN, oid).map_err(|failure| self.refusal(failure))?;
        if left.iter().any(|logs_in| logs_in != "false") {
            let user = &self.connection.target.username;
            return Err(Code::StillLogsIn.refusal().with("user", user));
        }
        Ok(())
    }

    /// Removes a user without dependencies; the removal itself locks the user out. Returns `false`
    /// if something depends on the user by now.
    fn remove_bare(&self, oid: &str) -> Result<bool, Refusal> {
        self.end_sessions(oid).map_err(|why| self.deny_login_for(why))?;
        match self.run_alone(self.drop_role()) {
            Ok(()) => Ok(true),
            Err(failure) if has_sqlstate(&failure, DEPENDENT_OBJECTS) => Ok(false),
            Err(failure) => Err(self.deny_login_for(self.refusal(failure))),
        }
    }

    fn remove(&self, oid: &str) -> Result<(), Refusal> {
        let refused = |failure| self.refusal(failure);
        let mut revoked = self.revocations().map_err(refused)?;
        revoked.push(Statement::plain(self.drop_role()));
        match self.host.transact(&self.connection.target, &revoked) {
            Err(failure) if has_sqlstate(&failure, DEPENDENT_OBJECTS) => {
                revoked.pop();
                // These revocations remain in force even if the next steps fail.
                let stripped = self.host.transact(&self.connection.target, &revoked);
                tolerate_refusal(stripped).map_err(refused)?;
                self.remove_with_dependencies(oid)
            }
            dropped => dropped.map_err(refused),
        }
    }

    /// Returns statements that revoke the usual privileges. A failure of a statement does not
    /// prevent the other revocations.
    fn revocations(&self) -> Result<Vec<Statement>, SqlFailure> {
        let mut schemas = self.column(SCHEMAS, self.username)?;
        schemas.retain(|schema| schema != "public");
        schemas.push("public".to_owned());
        let role = &self.role;
        let mut texts = Vec::new();
        for schema in schemas.iter().map(|schema| identifier(schema)) {
            for what in ["TABLES", "SEQUENCES"] {
                texts.push(format!(
                    "REVOKE ALL PRIVILEGES ON ALL {what} IN SCHEMA {schema} FROM {role}"
                ));
            }
            texts.push(format!("REVOKE USAGE ON SCHEMA {schema} FROM {role}"));
        }
        let database = identifier(&self.connection.target.database);
        texts.push(format!("REVOKE CONNECT ON DATABASE {database} FROM {role}"));
        Ok(texts.into_iter().map(|text| Statement::plain(text).allow_failure()).collect())
    }

    /// Removes a user that still has privileges on functions or types, default privileges, or
    /// `CONNECT` on other databases. `DROP OWNED` revokes all of these, but also drops owned
    /// objects. Owned objects are therefore a refusal, and objects owned since this check are
    /// reassigned first.
    fn remove_with_dependencies(&self, oid: &str) -> Result<(), Refusal> {
        let owned = self
            .dependencies(oid, "AND s.deptype = 'o'")
            .map_err(|failure| self.refusal(failure))?;
        if !owned.is_empty() {
            return Err(Code::OwnsObjects.refusal().with("objects", join_names(owned)));
        }
        let dropped = match self.drop_owned(false) {
            // DROP OWNED requires membership in the role, which a user with CREATEROLE can grant to
            // itself.
            Err(failure) if has_sqlstate(&failure, INSUFFICIENT_PRIVILEGE) => self.drop_owned(true),
            other => other,
        };
        match dropped {
            Err(failure) if has_sqlstate(&failure, DEPENDENT_OBJECTS) => {
                self.still_held(oid, failure)
            }
            other => other.map_err(|failure| self.refusal(failure)),
        }
    }

    fn drop_owned(&self, become_member: bool) -> Result<(), SqlFailure> {
        let role = &self.role;
        let mut texts = Vec::new();
        if become_member {
            texts.push(format!("GRANT {role} TO CURRENT_USER"));
        }
        texts.push(format!("REASSIGN OWNED BY {role} TO CURRENT_USER"));
        texts.push(format!("DROP OWNED BY {role}"));
        texts.push(self.drop_role());
        let statements: Vec<Statement> = texts.into_iter().map(Statement::plain).collect();
        self.host.transact(&self.connection.target, &statements)
    }

    fn still_held(&self, oid: &str, failure: SqlFailure) -> Result<(), Refusal> {
        let held = self.dependencies(oid, "").map_err(|failure| self.refusal(failure))?;
        if held.is_empty() {
            return Err(self.refusal(failure));
        }
        let refusal = Code::StillHolds.refusal().with("held", join_names(held));
        Err(refusal.with("user", &self.connection.target.username))
    }

    /// Returns the dependencies selected by `filter`, at most 1 more than a refusal names.
    fn dependencies(&self, oid: &str, filter: &str) -> Result<Vec<String>, SqlFailure> {
        self.column(&format!("{DEPENDENCIES} {filter} ORDER BY 1 LIMIT {}", NAMED_OBJECTS + 1), oid)
    }

    fn drop_role(&self) -> String {
        format!("DROP ROLE IF EXISTS {}", self.role)
    }

    /// Runs a statement in its own transaction, so that the host can retry the transaction.
    fn run_alone(&self, text: String) -> Result<(), SqlFailure> {
        self.host.transact(&self.connection.target, &[Statement::plain(text)])
    }

    /// Returns the first column of a query with 1 parameter.
    fn column(&self, query: &str, parameter: &str) -> Result<Vec<String>, SqlFailure> {
        let rows = self.host.query(&self.connection.target, query, &[parameter])?;
        Ok(rows.into_iter().filter_map(|row| row.into_iter().next().flatten()).collect())
    }

    fn refusal(&self, failure: SqlFailure) -> Refusal {
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

fn has_sqlstate(failure: &SqlFailure, sqlstate: &str) -> bool {
    failure.sqlstate.as_deref() == Some(sqlstate)
}

fn is_number(oid: &str) -> bool {
    !oid.is_empty() && oid.bytes().all(|byte| byte.is_ascii_digit())
}

/// Quotes a name.
fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn join_names(mut names: Vec<String>) -> String {
    if names.len() > NAMED_OBJECTS {
        names.truncate(NAMED_OBJECTS);
        names.push("…".to_owned());
    }
    names.join(", ")
}

#[cfg(test)]
mod tests;

//! Removes a user, its sessions and what it was granted.
//!
//! Three attacks end here. Live sessions outlast `DROP ROLE`, so they are ended before and after.
//! A user whose removal cannot go on still logs in, so it is locked out first. And what a user owns
//! is its operator's data: nothing is ever dropped with its owner. A user that is gone is success,
//! because backups and people remove users too.

use crate::codes::Code;
use crate::settings::Connection;
use crate::sql_failure;
use crate::users::{self, UNDEFINED_OBJECT};
use bulkhead_sdk::connection::Denial;
use bulkhead_sdk::database_plugin::{Refusal, SqlFailure, SqlHost, Statement};
use bulkhead_sdk::statements::{self, Dialect, Prepared, Values};

mod sessions;

/// SQLSTATE of a role that something still depends on.
const DEPENDENT_OBJECTS: &str = "2BP01";

/// SQLSTATE of a role that exists already.
const DUPLICATE_OBJECT: &str = "42710";

/// SQLSTATE of a role that came to exist while we waited.
const UNIQUE_VIOLATION: &str = "23505";

/// SQLSTATE of an act that the connection's user may not do.
const INSUFFICIENT_PRIVILEGE: &str = "42501";

/// SQLSTATE of a catalog that this server does not have.
const UNDEFINED_TABLE: &str = "42P01";

/// Owned objects that a refusal names at most.
const NAMED_OBJECTS: usize = 10;

/// What depends on the user, by description. Objects of other databases have no name in this one.
const DEPENDENCIES: &str = "SELECT DISTINCT CASE WHEN d.oid IS NULL THEN \
                            coalesce(pg_describe_object(s.classid, s.objid, s.objsubid), 'an \
                            object') ELSE 'something in database ' || d.datname END FROM \
                            pg_shdepend s LEFT JOIN pg_database d ON d.oid = s.dbid AND d.datname \
                            <> current_database() WHERE s.refclassid = 'pg_authid'::regclass AND \
                            s.refobjid = $1::oid";

/// A user's number, and whether anything depends on it: what it owns or was granted by itself, in
/// any database. Memberships of groups do not.
const USER: &str = "SELECT r.oid::text, EXISTS (SELECT FROM pg_shdepend s WHERE s.refclassid = \
                    'pg_authid'::regclass AND s.refobjid = r.oid)::text FROM pg_roles r WHERE \
                    r.rolname = $1";

/// The same of a server without such a catalog.
const USER_ALONE: &str = "SELECT oid::text FROM pg_roles WHERE rolname = $1";

/// Whether a user can still log in, by its number; no row where it is gone.
const LOGS_IN: &str = "SELECT rolcanlogin::text FROM pg_roles WHERE oid = $1::oid";

/// Schemas in which a table or column was granted to the user.
const SCHEMAS: &str = "SELECT DISTINCT table_schema::text FROM \
                       information_schema.role_column_grants WHERE grantee = $1 ORDER BY 1";

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
    let prepared = statements::prepare(Dialect::Postgres, given, &values);
    let leaving = Leaving { host, connection, username, role: identifier(username) };
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

/// A user, as the database knows it.
struct User {
    /// Its number, which its sessions keep when its name is gone.
    oid: String,
    /// It may own something, or have been granted something by itself.
    holds_something: bool,
}

/// A user on its way out.
struct Leaving<'a> {
    host: &'a dyn SqlHost,
    connection: &'a Connection,
    username: &'a str,
    /// The name as an identifier, quoted.
    role: String,
}

impl Leaving<'_> {
    fn find(&self) -> Result<Option<User>, SqlFailure> {
        let ask = |query| self.host.query(&self.connection.target, query, &[self.username]);
        let found = match ask(USER) {
            Err(failure) if has_sqlstate(&failure, UNDEFINED_TABLE) => ask(USER_ALONE),
            found => found,
        };
        let mut cells = found?.into_iter().next().unwrap_or_default().into_iter().flatten();
        let oid = cells.next().filter(|oid| is_number(oid));
        let holds_something = cells.next().is_none_or(|holds| holds != "false");
        Ok(oid.map(|oid| User { oid, holds_something }))
    }

    /// Proves that the user is gone, and ends sessions that outlasted it. The operator's statements
    /// may clean up more than the user.
    fn prove_gone(&self, given: Vec<Prepared>) -> Result<(), Refusal> {
        self.fence()?;
        match users::run(self.host, &self.connection.target, given) {
            Err(failure) if has_sqlstate(&failure, UNDEFINED_OBJECT) => {}
            other => other.map_err(|failure| self.refusal(failure))?,
        }
        self.end_orphans()
    }

    /// Proves that the user is gone, rather than about to appear: a `CREATE ROLE` whose answer was
    /// lost may still wait for its commit. Making the name ourselves waits for it, because names of
    /// roles are unique, and fails when it came true. A server that takes no writes proves nothing:
    /// it may be a copy that lags behind.
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
            // Who may not make roles has made none.
            Err(failure) if has_sqlstate(&failure, INSUFFICIENT_PRIVILEGE) => Ok(()),
            proven => proven.map_err(|failure| self.refusal(failure)),
        }
    }

    /// No new sessions. A user that is gone begins none: the answer of the drop may have been lost.
    fn deny_login(&self) -> Result<(), SqlFailure> {
        match self.run_alone(format!("ALTER ROLE {} NOLOGIN", self.role)) {
            Err(failure) if has_sqlstate(&failure, UNDEFINED_OBJECT) => Ok(()),
            denied => denied,
        }
    }

    /// Denies logins to a user that stays. Returns the refusal for which it stays; that it logs in
    /// still is graver.
    fn deny_login_for(&self, why: Refusal) -> Refusal {
        match self.deny_login() {
            Err(failure) => self.refusal(failure),
            Ok(()) => why,
        }
    }

    /// No new sessions, then no old ones. Where logins cannot be denied, the drop that follows
    /// needs the same right.
    fn shut_out(&self, oid: &str) -> Result<(), Refusal> {
        let denied = self.deny_login();
        tolerate_refusal(denied.clone()).map_err(|failure| self.refusal(failure))?;
        self.end_sessions(oid).map_err(|remain| match denied {
            Err(failure) => self.refusal(failure),
            Ok(()) => remain,
        })
    }

    /// The same as far as the connection's user may, in front of statements of the operator that
    /// may do more.
    fn shut_out_as_far(&self, oid: &str) -> Result<(), Refusal> {
        tolerate_refusal(self.deny_login()).map_err(|failure| self.refusal(failure))?;
        match self.end_sessions(oid) {
            Err(remain) if remain.code == Code::SessionsRemain.word() => Ok(()),
            ended => ended,
        }
    }

    /// Runs the operator's statements on a user that is locked out, and proves that the user is
    /// gone or stays so.
    fn run_given(&self, oid: &str, given: Vec<Prepared>) -> Result<(), Refusal> {
        self.shut_out_as_far(oid)?;
        match users::run(self.host, &self.connection.target, given) {
            // Another session removed the user since it was found, as in `prove_gone`.
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

    /// Removes a user that nothing depends on: to be without it is to be locked out. Whether that
    /// still was so.
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
                // However the rest ends, this it does not keep.
                let stripped = self.host.transact(&self.connection.target, &revoked);
                tolerate_refusal(stripped).map_err(refused)?;
                self.remove_with_dependencies(oid)
            }
            dropped => dropped.map_err(refused),
        }
    }

    /// What users are usually granted, each on its own: one that cannot be revoked must not keep
    /// the others.
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
        Ok(texts.into_iter().map(|text| Statement::plain(text).or_else_nothing()).collect())
    }

    /// Functions, types, default privileges, other databases' `CONNECT`: `DROP OWNED` revokes them
    /// all, and would drop what the user owns. So owned objects are a refusal, and what came to
    /// be owned since then changes hands before the drop.
    fn remove_with_dependencies(&self, oid: &str) -> Result<(), Refusal> {
        let owned = self
            .dependencies(oid, "AND s.deptype = 'o'")
            .map_err(|failure| self.refusal(failure))?;
        if !owned.is_empty() {
            return Err(Code::OwnsObjects.refusal().with("objects", join_names(owned)));
        }
        let dropped = match self.drop_owned(false) {
            // DROP OWNED asks for membership in the role, which a user with CREATEROLE can give
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

    /// What depends on the user in the way that `filter` says; one more than a refusal names at
    /// most.
    fn dependencies(&self, oid: &str, filter: &str) -> Result<Vec<String>, SqlFailure> {
        self.column(&format!("{DEPENDENCIES} {filter} ORDER BY 1 LIMIT {}", NAMED_OBJECTS + 1), oid)
    }

    fn drop_role(&self) -> String {
        format!("DROP ROLE IF EXISTS {}", self.role)
    }

    /// One statement in a transaction of its own, for the host's retries.
    fn run_alone(&self, text: String) -> Result<(), SqlFailure> {
        self.host.transact(&self.connection.target, &[Statement::plain(text)])
    }

    /// The first column of a query with one parameter.
    fn column(&self, query: &str, parameter: &str) -> Result<Vec<String>, SqlFailure> {
        let rows = self.host.query(&self.connection.target, query, &[parameter])?;
        Ok(rows.into_iter().filter_map(|row| row.into_iter().next().flatten()).collect())
    }

    fn refusal(&self, failure: SqlFailure) -> Refusal {
        sql_failure::refusal(failure, &self.connection.target)
    }
}

/// Lets a refusal of the database pass, where a later step decides; an outage is an outage.
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

/// Any name, in quotes.
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

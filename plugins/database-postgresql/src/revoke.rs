//! Removes a user, its sessions and what it was granted.
//!
//! Two attacks end here. Live sessions outlast `DROP ROLE`, so they are ended before and after. And
//! what a user owns is its operator's data: nothing is ever dropped with its owner. A user that is
//! gone is success, because backups and people remove users too.

use crate::codes::Code;
use crate::settings::Connection;
use crate::sql_failure;
use crate::users::{self, UNDEFINED_OBJECT};
use bulkhead_sdk::connection::Denial;
use bulkhead_sdk::database_plugin::{Refusal, SqlFailure, SqlHost, Statement};
use bulkhead_sdk::statements::{self, Dialect, Values};

/// SQLSTATE of a role that something still depends on.
const DEPENDENT_OBJECTS: &str = "2BP01";

/// SQLSTATE of a role that exists already.
const DUPLICATE_OBJECT: &str = "42710";

/// SQLSTATE of a role that came to exist while we waited.
const UNIQUE_VIOLATION: &str = "23505";

/// SQLSTATE of an act that the connection's user may not do.
const INSUFFICIENT_PRIVILEGE: &str = "42501";

/// SQLSTATE of a function that this server does not have.
const UNDEFINED_FUNCTION: &str = "42883";

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
    let prepared = statements::prepare(Dialect::Postgres, given, &values)?;
    let leaving = Leaving { host, connection, username, role: identifier(username) };
    let refused = |failure| sql_failure::refusal(failure, &connection.target);
    let Some(user) = leaving.find().map_err(refused)? else {
        leaving.fence()?;
        // The operator's statements may clean up more than the user.
        return match users::run(host, &connection.target, prepared) {
            Err(failure) if has_sqlstate(&failure, UNDEFINED_OBJECT) => Ok(()),
            other => other.map_err(refused),
        };
    };
    let oid = &user.oid;
    if !given.is_empty() {
        leaving.lock_out(oid).map_err(refused)?;
        users::run(host, &connection.target, prepared).map_err(refused)?;
    } else if user.holds_something || !leaving.remove_bare(oid)? {
        leaving.lock_out(oid).map_err(refused)?;
        leaving.remove(oid)?;
    }
    // Once more, for sessions that were logging in meanwhile; their role's number outlives its
    // name.
    tolerate_refusal(leaving.terminate(oid)).map_err(refused)
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

    /// Proves that the user is gone, rather than about to appear: a `CREATE ROLE` whose answer was
    /// lost may still wait for its commit. Making the name ourselves waits for it, because names of
    /// roles are unique, and fails when it came true.
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
            proven => tolerate_refusal(proven).map_err(|failure| self.refusal(failure)),
        }
    }

    /// No new sessions, then no old ones.
    fn lock_out(&self, oid: &str) -> Result<(), SqlFailure> {
        tolerate_refusal(self.run_alone(format!("ALTER ROLE {} NOLOGIN", self.role)))?;
        self.end_sessions(oid)
    }

    /// Ends every session of the user and waits for their ends, because a session's temporary
    /// tables are objects that the user owns. As far as the connection's user may: membership in
    /// the role suffices.
    fn end_sessions(&self, oid: &str) -> Result<(), SqlFailure> {
        match self.terminate(oid) {
            Err(failure) if has_sqlstate(&failure, INSUFFICIENT_PRIVILEGE) => {
                tolerate_refusal(self.run_alone(format!("GRANT {} TO CURRENT_USER", self.role)))?;
                tolerate_refusal(self.terminate(oid))
            }
            ended => tolerate_refusal(ended),
        }
    }

    fn terminate(&self, oid: &str) -> Result<(), SqlFailure> {
        let of_user =
            format!("FROM pg_stat_activity WHERE usesysid = {oid} AND pid <> pg_backend_pid()");
        let ask = |call: &str| {
            let text = format!("SELECT {call} {of_user}");
            self.host.execute(&self.connection.target, &Statement::plain(text))
        };
        match ask("pg_terminate_backend(pid, 2000)") {
            // Servers before version 14 cannot wait.
            Err(failure) if has_sqlstate(&failure, UNDEFINED_FUNCTION) => {
                ask("pg_terminate_backend(pid)")
            }
            ended => ended,
        }
    }

    /// Removes a user that nothing depends on: to be without it is to be locked out. Whether that
    /// still was so.
    fn remove_bare(&self, oid: &str) -> Result<bool, Refusal> {
        let dropped = self.end_sessions(oid).and_then(|()| self.run_alone(self.drop_role()));
        match dropped {
            Err(failure) if has_sqlstate(&failure, DEPENDENT_OBJECTS) => Ok(false),
            dropped => dropped.map(|()| true).map_err(|failure| self.refusal(failure)),
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

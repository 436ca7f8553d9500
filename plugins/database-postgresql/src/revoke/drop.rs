//! The plugin's own removal of a role: its privileges, and then the role.
//!
//! This file prevents the loss of the operator's data: objects that the role owns are named in a
//! refusal and never dropped.

use super::{INSUFFICIENT_PRIVILEGE, RoleRemoval, identifier, tolerate_refusal};
use crate::codes::Code;
use bulkhead_sdk::database_plugin::{Refusal, SqlFailure, Statement};

/// SQLSTATE of a role with dependent objects.
const DEPENDENT_OBJECTS: &str = "2BP01";

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

/// Query for schemas with a table or column privilege granted to the user.
const SCHEMAS: &str = "SELECT DISTINCT table_schema::text FROM \
                       information_schema.role_column_grants WHERE grantee = $1 ORDER BY 1";

impl RoleRemoval<'_> {
    /// Removes a user without dependencies; the removal itself locks the user out. Returns `false`
    /// if something depends on the user by now.
    pub(super) fn remove_bare(&self, oid: &str) -> Result<bool, Refusal> {
        self.end_sessions(oid).map_err(|why| self.deny_login_for(why))?;
        let dropped = [self.check_name(oid), self.drop_role()].map(Statement::plain);
        match self.host.transact(&self.connection.target, &dropped) {
            Ok(()) => Ok(true),
            Err(failure) if failure.has_sqlstate(&[DEPENDENT_OBJECTS]) => Ok(false),
            Err(failure) => Err(self.deny_login_for(self.refusal(failure))),
        }
    }

    pub(super) fn remove(&self, oid: &str) -> Result<(), Refusal> {
        let refused = |failure| self.refusal(failure);
        let mut revoked = vec![Statement::plain(self.check_name(oid))];
        revoked.extend(self.revocations().map_err(refused)?);
        revoked.push(Statement::plain(self.drop_role()));
        match self.host.transact(&self.connection.target, &revoked) {
            Err(failure) if failure.has_sqlstate(&[DEPENDENT_OBJECTS]) => {
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
        let mut schemas = self.column(SCHEMAS, &self.name)?;
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
        let dropped = match self.drop_owned(oid, false) {
            // DROP OWNED requires membership in the role, which a user with CREATEROLE can grant to
            // itself.
            Err(failure) if failure.has_sqlstate(&[INSUFFICIENT_PRIVILEGE]) => {
                self.drop_owned(oid, true)
            }
            other => other,
        };
        match dropped {
            Err(failure) if failure.has_sqlstate(&[DEPENDENT_OBJECTS]) => {
                self.still_held(oid, failure)
            }
            other => other.map_err(|failure| self.refusal(failure)),
        }
    }

    fn drop_owned(&self, oid: &str, become_member: bool) -> Result<(), SqlFailure> {
        let role = &self.role;
        let mut texts = vec![self.check_name(oid)];
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
        let dependencies = self.dependencies(oid, "").map_err(|failure| self.refusal(failure))?;
        if dependencies.is_empty() {
            return Err(self.refusal(failure));
        }
        let refusal = Code::StillHolds.refusal().with("held", join_names(dependencies));
        Err(refusal.with("user", &self.connection.target.username))
    }

    /// Returns the dependencies selected by `filter`, at most 1 more than a refusal names.
    fn dependencies(&self, oid: &str, filter: &str) -> Result<Vec<String>, SqlFailure> {
        self.column(&format!("{DEPENDENCIES} {filter} ORDER BY 1 LIMIT {}", NAMED_OBJECTS + 1), oid)
    }
}

fn join_names(mut names: Vec<String>) -> String {
    if names.len() > NAMED_OBJECTS {
        names.truncate(NAMED_OBJECTS);
        names.push("…".to_owned());
    }
    names.join(", ")
}

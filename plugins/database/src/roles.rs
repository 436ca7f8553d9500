//! `roles/{name}`: templates of the users that a caller may ask for by name.

use crate::connection::{Connection, about};
use crate::credential::{self, CredentialOptions, CredentialRecipe};
use crate::statements::{self, RoleStatements};
use crate::static_role::StaticRole;
use crate::static_rotation;
use bulkhead_sdk::database_plugin::StatementAct;
use bulkhead_sdk::table::Field;
use bulkhead_sdk::wire::description::DatabaseDescription;
use bulkhead_sdk::wire::duration::show;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Answer, Call, Failure, Host, Mount, stored};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Fields of a role.
pub(crate) const FIELDS: &[Field] = &[
    Field::name_of("db_name", "connection to the users' database").required(),
    Field::texts("creation_statements", "statements to create a user"),
    Field::texts("revocation_statements", "statements to remove a user; none: the plugin's own"),
    Field::texts("rollback_statements", "statements to undo a failed creation"),
    Field::texts("renew_statements", "statements to renew a user; none: the plugin's own"),
    Field::seconds("default_ttl", "lifetime of a lease in seconds; 0: the mount's default"),
    Field::seconds("max_ttl", "maximum lifetime of a lease in seconds; 0: the mount's maximum"),
];

/// A stored role.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Role {
    pub(crate) db_name: String,
    pub(crate) creation_statements: Vec<String>,
    pub(crate) revocation_statements: Vec<String>,
    pub(crate) rollback_statements: Vec<String>,
    pub(crate) renew_statements: Vec<String>,
    /// Seconds; 0 means the mount's default.
    pub(crate) default_ttl: u64,
    /// Seconds; 0 means the mount's maximum.
    pub(crate) max_ttl: u64,
    pub(crate) credential_type: String,
    pub(crate) credential_config: CredentialOptions,
}

stored!(Role, "role", reads_stored_roles);

impl Role {
    fn key(name: &str) -> String {
        format!("role/{name}")
    }

    /// Returns the role `name`, if the role exists.
    pub(crate) fn find(host: &dyn Host, name: &str) -> Result<Option<Self>, Failure> {
        host.storage().get(&Self::key(name))
    }

    /// Returns the parsed credential type.
    pub(crate) fn recipe(&self) -> Result<CredentialRecipe<'_>, Failure> {
        CredentialRecipe::read(&self.credential_type, &self.credential_config)
    }

    fn merge(&mut self, call: &Call) -> Result<(), Failure> {
        call.merge("db_name", &mut self.db_name)?;
        call.merge("creation_statements", &mut self.creation_statements)?;
        call.merge("revocation_statements", &mut self.revocation_statements)?;
        call.merge("rollback_statements", &mut self.rollback_statements)?;
        call.merge("renew_statements", &mut self.renew_statements)?;
        call.merge("default_ttl", &mut self.default_ttl)?;
        call.merge("max_ttl", &mut self.max_ttl)?;
        credential::merge(call, &mut self.credential_type, &mut self.credential_config)
    }

    /// Checks the role without the connection, and fills in the defaults of the credential's
    /// options.
    fn check(&mut self, host: &dyn Host) -> Result<(), Failure> {
        if self.db_name.is_empty() {
            return Err(Failure::invalid("db_name is required: name the connection of the role"));
        }
        let recipe = self.recipe()?;
        recipe.check(host)?;
        self.credential_config = recipe.options();
        Ok(())
    }

    /// Checks the role with the connection and the connection's plugin.
    fn check_with(&self, host: &dyn Host, connection: &Connection) -> Result<(), Failure> {
        if connection.is_self_managed() {
            return Err(Failure::invalid(format!(
                "connection {} is self_managed and has no user to create other users; write \
                 static-roles instead",
                quoted(&self.db_name)
            )));
        }
        let credential = (self.credential_type.as_str(), &self.credential_config);
        let plugin = statements::check_role(
            host,
            (&self.db_name, connection),
            credential,
            &self.statements(),
        )?;
        self.check_creation(Some(&plugin))
    }

    /// Refuses a role without creation statements, unless the connection exists and the
    /// connection's plugin has its own creation statements (decision C1).
    fn check_creation(&self, plugin: Option<&DatabaseDescription>) -> Result<(), Failure> {
        let has_own = plugin.is_some_and(|plugin| !plugin.creation_statements_required);
        if has_own || !self.creation_statements.is_empty() {
            return Ok(());
        }
        Err(Failure::invalid("creation_statements is required: give statements to create {{name}}"))
    }

    /// Returns a warning if the creation makes accounts that the revocation statements do not name.
    /// Without such statements, the plugin ends every account.
    fn unended(
        &self,
        host: &dyn Host,
        connection: &Connection,
        name: &str,
    ) -> Result<Option<String>, Failure> {
        if self.revocation_statements.is_empty() {
            return Ok(None);
        }
        let called = connection.for_host(&self.db_name);
        let planned = host.databases().plan_accounts(&called, "", name, &self.creation_statements);
        let planned = planned.map_err(|why| about(&self.db_name, why))?;
        let statements = self.revocation_statements.join("\n").replace("{{username}}", "{{name}}");
        let others = planned.accounts.into_iter().map(|account| account.name);
        let others = others.filter(|other| *other != planned.username);
        let names = others.map(|other| other.replace(&planned.username, "{{name}}"));
        let unnamed: Vec<String> = names.filter(|name| !statements.contains(name)).collect();
        Ok((!unnamed.is_empty()).then(|| {
            format!(
                "creation_statements also make {}, and revocation_statements do not name these \
                 accounts: drop each account there, or leave revocation_statements empty; a lease \
                 stays while any account of the lease logs in",
                unnamed.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", ")
            )
        }))
    }

    fn statements(&self) -> [RoleStatements<'_>; 4] {
        [
            ("creation_statements", StatementAct::Creation, &self.creation_statements),
            ("revocation_statements", StatementAct::Revocation, &self.revocation_statements),
            ("rollback_statements", StatementAct::Rollback, &self.rollback_statements),
            ("renew_statements", StatementAct::Renewal, &self.renew_statements),
        ]
    }
}

/// Creates or changes a role.
pub(crate) fn write(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let name = call.text("name");
    if StaticRole::find(host, name)?.is_some() || static_rotation::is_open(host, name)? {
        return Err(Failure::invalid(format!(
            "Role and Static Role names must be unique: {} is a static role",
            quoted(name)
        )));
    }
    let mut role = Role::find(host, name)?.unwrap_or_default();
    role.merge(call)?;
    role.check(host)?;
    let connection = Connection::find(host, &role.db_name)?;
    match &connection {
        Some(connection) => role.check_with(host, connection)?,
        None => role.check_creation(None)?,
    }
    let unended = connection.as_ref().map(|connection| role.unended(host, connection, name));
    host.storage().put(&Role::key(name), &role)?;
    let unchecked = connection.is_none().then(|| {
        let db_name = quoted(&role.db_name);
        format!(
            "there is no connection {db_name} yet: the role's statements are not checked, and the \
             role makes no users"
        )
    });
    let unended = unended.transpose()?.flatten();
    Ok(Answer::nothing().warn(unchecked).warn(unended).warn(longer_than(&role, &call.mount)))
}

/// Shows a role.
pub(crate) fn read(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let role = Role::find(host, call.text("name"))?.ok_or_else(Failure::absent)?;
    Answer::data(&ShownRole {
        db_name: &role.db_name,
        creation_statements: &role.creation_statements,
        revocation_statements: &role.revocation_statements,
        rollback_statements: &role.rollback_statements,
        renew_statements: &role.renew_statements,
        default_ttl: role.default_ttl,
        max_ttl: role.max_ttl,
        credential_type: &role.credential_type,
        credential_config: credential::shown(&role.credential_config),
    })
}

/// A role as shown by a read.
#[derive(Serialize)]
struct ShownRole<'a> {
    db_name: &'a str,
    creation_statements: &'a [String],
    revocation_statements: &'a [String],
    rollback_statements: &'a [String],
    renew_statements: &'a [String],
    default_ttl: u64,
    max_ttl: u64,
    credential_type: &'a str,
    #[serde(skip_serializing_if = "Map::is_empty")]
    credential_config: Map<String, Value>,
}

/// Removes a role. The leases of the role stay: each lease stores the data for its own revocation.
pub(crate) fn delete(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    host.storage().delete(&Role::key(call.text("name")))?;
    Ok(Answer::nothing())
}

/// Returns a warning if the role's `max_ttl` exceeds the mount's maximum. The role keeps the given
/// value, because the mount may be tuned later; each lease is capped (decision C6).
fn longer_than(role: &Role, mount: &Mount) -> Option<String> {
    let (max_ttl, most) = (show(role.max_ttl), show(mount.max_ttl));
    (role.max_ttl > mount.max_ttl).then(|| {
        format!(
            "max_ttl {max_ttl} is longer than the mount's maximum of {most}; leases get the maximum"
        )
    })
}

#[cfg(test)]
mod tests {
    use crate::fixture::{empty, orders, reader, ready, with};
    use bulkhead_sdk::{Failure, FailureKind};
    use serde_json::{Value, json};

    #[test]
    fn a_role_is_read_as_it_was_written() {
        let bed = ready();
        let expected = json!({
            "db_name": "orders",
            "creation_statements": ["CREATE {{name}}", "GRANT reading TO {{name}}"],
            "revocation_statements": ["DROP {{name}}"],
            "rollback_statements": [],
            "renew_statements": [],
            "default_ttl": 600,
            "max_ttl": 3600,
            "credential_type": "password",
        });
        assert_eq!(Value::Object(bed.read("roles/reader").unwrap().data), expected);
        assert_eq!(bed.list("roles").unwrap().data["keys"], json!(["reader"]));
    }

    #[test]
    fn accounts_unnamed_by_revocation_cause_warning() {
        let bed = ready();
        let creation = json!(["CREATE {{name}}", "CREATE EXTRA {{name}}_extra"]);
        for (revocation, is_warned) in [
            (json!(["DROP {{name}}"]), true),
            (json!(["DROP {{name}}", "DROP {{username}}_extra"]), false),
            (json!([]), false),
        ] {
            let role = json!({
                "creation_statements": creation, "revocation_statements": revocation,
            });
            let warnings = bed.write("roles/reader", &role).unwrap().warnings;
            assert_eq!(warnings.len(), usize::from(is_warned), "{revocation}: {warnings:?}");
            assert!(warnings.iter().all(|warning| warning.contains("\"{{name}}_extra\"")));
        }
    }

    #[test]
    fn role_update_keeps_absent_and_clears_empty_fields() {
        let bed = ready();
        bed.write(
            "roles/reader",
            &json!({"credential_config": {"password_policy": "long"}, "max_ttl": 7200}),
        )
        .unwrap();
        bed.write("roles/reader", &json!({"revocation_statements": ""})).unwrap();
        let data = bed.read("roles/reader").unwrap().data;
        assert_eq!(data["credential_config"], json!({"password_policy": "long"}));
        assert_eq!(data["max_ttl"], 7200);
        assert_eq!(data["revocation_statements"], json!([]));
        bed.write("roles/reader", &json!({"credential_config": {}})).unwrap();
        assert!(!bed.read("roles/reader").unwrap().data.contains_key("credential_config"));
    }

    #[test]
    fn a_bad_role_is_refused_and_not_stored() {
        let bad = [
            (json!({"db_name": ""}), "db_name is required"),
            (json!({"creation_statements": []}), "creation_statements is required"),
            (json!({"creation_statements": ["unreadable"]}), "creation_statements: "),
            (json!({"renew_statements": ["fine", "unreadable"]}), "renew_statements: "),
            (json!({"renew_statements": "KEEP '{{password}}'"}), "renew_statements: "),
            (json!({"revocation_statements": "DROP '{{password}}'"}), "revocation_statements: "),
            (json!({"rollback_statements": "DROP '{{password}}'"}), "rollback_statements: "),
            (
                json!({"credential_type": "rsa_private_key"}),
                "unsupported credential_type: rsa_private_key",
            ),
            (json!({"credential_type": "client_certificate"}), "invalid key_type \"\""),
            (json!({"credential_type": "smoke"}), "invalid credential_type \"smoke\""),
            (json!({"credential_config": {"key_bits": "2048"}}), "\"key_bits\""),
            (json!({"default_ttl": "soon"}), "default_ttl"),
            (json!({"max_ttl": -1}), "max_ttl"),
        ];
        for (change, expected) in bad {
            let bed = empty();
            bed.write("config/orders", &orders()).unwrap();
            let refused = bed.write("roles/reader", &with(reader(), change)).err().unwrap();
            assert_eq!(refused.kind, FailureKind::InvalidRequest, "{}", refused.message);
            assert!(refused.message.contains(expected), "{}", refused.message);
            assert_eq!(bed.host.stored("role/reader"), None);
        }
    }

    #[test]
    fn statement_failure_names_field_connection_and_position() {
        let bed = ready();
        let body = json!({"revocation_statements": ["fine", "unreadable"]});
        let refused = bed.write("roles/reader", &body).err().unwrap();
        assert_eq!(
            refused.message,
            "revocation_statements: connection \"orders\": statement 1 cannot be read"
        );
    }

    #[test]
    fn creation_statements_are_optional_with_plugin_defaults() {
        let bed = ready();
        bed.host.describe_plugin(|plugin| plugin.creation_statements_required = false);
        bed.write("roles/plain", &json!({"db_name": "orders"})).unwrap();
        let refused = bed.write("roles/plain", &json!({"db_name": "unknown"})).err().unwrap();
        assert!(refused.message.contains("creation_statements is required"), "{}", refused.message);
    }

    #[test]
    fn credential_type_missing_in_plugin_is_refused() {
        let bed = ready();
        bed.host.describe_plugin(|plugin| {
            plugin.credential_types = vec!["client_certificate".to_owned()]
        });
        let refused = bed.write("roles/other", &reader()).err().unwrap();
        assert!(
            refused.message.contains("\"test-database-plugin\"; use client_certificate"),
            "{}",
            refused.message
        );
    }

    #[test]
    fn role_before_connection_is_accepted_with_warning() {
        let bed = empty();
        let reply = bed.write("roles/reader", &reader()).unwrap();
        assert_eq!(reply.warnings.len(), 1);
        assert!(reply.warnings[0].contains("\"orders\""), "{:?}", reply.warnings);
        assert!(bed.host.steps().is_empty(), "there is no plugin to ask");
    }

    #[test]
    fn maximum_above_mount_maximum_is_kept_with_warning() {
        let bed = ready();
        let reply = bed.write("roles/reader", &json!({"max_ttl": "90d"})).unwrap();
        assert_eq!(
            reply.warnings,
            ["max_ttl 90d is longer than the mount's maximum of 32d; leases get the maximum"]
        );
        assert_eq!(bed.read("roles/reader").unwrap().data["max_ttl"], 7_776_000);
    }

    #[test]
    fn removed_role_is_absent_and_second_removal_succeeds() {
        let bed = ready();
        bed.delete("roles/reader").unwrap();
        bed.delete("roles/reader").unwrap();
        assert_eq!(bed.read("roles/reader").err().unwrap(), Failure::absent());
    }
}

//! `creds/{name}`: creates a user by a role.
//!
//! The engine plans the user name, writes the lease down, and only then creates the user. If a
//! later step fails, the lease removes the user again (see [`Reservation`]). The lease learns with
//! the answer by which identities the database knows the user's accounts.

use crate::connection::{Connection, about};
use crate::credential::PlannedUser;
use crate::figures::{CREATIONS, counted};
use crate::lease::LeaseData;
use crate::lifetime::LeaseLifetime;
use crate::placement::CredentialStatements;
use crate::roles::Role;
use bulkhead_sdk::database_plugin::{NewUser, StatementAct};
use bulkhead_sdk::reservation::Reservation;
use bulkhead_sdk::template::TemplateNames;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Answer, Call, Failure, Host};
use serde_json::json;

/// Creates a user. Returns the user's name and credential, with a lease.
pub(crate) fn read(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let name = call.text("name");
    let (role, connection) = role_and_connection(host, call)?;
    let lifetime = LeaseLifetime::of_new(&role, &call.mount, host.clock().now())?;
    let called = connection.for_host(&role.db_name);
    let targets = connection.targets(host, &role.db_name);
    let targets = targets.map_err(|why| about(&role.db_name, why))?;
    let display_name = &call.caller.display_name;
    let creation = &role.creation_statements;
    let planned = host.databases().plan_accounts(&called, display_name, name, creation);
    let planned = planned.map_err(|why| about(&role.db_name, why))?;
    let username = planned.username.clone();
    let new = PlannedUser {
        names: TemplateNames { display_name, role_name: name },
        username: &username,
        expires: lifetime.expires,
    };
    let place = CredentialStatements {
        connection: &connection,
        db_name: &role.db_name,
        act: StatementAct::Creation,
        credential_type: &role.credential_type,
        statements: &role.creation_statements,
    };
    let issued = role.recipe()?.issue(host, &new, &place)?;

    let (credential, expires) = (issued.credential, lifetime.expires);
    let user = NewUser { username: username.clone(), credential, expires };
    let mut lease_data = LeaseData::new(&role, name, planned, targets);
    let reserved = Reservation::new(&username, &role.db_name, &lease_data)?;
    let mut accounts = Vec::new();
    let proof = reserved.make(host, || {
        let rollback = &role.rollback_statements;
        let created = host.databases().create_accounts(&called, &user, creation, rollback);
        accounts = created.map_err(|why| why.map(|why| about(&role.db_name, why)))?;
        Ok(())
    });
    let proof = counted(host, &CREATIONS, proof)?;
    let proof = if lease_data.learns(accounts) { proof.settle(host, &lease_data)? } else { proof };
    let mut shown = issued.shown;
    shown.insert("username".to_owned(), json!(username));
    Ok(proof.secret(&shown, lifetime.ttl, role.max_ttl)?.warn(lifetime.warnings))
}

/// Returns the role and the connection, if the role may use the connection.
fn role_and_connection(host: &dyn Host, call: &Call) -> Result<(Role, Connection), Failure> {
    let (name, mount) = (call.text("name"), &call.mount.path);
    let unknown = || {
        let shown = quoted(name);
        Failure::invalid(format!("there is no role {shown}; write {mount}roles/{name} first"))
    };
    let role = Role::find(host, name)?.ok_or_else(unknown)?;
    let connection = Connection::admitting(host, &role.db_name, name, mount)?;
    Ok((role, connection))
}

#[cfg(test)]
mod tests {
    use crate::fixture::{account, empty, orders, reader, ready, with};
    use bulkhead_sdk::database_plugin::Credential;
    use bulkhead_sdk::host::Clock;
    use bulkhead_sdk::{Failure, FailureKind, RevocationReason};
    use serde_json::json;

    #[test]
    fn lease_is_committed_before_user_exists() {
        let bed = ready();
        let reply = bed.read("creds/reader").unwrap();
        assert_eq!(
            bed.host.steps(),
            [
                "plan-accounts orders",
                "reserve v-token-reader-1 in orders",
                "checkpoint",
                "create-accounts orders v-token-reader-1",
                "amend v-token-reader-1",
            ]
        );
        assert_eq!(reply.lease.as_deref(), Some("v-token-reader-1"));
        assert_eq!((reply.ttl, reply.max_ttl), (600, 3_600));
        assert!(reply.warnings.is_empty(), "{:?}", reply.warnings);
    }

    #[test]
    fn returned_credential_matches_database_user() {
        let bed = ready();
        let reply = bed.read("creds/reader").unwrap();
        let user = bed.host.user("orders", "v-token-reader-1").unwrap();
        assert_eq!(reply.data.keys().collect::<Vec<_>>(), ["password", "username"]);
        assert_eq!(reply.data["username"], "v-token-reader-1");
        assert!(
            user.credential
                == Credential::Password(reply.data["password"].as_str().unwrap().to_owned())
        );
        assert_eq!(user.expires, bed.host.now() + 605_000);
        assert_eq!(user.statements, ["CREATE {{name}}", "GRANT reading TO {{name}}"]);
    }

    #[test]
    fn every_failure_leaves_neither_user_nor_lease() {
        let steps =
            ["get", "generate", "plan-accounts", "reserve", "checkpoint", "create-accounts"];
        for step in steps {
            let bed = ready();
            bed.host.refuse(step, Failure::new(FailureKind::Unreachable, "no answer"));
            assert_eq!(
                bed.read("creds/reader").err().unwrap().kind,
                FailureKind::Unreachable,
                "{step}"
            );
            assert_eq!(bed.host.user_count(), 0, "{step}");
            assert!(bed.host.lease_tags().is_empty(), "{step}");
        }
    }

    #[test]
    fn refused_user_creation_causes_no_removal_by_name() {
        let bed = ready();
        bed.host.refuse_creation(Failure::invalid("the user exists"));
        assert_eq!(bed.read("creds/reader").err().unwrap().kind, FailureKind::InvalidRequest);
        assert_eq!(
            bed.host.steps()[1..],
            ["reserve v-token-reader-1 in orders", "checkpoint", "end v-token-reader-1"]
        );
        assert!(bed.host.lease_tags().is_empty());
    }

    #[test]
    fn creation_with_uncertain_outcome_is_undone() {
        // Without transactions, the database may refuse the second statement after the first
        // statement created the user. The kind of the failure therefore does not matter.
        for kind in [
            FailureKind::InvalidRequest,
            FailureKind::PermissionDenied,
            FailureKind::Conflict,
            FailureKind::Internal,
        ] {
            let bed = ready();
            bed.host.lose_reply("create-accounts", Failure::new(kind, "statement 2 failed"));
            assert_eq!(bed.read("creds/reader").err().unwrap().kind, kind);
            assert_eq!(bed.host.user_count(), 0, "{kind:?}");
            assert!(bed.host.lease_tags().is_empty(), "{kind:?}");
        }
    }

    #[test]
    fn timed_out_creation_is_undone() {
        let bed = ready();
        bed.host.lose_reply(
            "create-accounts",
            Failure::new(FailureKind::TimedOut, "the database took too long"),
        );
        assert_eq!(bed.read("creds/reader").err().unwrap().kind, FailureKind::TimedOut);
        let steps = bed.host.steps();
        assert_eq!(
            steps[3..],
            [
                "create-accounts orders v-token-reader-1",
                "undo v-token-reader-1",
                "checkpoint",
                "remove-accounts orders v-token-reader-1 DROP {{name}}",
            ]
        );
        assert_eq!(bed.host.user_count(), 0);
        assert!(bed.host.lease_tags().is_empty());
    }

    #[test]
    fn an_undo_that_fails_stays_in_the_book() {
        let bed = ready();
        bed.host.lose_reply(
            "create-accounts",
            Failure::new(FailureKind::TimedOut, "the database took too long"),
        );
        bed.host.refuse("remove-accounts", Failure::new(FailureKind::Unreachable, "no answer"));
        assert!(bed.read("creds/reader").is_err());
        assert_eq!(bed.host.lease_tags(), ["v-token-reader-1"]);
    }

    #[test]
    fn role_not_admitted_by_connection_is_denied() {
        let bed = ready();
        bed.write("roles/stranger", &reader()).unwrap();
        bed.host.steps();
        let denied = bed.read("creds/stranger").err().unwrap();
        assert_eq!(denied.kind, FailureKind::PermissionDenied);
        assert!(
            denied.message.starts_with("permission denied: role \"stranger\""),
            "{}",
            denied.message
        );
        assert!(denied.message.contains("\"orders\""), "{}", denied.message);
        assert!(bed.host.steps().is_empty(), "nothing is asked of the database");
        bed.write("roles/writer-7", &reader()).unwrap();
        assert!(bed.read("creds/writer-7").is_ok(), "patterns admit");
    }

    #[test]
    fn unknown_roles_and_connections_are_the_callers_mistake() {
        let bed = empty();
        let refused = bed.read("creds/reader").err().unwrap();
        assert_eq!(refused.kind, FailureKind::InvalidRequest);
        assert_eq!(
            refused.message,
            "there is no role \"reader\"; write database/roles/reader first"
        );
        bed.write("roles/reader", &reader()).unwrap();
        let refused = bed.read("creds/reader").err().unwrap();
        assert_eq!(refused.kind, FailureKind::InvalidRequest);
        assert!(
            refused.message.contains("connection \"orders\", which does not exist"),
            "{}",
            refused.message
        );
    }

    #[test]
    fn the_roles_policy_comes_before_the_connections() {
        let bed = empty();
        let of_xs =
            |length: u32| format!("length = {length} rule \"charset\" {{ charset = \"x\" }}");
        bed.host.add_policy("short", &of_xs(8)).unwrap();
        bed.host.add_policy("long", &of_xs(40)).unwrap();
        let password =
            || bed.read("creds/reader").unwrap().data["password"].as_str().unwrap().to_owned();
        bed.write("config/orders", &orders()).unwrap();
        bed.write("roles/reader", &reader()).unwrap();
        assert!(password().starts_with("Generated-"));
        bed.write("config/orders", &json!({"password_policy": "short"})).unwrap();
        assert_eq!(password(), "x".repeat(8));
        bed.write("roles/reader", &json!({"credential_config": {"password_policy": "long"}}))
            .unwrap();
        assert_eq!(password(), "x".repeat(40));
    }

    #[test]
    fn missing_policy_is_named_before_creation() {
        let bed = ready();
        bed.write("config/orders", &json!({"password_policy": "gone"})).unwrap();
        bed.host.steps();
        let refused = bed.read("creds/reader").err().unwrap();
        assert_eq!(refused.kind, FailureKind::InvalidRequest);
        assert!(
            refused.message.contains("\"reader\"") && refused.message.contains("\"gone\""),
            "{}",
            refused.message
        );
        assert_eq!(bed.host.steps(), ["plan-accounts orders"]);
    }

    #[test]
    fn display_name_reaches_plugin_unchanged() {
        let mut bed = ready();
        bed.caller.display_name = "ldap-\"; DROP".to_owned();
        bed.read("creds/reader").unwrap();
        assert!(
            bed.host.user("orders", "v-ldap-\"; DROP-reader-1").is_some(),
            "cleaning names is the plugin's"
        );
    }

    #[test]
    fn failed_creation_names_connection_but_no_password() {
        let bed = ready();
        bed.host.refuse("create-accounts", Failure::invalid("statement 0 failed (SQLSTATE 42601)"));
        let refused = bed.read("creds/reader").err().unwrap();
        assert_eq!(refused.message, "connection \"orders\": statement 0 failed (SQLSTATE 42601)");
        assert_eq!(refused.kind, FailureKind::InvalidRequest);
    }

    #[test]
    fn lease_above_mount_maximum_is_cut_with_warning() {
        let bed = ready();
        bed.write("roles/reader", &with(reader(), json!({"default_ttl": "90d", "max_ttl": 0})))
            .unwrap();
        let reply = bed.read("creds/reader").unwrap();
        assert_eq!(reply.ttl, 2_764_800);
        assert_eq!(reply.warnings.len(), 1, "{:?}", reply.warnings);
    }

    #[test]
    fn lease_contains_revocation_data_without_password() {
        let bed = ready();
        let reply = bed.read("creds/reader").unwrap();
        let internal = bed.lease(&reply.lease.unwrap()).unwrap().internal;
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&internal).unwrap(),
            json!({
                "username": "v-token-reader-1", "role": "reader", "db_name": "orders",
                "revocation_statements": ["DROP {{name}}"], "targets": ["test://db:5432"],
                "accounts": [{"name": "v-token-reader-1", "identity": "identity-1"}],
            })
        );
    }

    #[test]
    fn lease_ends_every_created_but_no_foreign_account() {
        let bed = ready();
        let creation = json!(["CREATE {{name}}", "CREATE EXTRA {{name}}_extra"]);
        bed.write("roles/reader", &json!({ "creation_statements": creation })).unwrap();
        let tag = bed.read("creds/reader").unwrap().lease.unwrap();
        assert_eq!(bed.host.user_count(), 2);
        // Somebody else removes the user and makes another one of the same name.
        account(&bed, "orders", &tag);
        bed.revoke(&tag, RevocationReason::Expired).unwrap();
        assert!(bed.host.user("orders", &format!("{tag}_extra")).is_none());
        assert!(bed.host.user("orders", &tag).is_some(), "the user of somebody else");
    }

    #[test]
    fn an_undo_without_identities_knows_the_planned_accounts() {
        let bed = ready();
        let creation = json!(["CREATE {{name}}", "CREATE EXTRA {{name}}_extra"]);
        bed.write("roles/reader", &json!({ "creation_statements": creation })).unwrap();
        let lost = Failure::new(FailureKind::TimedOut, "the database took too long");
        bed.host.lose_reply("create-accounts", lost);
        assert!(bed.read("creds/reader").is_err());
        assert_eq!(bed.host.user_count(), 0);
    }
}

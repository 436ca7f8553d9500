//! Revocation with exactly the documented rights, and without them: the user is gone, or the
//! refusal says why and the lease stays.

use crate::world::{CREATION, Credential, World, with};
use bulkhead_tests::Answer;
use bulkhead_tests::wait::until_true;
use serde_json::{Value, json};
use std::process::Child;
use std::time::Duration;

const PASSWORD: &str = "Kp4-Zt8-Vn2-Qs6";

/// A password inside quoted code.
const IN_CODE: &str = "DO $$ BEGIN CREATE ROLE \"{{name}}\" LOGIN PASSWORD '{{password}}' IN ROLE \
                       readers; END $$";

impl World {
    /// A server whose connection `demo` logs in as `keeper`, a user with these attributes.
    fn kept_by(attributes: &str) -> Self {
        let world = Self::empty();
        world
            .postgres
            .query(&format!("CREATE ROLE keeper LOGIN PASSWORD '{PASSWORD}' {attributes}"));
        world.reconnect();
        world.role("reader", json!({ "default_ttl": "1h" }));
        world
    }

    fn reconnect(&self) -> Answer {
        let keeper = json!({ "username": "keeper", "password": PASSWORD });
        self.root.write("database/config/demo", &with(self.connection(), keeper)).expect_success()
    }

    #[track_caller]
    fn refuses_to_revoke(&self, credential: &Credential) -> String {
        let lease = json!({ "lease_id": credential.lease });
        let refused = self.root.write("sys/leases/revoke", &lease).expect(400).errors();
        self.root.write("sys/leases/lookup", &lease).expect(200);
        refused
    }

    fn logs_in(&self, credential: &Credential) -> bool {
        self.postgres.login(&credential.username, &credential.password, "SELECT 1").is_ok()
    }
}

fn is_ended(session: &mut Child) {
    until_true("the open session is ended", Duration::from_secs(5), || {
        session.try_wait().expect("the client is ours").is_some()
    });
}

#[test]
fn createrole_suffices_to_remove_user_and_sessions() {
    let world = World::kept_by("CREATEROLE");
    let warnings = world.reconnect().warnings();
    assert!(!warnings.contains("CREATEROLE"), "{warnings}");
    let credential = world.credential("reader");
    let mut session = world.postgres.sleeper(&credential.username, &credential.password);
    world.revoke(&credential.lease);
    assert!(!world.postgres.has_user(&credential.username));
    is_ended(&mut session);
}

#[test]
fn revocation_without_createrole_fails_visibly_and_keeps_lease() {
    let world = World::kept_by("CREATEROLE");
    let credential = world.credential("reader");
    let left = world.credential("reader");
    let mut session = world.postgres.sleeper(&credential.username, &credential.password);
    world.postgres.query("ALTER ROLE keeper NOCREATEROLE");
    let warnings = world.reconnect().warnings();
    assert!(
        warnings.contains("connection \"demo\"") && warnings.contains("CREATEROLE"),
        "{warnings}"
    );
    let refused = world.refuses_to_revoke(&credential);
    assert!(refused.contains("keeper") && refused.contains("again"), "{refused}");
    // Revocation statements that leave the user in place are not a removal.
    world.role("reader", json!({ "revocation_statements": "SELECT 1" }));
    let refused = world.refuses_to_revoke(&left);
    assert!(world.logs_in(&left));
    assert!(refused.contains("can log in") && refused.contains("CREATEROLE"), "{refused}");

    world.postgres.query("ALTER ROLE keeper CREATEROLE");
    world.role("reader", json!({ "revocation_statements": [] }));
    world.revoke(&credential.lease);
    world.revoke(&left.lease);
    assert_eq!(world.postgres.users(), Vec::<String>::new());
    is_ended(&mut session);
}

/// Functions of the operator create and drop users; `keeper` itself has no rights.
#[test]
fn lease_stays_while_removed_user_has_sessions() {
    let world = World::kept_by("");
    world.postgres.query(
        "CREATE FUNCTION make_user(text, text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS \
         $$ BEGIN EXECUTE format('CREATE ROLE %I LOGIN PASSWORD %L IN ROLE readers', $1, $2); END \
         $$; \
         CREATE FUNCTION drop_user(text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS $$ \
         BEGIN EXECUTE format('DROP ROLE IF EXISTS %I', $1); END $$",
    );
    let role = json!({
        "creation_statements": ["SELECT make_user('{{name}}', '{{password}}')"],
        "revocation_statements": ["SELECT drop_user('{{name}}')"],
    });
    world.role("reader", role);
    let quiet = world.credential("reader");
    let busy = world.credential("reader");
    let mut session = world.postgres.sleeper(&busy.username, &busy.password);
    world.revoke(&quiet.lease);
    assert!(!world.postgres.has_user(&quiet.username));
    for _ in 0..2 {
        let refused = world.refuses_to_revoke(&busy);
        assert!(refused.contains("pg_signal_backend"), "{refused}");
        assert!(session.try_wait().expect("the client is ours").is_none());
    }
    world.postgres.query("GRANT pg_signal_backend TO keeper");
    world.revoke(&busy.lease);
    assert_eq!(world.postgres.users(), Vec::<String>::new());
    is_ended(&mut session);
}

#[test]
fn unpreparable_statements_lock_user_out() {
    let world = World::empty();
    // Without a connection no plugin can check the statements.
    world.role("reader", json!({ "revocation_statements": "SELECT '{{password}}'" }));
    world.connect("demo");
    let credential = world.credential("reader");
    let mut session = world.postgres.sleeper(&credential.username, &credential.password);
    let refused = world.refuses_to_revoke(&credential);
    for said in ["{{password}}", "{{name}} and {{username}}", "write role", "revoke again"] {
        assert!(refused.contains(said), "{refused}");
    }
    assert!(!world.logs_in(&credential));
    is_ended(&mut session);
    world.role("reader", json!({ "revocation_statements": [] }));
    world.revoke(&credential.lease);
    assert_eq!(world.postgres.users(), Vec::<String>::new());
}

#[test]
fn placeholders_without_value_are_refused_when_writing_statements() {
    let world = World::new();
    let refused = |path: &str, body: &Value, said: &[&str]| {
        let refused = world.root.write(path, body).expect(400).errors();
        said.iter().for_each(|said| assert!(refused.contains(said), "{path}: {refused}"));
        refused
    };
    for (field, text, exist) in [
        ("renew_statements", "SELECT '{{password}}'", "{{name}}, {{username}} and {{expiration}}"),
        ("revocation_statements", "DROP ROLE \"{{subject}}\"", "{{name}} and {{username}}"),
        ("rollback_statements", "DROP ROLE \"{{expiration}}\"", "{{name}} and {{username}}"),
    ] {
        let role = json!({ "db_name": "demo", "creation_statements": [CREATION], field: text });
        refused("database/roles/other", &role, &[field, "which has no value", exist]);
    }
    world.root.read("database/roles/other").expect(404);
    let app = json!({
        "db_name": "demo", "username": "app", "rotation_period": "1h",
        "rotation_statements": "ALTER ROLE \"{{name}}\" PASSWORD '{{password}}' VALID UNTIL \
                                '{{expiration}}'",
    });
    world.postgres.query("CREATE ROLE app LOGIN PASSWORD 'Hv3-Pq8-Lm5-Zd1'");
    refused("database/static-roles/app", &app, &["rotation_statements", "{{expiration}}"]);
    assert!(world.postgres.login("app", "Hv3-Pq8-Lm5-Zd1", "SELECT 1").is_ok());
    let root = json!({ "root_rotation_statements": "ALTER ROLE x PASSWORD '{{pasword}}'" });
    let said = ["root_rotation_statements", "{{pasword}}", "{{username}} and {{password}}"];
    refused("database/config/demo", &with(world.connection(), root), &said);
}

#[test]
fn quoted_code_has_safe_password_or_is_refused() {
    let world = World::new();
    let policy = |name: &str, charset: &str| {
        // Long enough that a thousand passwords have no password of a single repeated character.
        let text = format!("length = 40 rule \"charset\" {{ charset = \"{charset}\" }}");
        world
            .root
            .write(&format!("sys/policies/password/{name}"), &json!({ "policy": text }))
            .expect_success();
    };
    policy("signs", "abcdefgh!@#$%^&*");
    policy("quotes", "abcdefgh!@#$%^&*'");
    policy("none", "'!");
    let role = |policy: &str| {
        let config = json!({ "password_policy": policy });
        json!({ "creation_statements": [IN_CODE], "credential_config": config })
    };
    for policy in ["signs", "quotes"] {
        world.role("code", role(policy));
        for _ in 0..12 {
            let credential = world.credential("code");
            assert!(world.logs_in(&credential), "{}", credential.password);
            world.revoke(&credential.lease);
        }
    }
    let none = with(role("none"), json!({ "db_name": "demo" }));
    let refused = world.root.write("database/roles/none", &none).expect(400).errors();
    for said in ["creation_statements", "policy \"none\"", "{{password}}"] {
        assert!(refused.contains(said), "{refused}");
    }
    world.root.read("database/roles/none").expect(404);
}

#[test]
fn quoted_code_takes_verifiers_and_static_passwords_safely() {
    let world = World::empty();
    let scram = json!({ "password_authentication": "scram-sha-256" });
    let connection = with(world.connection(), scram);
    world.root.write("database/config/demo", &connection).expect_success();
    world.role("code", json!({ "creation_statements": [IN_CODE] }));
    for _ in 0..12 {
        let credential = world.credential("code");
        assert!(world.logs_in(&credential));
        world.revoke(&credential.lease);
    }
    world.postgres.query("CREATE ROLE app LOGIN PASSWORD 'Hv3-Pq8-Lm5-Zd1'");
    let app = json!({
        "db_name": "demo", "username": "app", "rotation_period": "1h",
        "rotation_statements":
            "DO $$ BEGIN ALTER ROLE \"{{name}}\" PASSWORD '{{password}}'; END $$",
    });
    world.root.write("database/static-roles/app", &app).expect(204);
    for _ in 0..12 {
        world.root.write("database/rotate-role/app", &json!({})).expect(204);
    }
    let unquoted = with(
        app,
        json!({
            "username": "other", "rotation_statements": "ALTER ROLE x PASSWORD {{password}}",
        }),
    );
    let refused = world.root.write("database/static-roles/other", &unquoted).expect(400).errors();
    assert!(refused.contains("rotation_statements: "), "{refused}");
}

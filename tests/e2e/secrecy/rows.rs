//! Each refusal of the database engine with a secret in the same request: nothing is stored, the
//! database is unchanged, and no part of the secret appears.

use super::world;
use crate::world::{World, with};
use bulkhead_tests::leaks::CANARY;
use serde_json::{Value, json};
use std::fs;

/// Password of the account before Bulkhead takes it over.
const FIRST: &str = "Hv3-Pq8-Lm5-Zd1";

/// The state that may not change: the configuration, and each database user with the password
/// verifier.
fn state(world: &World) -> (Value, Value, String) {
    let users = "SELECT string_agg(rolname || coalesce(rolpassword, ''), ' ' ORDER BY rolname) \
                 FROM pg_authid";
    let accounts = world.root.read("database/static-creds/app").body["data"]["password"].clone();
    let listed = world.root.list("database/static-roles").body["data"]["keys"].clone();
    (world.configured(), json!([accounts, listed]), world.postgres.query(users))
}

/// Asserts that `base` with each of `rows` on top is refused and changes nothing.
#[track_caller]
fn refuse_all(world: &World, path: &str, base: &Value, rows: &[Value]) {
    let before = state(world);
    for row in rows {
        let answer = world.root.write(path, &with(base.clone(), row.clone()));
        assert_eq!(answer.status, 400, "{path} {row}: {:?}", answer.body);
        assert!(!answer.errors().is_empty(), "{path} {row}");
        assert_eq!(state(world), before, "{path} {row} changed something");
    }
    world.root.read("sys/metrics").expect(200);
    let lines = fs::read_to_string(world.bulkhead.data().join("audit.log"));
    assert!(lines.expect("the audit lines").contains(path), "the refusals are recorded");
    world.bulkhead.assert_silent(CANARY);
}

#[test]
fn refused_connections_change_nothing_and_show_nothing() {
    let world = world();
    let encoded: String = CANARY.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let inline = |rest: &str| format!("postgresql://bulkhead:{encoded}@{rest}");
    let rows = [
        json!({ "plugin_name": "" }),
        json!({ "plugin_name": "none-such" }),
        json!({ "plugin_version": "abc" }),
        json!({ "plugin_version": "9.9.9" }),
        json!({ "connection_url": "" }),
        json!({ "connection_url": inline("127.0.0.1:99999/demo") }),
        json!({ "connection_url": inline("127.0.0.1:1/demo?sslmode=maybe") }),
        json!({ "connection_url": inline("127.0.0.1:1/demo?sslrootcert=/etc/passwd") }),
        json!({ "connection_url": inline("%2Fvar%2Frun/demo") }),
        json!({ "connection_url": inline("169.254.169.254/demo?sslmode=disable") }),
        json!({ "connection_url": format!("host=/var/run password='{CANARY}") }),
        json!({ "username": "{{username}}" }),
        json!({ "password": format!("{CANARY}{{{{password}}}}") }),
        json!({ "password": format!("wrong{CANARY}") }),
        json!({ "max_open_connections": "many" }),
        json!({ "max_connection_lifetime": "soon" }),
        json!({ "connect_timeout": "-5" }),
        json!({ "password_authentication": "md5" }),
        json!({ "auth_type": "gcp_iam", "service_account_json": CANARY }),
        json!({ "private_key": CANARY, "tls_certificate": CANARY }),
        json!({ "username_template": "{{.Nope" }),
        json!({ "allowed_roles": { "a": 1 } }),
        json!({ "rotation_schedule": "0 0 * * *", "rotation_period": "1h" }),
        json!({ "rotation_schedule": "@daily" }),
        json!({ "rotation_schedule": "0 0 * * * *" }),
        json!({ "rotation_window": "1h", "rotation_period": "1h" }),
        json!({ "rotation_window": "1h" }),
        json!({ "rotation_window": 60, "rotation_schedule": "0 0 * * *" }),
        json!({ "rotation_period": 5 }),
        json!({ "rotation_period": "1h", "connection_url": inline("127.0.0.1:1/demo") }),
    ];
    refuse_all(&world, "database/config/bad", &world.connection(), &rows);
    world.root.write("database/config/bad", &world.connection()).expect_success();
}

#[test]
fn refused_roles_change_nothing_and_show_nothing() {
    let world = world();
    let base = json!({
        "db_name": "demo", "creation_statements": [crate::world::CREATION],
    });
    let certificate = |config: Value| {
        let whole = json!({
            "common_name_template": "{{.Username}}", "ca_cert": CANARY, "ca_private_key": CANARY,
            "key_type": "ec",
        });
        json!({ "credential_type": "client_certificate", "credential_config": with(whole, config) })
    };
    let rows = [
        json!({ "db_name": "" }),
        json!({ "creation_statements": [] }),
        json!({ "creation_statements": ["CREATE ROLE \"{{name}} LOGIN"] }),
        json!({ "default_ttl": "-5" }),
        json!({ "max_ttl": "soon" }),
        json!({ "credential_type": "x" }),
        json!({ "credential_type": "rsa_private_key", "credential_config": {} }),
        json!({ "credential_config": CANARY }),
        certificate(json!({})),
        certificate(json!({ "key_type": "dsa" })),
        certificate(json!({ "key_bits": 1 })),
        certificate(json!({ "key_bits": 224 })),
        certificate(json!({ "signature_bits": 7 })),
        certificate(json!({ "common_name_template": "" })),
        certificate(json!({ "common_name_template": "{{.Nope" })),
        certificate(json!({ "ca_cert": "" })),
    ];
    refuse_all(&world, "database/roles/bad", &base, &rows);
    world.root.write("database/roles/bad", &base).expect_success();
}

#[test]
fn refused_static_roles_change_nothing_and_show_nothing() {
    let world = world();
    for (user, password) in [("app", FIRST), ("other", CANARY)] {
        let password = password.replace('\'', "''");
        world.postgres.query(&format!("CREATE ROLE \"{user}\" LOGIN PASSWORD '{password}'"));
    }
    let app = json!({ "db_name": "demo", "username": "app", "rotation_period": "1h" });
    world.root.write("database/static-roles/app", &app).expect(204);
    let base = json!({
        "db_name": "demo", "username": "other", "skip_import_rotation": true, "password": CANARY,
    });
    let due = with(base.clone(), json!({ "rotation_period": "1h" }));
    refuse_all(&world, "database/static-roles/reader", &due, &[json!({})]);
    refuse_all(&world, "database/static-roles/bad", &base, &[json!({})]);
    let schedule = |cron: &str| json!({ "rotation_schedule": cron });
    let rows = [
        json!({ "db_name": "" }),
        json!({ "db_name": "none-such" }),
        json!({ "username": "" }),
        json!({ "username": "app" }),
        json!({ "username": "bulkhead" }),
        json!({ "rotation_schedule": "0 0 * * *" }),
        json!({ "rotation_period": 4 }),
        json!({ "rotation_window": "1h" }),
        json!({ "skip_import_rotation": false }),
        json!({ "password": "" }),
        json!({ "credential_type": "x" }),
        json!({ "credential_type": "client_certificate" }),
        json!({ "rotation_statements": ["ALTER ROLE \"{{name}} LOGIN"] }),
    ];
    refuse_all(&world, "database/static-roles/bad", &due, &rows);
    let crons =
        ["0 0 * * * *", "@daily", "foo", "0 0 30 2 *", "0 0 * * 7", "TZ=UTC", "TZ=No/No * * * * *"];
    refuse_all(&world, "database/static-roles/bad", &base, &crons.map(schedule));
    let window = with(base.clone(), schedule("0 0 * * *"));
    refuse_all(&world, "database/static-roles/bad", &window, &[json!({ "rotation_window": 60 })]);
    let changes = [
        json!({ "username": "other", "password": CANARY }),
        json!({ "db_name": "elsewhere", "password": CANARY }),
        json!({ "password": CANARY }),
    ];
    refuse_all(&world, "database/static-roles/app", &json!({}), &changes);
    world.root.write("database/static-roles/bad", &due).expect_success();
}

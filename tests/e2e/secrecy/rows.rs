//! Each refusal of the database engine with a secret in the same request: the refusal is about the
//! row, nothing is stored, the database is unchanged, and no part of the secret appears.

use super::world;
use crate::world::{World, with};
use bulkhead_tests::leaks::CANARY;
use serde_json::{Value, json};
use std::fs;

/// Password of the account before Bulkhead takes it over.
const FIRST: &str = "Hv3-Pq8-Lm5-Zd1";

/// Words of refusals that several tables contain.
const BOTH_TIMES: &str = "rotation_period and rotation_schedule were both specified";
const WINDOW_OF_PERIOD: &str = "rotation_window does not apply to rotation_period";
const SHORT_WINDOW: &str = "rotation_window must be 3600 seconds or more";

/// Fields on top of a base, and the words that the refusal must contain. Without the words, a row
/// would pass although an earlier check refused another field.
type RefusedFields = (Value, &'static str);

/// The state that may not change: the configuration, and each database user with the password
/// verifier.
fn state(world: &World) -> (Value, Value, String) {
    let users = "SELECT string_agg(rolname || coalesce(rolpassword, ''), ' ' ORDER BY rolname) \
                 FROM pg_authid";
    let accounts = world.root.read("database/static-creds/app").body["data"]["password"].clone();
    let listed = world.root.list("database/static-roles").body["data"]["keys"].clone();
    (world.configured(), json!([accounts, listed]), world.postgres.query(users))
}

/// Asserts that `base` with each of `rows` on top is refused for the row's reason and changes
/// nothing.
#[track_caller]
fn refuse_all(world: &World, path: &str, base: &Value, rows: &[RefusedFields]) {
    let before = state(world);
    for (row, words) in rows {
        let answer = world.root.write(path, &with(base.clone(), row.clone()));
        assert_eq!(answer.status, 400, "{path} {row}: {:?}", answer.body);
        let errors = answer.errors();
        assert!(errors.contains(words), "{path} {row}: {errors:?} does not contain {words:?}");
        assert_eq!(state(world), before, "{path} {row} changed something");
    }
    world.root.read("sys/metrics").expect(200);
    let lines = fs::read_to_string(world.bulkhead.data().join("audit.log"));
    assert!(lines.expect("the audit lines").contains(path), "the refusals are recorded");
    world.bulkhead.assert_silent(CANARY);
}

/// Plugins, addresses and logins of a connection. `inline` makes a URL that contains the secret.
fn refused_logins(inline: impl Fn(&str) -> String) -> Vec<RefusedFields> {
    let url = |rest: &str| json!({ "connection_url": inline(rest) });
    let quoted = format!("host=/var/run password='{CANARY}");
    vec![
        (json!({ "plugin_name": "" }), "plugin_name is required"),
        (json!({ "plugin_name": "none-such" }), "there is no database plugin \"none-such\""),
        (json!({ "plugin_version": "abc" }), "plugin_version \"abc\" is not a semantic version"),
        (json!({ "plugin_version": "9.9.9" }), "has no version \"9.9.9\""),
        (json!({ "connection_url": "" }), "connection_url is required"),
        (url("127.0.0.1:99999/demo"), "connection_url has a port other than a number"),
        (url("127.0.0.1:1/demo?sslmode=maybe"), "connection_url has an unknown sslmode"),
        (
            url("127.0.0.1:1/demo?sslrootcert=/etc/passwd"),
            "connection_url names a file in sslrootcert",
        ),
        (url("%2Fvar%2Frun/demo"), "connection_url names a Unix socket"),
        (url("169.254.169.254/demo?sslmode=disable"), "names an address never dialled"),
        (json!({ "connection_url": quoted }), "connection_url is not a list of keyword=value"),
        (json!({ "username": "{{username}}" }), "username must be the value itself"),
        (
            json!({ "password": format!("{CANARY}{{{{password}}}}") }),
            "password must be the value itself",
        ),
        (
            json!({ "password": format!("wrong{CANARY}") }),
            "(SQLSTATE 28P01); check username and password",
        ),
        (json!({ "auth_type": "gcp_iam", "service_account_json": CANARY }), "auth_type is not"),
        (
            json!({ "private_key": CANARY, "tls_certificate": CANARY }),
            "tls_certificate must hold PEM text",
        ),
        (json!({ "private_key": CANARY }), "private_key must hold PEM text"),
    ]
}

/// Limits, names and rotations of a connection. `inline` makes a URL that contains the secret.
fn refused_settings(inline: impl Fn(&str) -> String) -> Vec<RefusedFields> {
    let nightly = "0 0 * * *";
    let fixed = inline("127.0.0.1:1/demo");
    vec![
        (json!({ "max_open_connections": "many" }), "max_open_connections must be a whole number"),
        (
            json!({ "max_connection_lifetime": "soon" }),
            "max_connection_lifetime must be a duration",
        ),
        (json!({ "connect_timeout": "-5" }), "connect_timeout must be a duration"),
        (json!({ "password_authentication": "md5" }), "password_authentication must be password"),
        (
            json!({ "username_template": "{{.Nope" }),
            "username_template cannot be used: an action opened with",
        ),
        (json!({ "allowed_roles": { "a": 1 } }), "allowed_roles: an object is not a list"),
        (json!({ "rotation_schedule": nightly, "rotation_period": "1h" }), BOTH_TIMES),
        (json!({ "rotation_schedule": "@daily" }), "descriptors such as \"@daily\" are not read"),
        (
            json!({ "rotation_schedule": "0 0 * * * *" }),
            "rotation_schedule \"0 0 * * * *\": five fields are expected",
        ),
        (json!({ "rotation_window": "1h", "rotation_period": "1h" }), WINDOW_OF_PERIOD),
        (json!({ "rotation_window": "1h" }), "rotation_window without rotation_schedule"),
        (json!({ "rotation_window": 60, "rotation_schedule": nightly }), SHORT_WINDOW),
        (json!({ "rotation_period": 5 }), "rotation_period must be 10 seconds or more"),
        (
            json!({ "rotation_period": "1h", "connection_url": fixed }),
            "connection_url must template {{password}}",
        ),
    ]
}

#[test]
fn refused_connections_change_nothing_and_show_nothing() {
    let world = world();
    let encoded: String = CANARY.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let inline = |rest: &str| format!("postgresql://bulkhead:{encoded}@{rest}");
    let rows = [refused_logins(inline), refused_settings(inline)].concat();
    refuse_all(&world, "database/config/bad", &world.connection(), &rows);
    world.root.write("database/config/bad", &world.connection()).expect_success();
}

/// The fields of a client certificate with the secret as authority, and with `options` on top.
fn certificate(options: Value) -> Value {
    let config = json!({
        "common_name_template": "{{.Username}}", "ca_cert": CANARY, "ca_private_key": CANARY,
        "key_type": "ec",
    });
    json!({ "credential_type": "client_certificate", "credential_config": with(config, options) })
}

/// Client certificates of a role, each with another wrong option.
fn refused_certificates() -> Vec<RefusedFields> {
    vec![
        (certificate(json!({})), "credential_config validation failed: ca_cert: "),
        (certificate(json!({ "key_type": "dsa" })), "invalid key_type \"dsa\""),
        (certificate(json!({ "key_bits": 1 })), "invalid key_bits \"1\""),
        (certificate(json!({ "key_bits": 224 })), "invalid key_bits \"224\""),
        (certificate(json!({ "signature_bits": 7 })), "invalid signature_bits \"7\""),
        (
            certificate(json!({ "common_name_template": "" })),
            "missing required common_name_template",
        ),
        (
            certificate(json!({ "common_name_template": "{{.Nope" })),
            "invalid common_name_template: an action opened with",
        ),
        (certificate(json!({ "ca_cert": "" })), "missing required ca_cert"),
    ]
}

#[test]
fn refused_roles_change_nothing_and_show_nothing() {
    let world = world();
    let base = json!({
        "db_name": "demo", "creation_statements": [crate::world::CREATION],
    });
    let rows = vec![
        (json!({ "db_name": "" }), "db_name is required"),
        (json!({ "creation_statements": [] }), "creation_statements is required"),
        (
            json!({ "creation_statements": ["CREATE ROLE \"{{name}} LOGIN"] }),
            "creation_statements: connection \"demo\": statement 1, character 13: the text opens",
        ),
        (json!({ "default_ttl": "-5" }), "default_ttl: \"-5\" is not a duration"),
        (json!({ "max_ttl": "soon" }), "max_ttl: \"soon\" is not a duration"),
        (json!({ "credential_type": "x" }), "invalid credential_type \"x\""),
        (
            json!({ "credential_type": "rsa_private_key", "credential_config": {} }),
            "rsa_private_key is not a type of plugin",
        ),
        (json!({ "credential_config": CANARY }), "credential_config: a text is not a set"),
    ];
    let rows = [rows, refused_certificates()].concat();
    refuse_all(&world, "database/roles/bad", &base, &rows);
    world.root.write("database/roles/bad", &base).expect_success();
}

/// Static roles with a period of one hour and a given password, each with another wrong field.
/// `current` is the password of the account `app`, and another static role owns the account.
fn refused_static_roles(current: &str) -> Vec<RefusedFields> {
    let nightly = "0 0 * * *";
    vec![
        (json!({ "db_name": "" }), "db_name is required"),
        (json!({ "db_name": "none-such" }), "needs connection \"none-such\", which does not exist"),
        (json!({ "username": "" }), "username is required"),
        (json!({ "username": "app" }), "refuses password for user \"app\""),
        (json!({ "username": "app", "password": current }), "an account has one owner"),
        (json!({ "username": "bulkhead" }), "user \"bulkhead\" is the login of connection"),
        (json!({ "rotation_schedule": nightly }), BOTH_TIMES),
        (json!({ "rotation_period": 4 }), "rotation_period must be 5 seconds or more"),
        (json!({ "rotation_window": "1h" }), WINDOW_OF_PERIOD),
        (json!({ "skip_import_rotation": false }), "password is only for skip_import_rotation"),
        (json!({ "password": "" }), "password is required"),
        (json!({ "credential_type": "x" }), "invalid credential_type \"x\""),
        (json!({ "credential_type": "client_certificate" }), "invalid key_type \"\""),
        (certificate(json!({})), "\"client_certificate\" is for dynamic roles"),
        (
            json!({ "rotation_statements": ["ALTER ROLE \"{{name}} LOGIN"] }),
            "rotation_statements: connection \"demo\": statement 1, character 12: the text opens",
        ),
    ]
}

/// Schedules that are wrong, never due or in an unknown time zone.
fn refused_schedules() -> [RefusedFields; 7] {
    [
        ("0 0 * * * *", "rotation_schedule \"0 0 * * * *\": five fields are expected"),
        ("@daily", "descriptors such as \"@daily\" are not read"),
        ("foo", "rotation_schedule \"foo\": five fields are expected"),
        ("0 0 30 2 *", "\"0 0 30 2 *\" is never due"),
        ("0 0 * * 7", "day of week \"7\" has no value \"7\""),
        ("TZ=UTC", "rotation_schedule \"TZ=UTC\": five fields are expected"),
        ("TZ=No/No * * * * *", "there is no time zone \"No/No\""),
    ]
    .map(|(schedule, words)| (json!({ "rotation_schedule": schedule }), words))
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
    let current = world.root.read("database/static-creds/app").expect(200);
    let base = json!({
        "db_name": "demo", "username": "other", "skip_import_rotation": true, "password": CANARY,
    });
    let due = with(base.clone(), json!({ "rotation_period": "1h" }));
    let of_a_role = [(json!({}), "names must be unique: \"reader\" is a role")];
    refuse_all(&world, "database/static-roles/reader", &due, &of_a_role);
    let bad = "database/static-roles/bad";
    let never = [(json!({}), "one of rotation_schedule or rotation_period must be provided")];
    refuse_all(&world, bad, &base, &never);
    refuse_all(&world, bad, &due, &refused_static_roles(current.text("password")));
    refuse_all(&world, bad, &base, &refused_schedules());
    let window = with(base.clone(), json!({ "rotation_schedule": "0 0 * * *" }));
    refuse_all(&world, bad, &window, &[(json!({ "rotation_window": 60 }), SHORT_WINDOW)]);
    let changes = [
        (
            json!({ "username": "other", "password": CANARY }),
            "cannot update static account username from \"app\" to \"other\"",
        ),
        (
            json!({ "db_name": "elsewhere", "password": CANARY }),
            "cannot update static account db_name from \"demo\" to \"elsewhere\"",
        ),
        (json!({ "password": CANARY }), "updating password not allowed after rotation"),
    ];
    refuse_all(&world, "database/static-roles/app", &json!({}), &changes);
    world.root.write(bad, &due).expect_success();
}

//! PostgreSQL's own features, with a real server: certificates on both sides, several hosts, and
//! accounts that change their own passwords.

use crate::world::{World, with};
use bulkhead_tests::Postgres;
use bulkhead_tests::paths::repository;
use serde_json::{Value, json};
use std::net::TcpListener;

mod creations;
mod error_codes;
mod identities;
mod login_causes;
mod rights;

/// Creates a user that logs in with a certificate.
const CERTIFIED: &str = "CREATE ROLE \"{{name}}\" LOGIN VALID UNTIL '{{expiration}}' IN ROLE \
                         readers, certified";

/// The connection URL with additional parameters.
fn url(world: &World, parameters: &str) -> String {
    let port = world.postgres.port;
    format!("postgresql://{{{{username}}}}:{{{{password}}}}@127.0.0.1:{port}/demo?{parameters}")
}

/// The certificate of an authority that signed no certificate of these tests.
fn other_authority() -> String {
    let path = repository().join("host/outbound/src/http/fixtures/other-authority.pem");
    std::fs::read_to_string(path).expect("the fixture can be read")
}

fn percent_encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

#[test]
fn a_connection_trusts_only_its_own_authorities() {
    let world = World::empty();
    let authority = world.postgres.authority.certificate();
    let connect = |more: Value| {
        world.root.write("database/config/demo", &with(world.connection(), more)).status
    };
    for mode in ["verify-full", "verify-ca", "require"] {
        let url = url(&world, &format!("sslmode={mode}"));
        assert_eq!(connect(json!({ "connection_url": url, "tls_ca": other_authority() })), 503);
        assert!(connect(json!({ "connection_url": url, "tls_ca": authority })) < 300, "{mode}");
    }
    let inline =
        format!("sslmode=verify-full&sslinline=true&sslrootcert={}", percent_encoded(&authority));
    let public = json!({ "connection_url": url(&world, "sslmode=verify-full"), "tls_ca": "" });
    assert_eq!(connect(public), 503, "no public authority signed it");
    assert!(connect(json!({ "connection_url": url(&world, &inline), "tls_ca": "" })) < 300);
    world.role("reader", json!({}));
    let credential = world.credential("reader");
    world.revoke(&credential.lease);
}

#[test]
fn a_connection_authenticates_with_a_client_certificate() {
    let world = World::empty();
    world.postgres.query("CREATE ROLE keeper LOGIN SUPERUSER; GRANT certified TO keeper");
    let connect = |subject: &str| {
        let (certificate, key) = world.postgres.authority.client(subject);
        let shown = json!({
            "connection_url": url(&world, "sslmode=verify-full"), "username": "keeper",
            "password": "", "tls_ca": world.postgres.authority.certificate(),
            "tls_certificate": certificate, "private_key": key,
        });
        world.root.write("database/config/demo", &with(world.connection(), shown))
    };
    connect("/CN=other").expect(400);
    connect("/CN=keeper").expect_success();
    world.role("reader", json!({}));
    let credential = world.credential("reader");
    let read = world.root.read("database/config/demo").expect(200).body.to_string();
    assert!(!read.contains("PRIVATE KEY"), "{read}");
    world.revoke(&credential.lease);
}

#[test]
fn issued_certificate_logs_in_until_lease_ends() {
    let world = World::new();
    let authority = &world.postgres.authority;
    for key_type in ["ec", "rsa", "ed25519"] {
        let config = json!({
            "common_name_template": "{{.Username}}", "key_type": key_type,
            "ca_cert": authority.certificate(), "ca_private_key": authority.key(),
        });
        let certified = json!({
            "credential_type": "client_certificate", "credential_config": config,
            "creation_statements": [CERTIFIED], "default_ttl": "1h",
        });
        world.role("certified", certified);
        let answer = world.root.read("database/creds/certified").expect(200);
        let [user, certificate, key] =
            ["username", "client_certificate", "private_key"].map(|name| answer.text(name));
        let query = "SELECT item FROM orders WHERE id = 1";
        let login = |user: &str| world.postgres.login_certified(user, certificate, key, query);
        assert_eq!(login(user).as_deref(), Ok("rope"), "{key_type}");
        let second = world.root.read("database/creds/certified").expect(200);
        assert!(
            login(second.text("username")).is_err(),
            "the user cannot log in with another password"
        );
        world.revoke(answer.lease());
        world.revoke(second.lease());
        assert!(login(user).is_err());
    }
    assert_eq!(world.postgres.users(), Vec::<String>::new());
}

#[test]
fn account_of_userless_connection_changes_own_password() {
    let world = World::empty();
    world.postgres.query("CREATE ROLE app LOGIN PASSWORD 'Hv3-Pq8-Lm5-Zd1'");
    let managed = json!({ "self_managed": true, "username": "", "password": "" });
    let connection = with(world.connection(), managed);
    world.root.write("database/config/demo", &connection).expect_success();
    let role = json!({ "db_name": "demo", "username": "app", "rotation_period": "1h" });
    let path = "database/static-roles/app";
    world.root.write(path, &role).expect(400);
    world.root.write(path, &with(role.clone(), json!({ "password": "wrong-one" }))).expect(400);
    assert!(world.postgres.login("app", "Hv3-Pq8-Lm5-Zd1", "SELECT 1").is_ok());
    let role_with_password = with(role, json!({ "password": "Hv3-Pq8-Lm5-Zd1" }));
    world.root.write(path, &role_with_password).expect(204);
    let shown = || {
        let answer = world.root.read("database/static-creds/app").expect(200);
        answer.text("password").to_owned()
    };
    let first = shown();
    world.root.write("database/rotate-role/app", &json!({})).expect(204);
    for (password, logs_in) in [("Hv3-Pq8-Lm5-Zd1", false), (&first, false), (&shown(), true)] {
        assert_eq!(world.postgres.login("app", password, "SELECT 1").is_ok(), logs_in);
    }
    let dynamic = json!({ "db_name": "demo", "creation_statements": [CERTIFIED] });
    world.root.write("database/roles/reader", &dynamic).expect(400);
}

#[test]
fn first_answering_writable_host_is_used() {
    let world = World::empty();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let closed = listener.local_addr().expect("the listener has an address").port();
    drop(listener);
    let standby = Postgres::start_with(&world.postgres.password, &[]);
    standby.query("ALTER SYSTEM SET default_transaction_read_only = on");
    standby.query("SELECT pg_reload_conf()");
    let ports = [closed, standby.port, world.postgres.port];
    let hosts = ports.map(|port| format!("127.0.0.1:{port}")).join(",");
    let written = |more: &str| {
        let url = format!("postgresql://{{{{username}}}}:{{{{password}}}}@{hosts}/demo?{more}");
        let connection = with(world.connection(), json!({ "connection_url": url }));
        world.root.write("database/config/demo", &connection).status
    };
    assert!(written("sslmode=disable&target_session_attrs=read-write") < 300);
    world.role("reader", json!({}));
    let credential = world.credential("reader");
    world.revoke(&credential.lease);
    assert_eq!(written("target_session_attrs=standby"), 400);
}

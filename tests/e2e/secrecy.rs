//! No answer, log or file contains a secret: neither a root password that is hard to quote, nor a
//! credential after its first answer.

mod rows;

use crate::world::{World, with};
use bulkhead_tests::leaks::{self, CANARY};
use bulkhead_tests::{Postgres, wait};
use serde_json::{Value, json};
use std::net::TcpListener;
use std::time::Duration;

/// A connected world whose root password is the canary.
fn world() -> World {
    let world = World::of(Postgres::start_with(CANARY, &[]));
    world.connect("demo");
    world.role("reader", json!({ "default_ttl": "1h" }));
    world
}

pub(super) fn a_root_password_full_of_quotes_works_and_shows_nowhere() {
    let world = world();
    let credential = world.credential("reader");
    world.root.read("database/config/demo").expect(200);
    world.root.write("database/reset/demo", &json!({})).expect(204);
    world.root.write("sys/leases/renew", &json!({ "lease_id": credential.lease })).expect(200);
    world.revoke(&credential.lease);
    world.bulkhead.assert_silent(CANARY);
}

#[test]
fn every_connection_url_form_is_shown_without_password() {
    let world = world();
    let encoded: String = CANARY.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let quoted = CANARY.replace('\\', r"\\").replace('\'', r"\'");
    let port = world.postgres.port;
    for url in [
        format!("postgresql://bulkhead:{encoded}@127.0.0.1:{port}/demo?sslmode=disable"),
        format!("postgres://bulkhead:{encoded}@localhost:{port}/demo?sslmode=disable"),
        format!(
            "postgresql://127.0.0.1:{port}/demo?user=bulkhead&password={encoded}&sslmode=disable"
        ),
        format!(
            "host=127.0.0.1 port={port} dbname=demo user=bulkhead password='{quoted}' \
             sslmode=disable"
        ),
        format!(
            "user = bulkhead password = '{quoted}' host=127.0.0.1 port={port} dbname=demo \
             sslmode=disable"
        ),
    ] {
        let connection = json!({
            "plugin_name": "postgresql-database-plugin",
            "connection_url": url,
            "allowed_roles": "*",
        });
        let written = world.root.write("database/config/inline", &connection);
        assert!(
            written.status < 300,
            "{}: {written:?}",
            url.split("password").next().unwrap_or_default()
        );
        let shown = world.root.read("database/config/inline").expect(200).body.to_string();
        assert!(!shown.to_lowercase().contains(&encoded.to_lowercase()), "{shown}");
        leaks::assert_silent("the connection as read", &shown, CANARY);
        world.role("inline", json!({ "db_name": "inline" }));
        world.credential("inline");
    }
    world.bulkhead.assert_silent(CANARY);
}

pub(super) fn a_refused_connection_never_shows_its_password() {
    let world = world();
    let url = |text: String| json!({ "connection_url": text });
    let shapes: [(Value, &str); 6] = [
        (url(format!("postgresql://bulkhead:{CANARY}@[broken/demo")), "needs percent-encoding"),
        (url(format!("host=/tmp password='{CANARY}")), "is not a list of keyword=value pairs"),
        (url(format!("mysql://root:{CANARY}@127.0.0.1/x")), "must begin with postgresql://"),
        (json!({ "username": "somebody-else" }), "refused user somebody-else (SQLSTATE 28P01)"),
        (json!({ "plugin_name": "none-such" }), "there is no database plugin \"none-such\""),
        (json!({ "password": [CANARY] }), "password: a list is not a text"),
    ];
    let path = "database/config/bad";
    for (shape, words) in shapes {
        let refused = world.root.write(path, &with(world.connection(), shape)).expect(400);
        assert!(refused.errors().contains(words), "{refused:?} does not contain {words:?}");
    }
    let cut = format!("{{\"password\": \"{CANARY}");
    let refused = world.root.send("POST", path, cut.as_bytes()).expect(400);
    assert!(refused.errors().contains("failed to parse JSON input"), "{refused:?}");
    world.bulkhead.assert_silent(CANARY);
}

#[test]
fn failed_password_statement_reports_only_error_code() {
    let world = world();
    for (name, statement) in [
        ("position", "CREATE ROLE \"{{name}}\" '{{password}}'"),
        ("option", "CREATE ROLE \"{{name}}\" LOGIN PASSWORD '{{password}}' \"{{password}}\""),
        ("cast", "SELECT CAST('{{password}}' AS int)"),
        ("raise", "DO $x$ BEGIN RAISE EXCEPTION 'it is %', '{{password}}'; END $x$"),
        ("column", "SELECT \"{{password}}\""),
    ] {
        world.role(name, json!({ "creation_statements": [statement] }));
        let refused = world.root.read(&format!("database/creds/{name}")).expect(400);
        let errors = refused.errors();
        let shows_password =
            errors.split(|c: char| c != '-' && !c.is_ascii_alphanumeric()).any(|word| {
                word.len() == 20 && word.contains('-') && word.chars().any(char::is_uppercase)
            });
        assert!(!shows_password, "{name}: {errors}");
        assert!(!errors.contains("it is "), "{name} repeats the database's own text: {errors}");
        assert_eq!(world.postgres.users(), Vec::<String>::new());
    }
}

#[test]
fn a_credential_is_shown_once_and_kept_nowhere() {
    let world = world();
    let credential = world.credential("reader");
    world.root.write("sys/leases/lookup", &json!({ "lease_id": credential.lease })).expect(200);
    world.root.write("sys/leases/renew", &json!({ "lease_id": credential.lease })).expect(200);
    world.root.read("database/roles/reader").expect(200);
    assert!(!world.bulkhead.printed().contains(&credential.password));
    leaks::assert_sealed(world.bulkhead.data(), &credential.password);
    leaks::assert_sealed(world.bulkhead.data(), &credential.username);
    leaks::assert_sealed(world.bulkhead.data(), "CREATE ROLE");
    world.revoke(&credential.lease);
    leaks::assert_sealed(world.bulkhead.data(), &credential.password);
}

#[test]
fn with_scram_the_database_never_sees_the_password() {
    let world = World::of(Postgres::start_with(
        CANARY,
        &["-c", "log_statement=all", "-c", "log_min_duration_statement=0"],
    ));
    let connection =
        with(world.connection(), json!({ "password_authentication": "scram-sha-256" }));
    assert!(world.root.write("database/config/demo", &connection).status < 300);
    world.role("reader", json!({ "default_ttl": "1h" }));
    let credential = world.credential("reader");
    let read = world.postgres.login(
        &credential.username,
        &credential.password,
        "SELECT count(*) FROM orders",
    );
    assert_eq!(read.as_deref(), Ok("2"));
    wait::until_true("the server has logged the statement", Duration::from_secs(5), || {
        world.postgres.log().contains(&credential.username)
    });
    assert!(world.postgres.log().contains("SCRAM-SHA-256$"));
    assert!(!world.postgres.log().contains(&credential.password));
}

#[test]
fn the_data_folder_is_for_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let world = world();
    let mode = |path: &std::path::Path| {
        std::fs::metadata(path).expect("the file exists").permissions().mode() & 0o077
    };
    for file in bulkhead_tests::paths::files_below(world.bulkhead.data()) {
        assert_eq!(mode(&file), 0, "{} is open to others", file.display());
    }
}

/// A caller with the right to change a connection's user could learn from the answers which guesses
/// are parts of the password.
#[test]
fn answer_does_not_depend_on_guessed_password() {
    let world = World::new();
    let rules = r#"path "database/config/demo" { capabilities = ["update"] }"#;
    let guesser = world.client_with("guesser", rules);
    let answer_to = |guess: &str| {
        let body = json!({ "username": guess });
        let refused = guesser.write("database/config/demo", &body).expect(400).errors();
        assert!(refused.contains(guess), "{guess} is not repeated as it was said: {refused}");
        refused.replace(guess, "GUESS")
    };
    let password = &world.postgres.password;
    assert!(password.len() > 13, "a piece of twelve characters is to be guessed");
    let other = "Yh4-Lm8-Rt3-Bn6";
    for length in [5, 12, 13, password.len()] {
        let answers = [&password[..length], &other[..length.min(other.len())]].map(answer_to);
        assert_eq!(answers[0], answers[1], "{length} characters");
    }
}

/// A caller with the right to change a connection could redirect it to another server.
#[test]
fn stored_password_never_reaches_caller_chosen_server() {
    let world = World::new();
    let thief = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    thief.set_nonblocking(true).expect("a listener can be asked without waiting");
    let port = thief.local_addr().expect("the thief has an address").port();
    let rules = r#"path "database/config/demo" { capabilities = ["update"] }
                   path "database/reset/demo" { capabilities = ["update"] }"#;
    let caller = world.client_with("caller", rules);
    let before = world.configured();
    let at = |place: &str| format!("postgresql://{{{{username}}}}:{{{{password}}}}@{place}/demo");
    let words =
        format!("host=127.0.0.1 port={port} user={{{{username}}}} password={{{{password}}}}");
    for change in [
        json!({ "connection_url": at(&format!("127.0.0.1:{port}")) + "?sslmode=disable" }),
        json!({ "connection_url": at(&format!("localhost:{port}")), "verify_connection": false }),
        json!({ "connection_url": world.postgres.url().replace("sslmode=", "host=x&sslmode=") }),
        json!({ "connection_url": words }),
        json!({ "plugin_name": "mysql-database-plugin" }),
        json!({ "tls_ca": "" , "tls_server_name": "thief.example" }),
    ] {
        let refused = caller.write("database/config/demo", &change).expect(400);
        let errors = refused.errors();
        assert!(errors.contains("give password in the same request"), "{change}: {errors}");
        caller.write("database/reset/demo", &json!({})).expect(204);
    }
    assert_eq!(world.configured(), before, "a refused request changes nothing");
    assert!(thief.accept().is_err(), "the thief's server was dialled");
    world.credential("reader");
}

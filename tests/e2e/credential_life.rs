//! The whole life of a credential, as the database sees it.

use crate::world::{World, with};
use bulkhead_tests::wait::until_true;
use serde_json::json;
use std::time::{Duration, Instant};

/// Longest time that a credential may exist after its expiry.
const GRACE: Duration = Duration::from_secs(2);

/// Returns the seconds until the expiry that the database has stored.
fn seconds_valid(world: &World, username: &str) -> f64 {
    let left = format!(
        "SELECT extract(epoch FROM rolvaliduntil - now()) FROM pg_roles \
         WHERE rolname = '{username}'"
    );
    world.postgres.query(&left).parse().expect("a user of a lease has an end")
}

/// Asserts that the user exists until its lease ends and is gone soon after.
fn assert_gone_on_time(world: &World, username: &str, end: Instant) {
    let left = end.saturating_duration_since(Instant::now());
    until_true("the user goes at the end of its lease", left + GRACE, || {
        !world.postgres.has_user(username)
    });
    assert!(Instant::now() + Duration::from_secs(1) > end, "the user went before its lease ended");
}

#[test]
fn new_credential_logs_in_with_role_privileges() {
    let world = World::new();
    let credential = world.credential("reader");
    let read = world.postgres.login(
        &credential.username,
        &credential.password,
        "SELECT item FROM orders ORDER BY id",
    );
    assert_eq!(read.as_deref(), Ok("rope\nlantern"));
    let written =
        world.postgres.login(&credential.username, &credential.password, "DELETE FROM orders");
    assert!(written.expect_err("a reader may not delete").contains("permission denied"));
    assert_eq!(credential.seconds, 3600);
    assert!(credential.lease.starts_with("database/creds/reader/"), "{}", credential.lease);
}

#[test]
fn every_credential_is_different() {
    let world = World::new();
    let (first, second) = (world.credential("reader"), world.credential("reader"));
    assert_ne!(first.username, second.username);
    assert_ne!(first.password, second.password);
    assert_ne!(first.lease, second.lease);
    assert_eq!(world.postgres.users().len(), 2);
}

#[test]
fn database_user_expires_five_seconds_after_lease() {
    let world = World::new();
    let credential = world.credential("reader");
    let left = seconds_valid(&world, &credential.username);
    assert!((3600.0..=3606.0).contains(&left), "valid for {left} s, with a lease of 3600 s");
}

#[test]
fn renewal_moves_end_of_lease_and_user() {
    let world = World::new();
    let credential = world.credential("reader");
    let body = json!({ "lease_id": credential.lease, "increment": "2h" });
    let renewed = world.root.write("sys/leases/renew", &body).expect(200);
    assert_eq!(renewed.lease(), credential.lease);
    assert_eq!(renewed.body["lease_duration"], 7200);
    assert_eq!(renewed.body["renewable"], true);
    let left = seconds_valid(&world, &credential.username);
    assert!((7195.0..=7206.0).contains(&left), "valid for {left} s after a renewal by 7200 s");
}

#[test]
fn renewals_end_at_role_maximum_with_warning() {
    let world = World::new();
    let credential = world.credential("reader");
    let body = json!({ "lease_id": credential.lease, "increment": "100h" });
    let renewed = world.root.write("sys/leases/renew", &body).expect(200);
    let seconds = renewed.body["lease_duration"].as_u64().expect("seconds");
    assert!(
        (4 * 3600 - 60..=4 * 3600).contains(&seconds),
        "{seconds} s with a maximum of four hours"
    );
    assert!(renewed.warnings().contains("4h"), "{}", renewed.warnings());
}

#[test]
fn revoked_credential_is_gone_and_session_is_ended() {
    let world = World::new();
    let credential = world.credential("reader");
    let mut session = world.postgres.sleeper(&credential.username, &credential.password);
    world.revoke(&credential.lease);
    assert!(
        !world.postgres.has_user(&credential.username),
        "revocation is done when it is answered"
    );
    let limit = Duration::from_secs(5);
    until_true("the open session is ended", limit, || {
        session.try_wait().expect("psql is ours").is_some()
    });
    let login = world.postgres.login(&credential.username, &credential.password, "SELECT 1");
    assert!(login.expect_err("a revoked user cannot log in").contains("authentication failed"));
    world.root.write("sys/leases/lookup", &json!({ "lease_id": credential.lease })).expect(400);
}

#[test]
fn a_second_revocation_succeeds() {
    let world = World::new();
    let credential = world.credential("reader");
    world.revoke(&credential.lease);
    world.revoke(&credential.lease);
}

#[test]
fn revoking_a_dropped_user_succeeds() {
    let world = World::new();
    let credential = world.credential("reader");
    world.postgres.query(&format!("DROP ROLE \"{}\"", credential.username));
    world.revoke(&credential.lease);
    world.root.write("sys/leases/lookup", &json!({ "lease_id": credential.lease })).expect(400);
}

#[test]
fn revocation_removes_all_grants_of_the_user() {
    let world = World::new();
    world.postgres.query(
        r#"CREATE SCHEMA "Mixed Case; drop";
           CREATE TABLE "Mixed Case; drop".t (id serial PRIMARY KEY);
           CREATE FUNCTION answer() RETURNS int LANGUAGE sql AS 'SELECT 42';
           CREATE TYPE mood AS ENUM ('calm')"#,
    );
    let grants = [
        crate::world::CREATION,
        r#"GRANT ALL ON SCHEMA "Mixed Case; drop" TO "{{name}}""#,
        r#"GRANT ALL ON ALL TABLES IN SCHEMA "Mixed Case; drop" TO "{{name}}""#,
        r#"GRANT ALL ON ALL SEQUENCES IN SCHEMA "Mixed Case; drop" TO "{{name}}""#,
        r#"GRANT SELECT (item) ON orders TO "{{name}}""#,
        r#"GRANT EXECUTE ON FUNCTION answer() TO "{{name}}""#,
        r#"GRANT USAGE ON TYPE mood TO "{{name}}""#,
        r#"GRANT CONNECT, TEMPORARY ON DATABASE demo TO "{{name}}""#,
        r#"GRANT CONNECT ON DATABASE postgres TO "{{name}}""#,
        r#"ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO "{{name}}""#,
    ];
    world.role("everything", json!({ "creation_statements": grants }));
    let credential = world.credential("everything");
    world.revoke(&credential.lease);
    assert_eq!(world.postgres.users(), Vec::<String>::new());
    assert_eq!(
        world.postgres.query("SELECT count(*) FROM orders"),
        "2",
        "no data goes with a user"
    );
}

#[test]
fn user_owning_data_is_locked_and_data_stay() {
    let world = World::new();
    let owner = [
        r#"CREATE ROLE "{{name}}" LOGIN PASSWORD '{{password}}' VALID UNTIL '{{expiration}}'"#,
        r#"GRANT CREATE ON SCHEMA public TO "{{name}}""#,
    ];
    world.role("owner", json!({ "creation_statements": owner }));
    let credential = world.credential("owner");
    let output = world.postgres.login(
        &credential.username,
        &credential.password,
        "CREATE TABLE precious (id int)",
    );
    assert_eq!(output.as_deref(), Ok(""));
    let refused =
        world.root.write("sys/leases/revoke", &json!({ "lease_id": credential.lease })).expect(400);
    assert!(
        refused.errors().contains("precious"),
        "the refusal names no dependent object: {}",
        refused.errors()
    );
    let login = world.postgres.login(&credential.username, &credential.password, "SELECT 1");
    assert!(login.is_err(), "a user that could not be dropped may at least not log in");
    assert_eq!(world.postgres.query("SELECT count(*) FROM precious"), "0");
    world.root.write("sys/leases/lookup", &json!({ "lease_id": credential.lease })).expect(200);
}

#[test]
fn the_roles_own_statements_revoke_and_renew() {
    let world = World::new();
    world.postgres.query("CREATE TABLE journal (line text)");
    let statements = json!({
        "renew_statements": [
            r#"ALTER ROLE "{{name}}" VALID UNTIL '{{expiration}}'"#,
            "INSERT INTO journal VALUES ('renewed {{name}}')",
        ],
        "revocation_statements": [
            "INSERT INTO journal VALUES ('revoked {{name}}'); DROP ROLE \"{{name}}\"",
        ],
        "default_ttl": "1h",
    });
    world.role("journaled", statements);
    let credential = world.credential("journaled");
    world.root.write("sys/leases/renew", &json!({ "lease_id": credential.lease })).expect(200);
    world.revoke(&credential.lease);
    let journal = world.postgres.query("SELECT line FROM journal");
    let name = &credential.username;
    assert_eq!(journal, format!("renewed {name}\nrevoked {name}"));
    assert!(!world.postgres.has_user(name));
}

#[test]
fn an_expired_credential_is_gone_within_two_seconds() {
    let world = World::new();
    world.role("brief", json!({ "default_ttl": "3s" }));
    let credential = world.credential("brief");
    let end = Instant::now() + Duration::from_secs(credential.seconds);
    assert_gone_on_time(&world, &credential.username, end);
    // The database drops the user before the server stores the end of the lease.
    until_true("the lease goes after its user", GRACE, || {
        let lease = json!({ "lease_id": credential.lease });
        world.root.write("sys/leases/lookup", &lease).status == 400
    });
}

#[test]
fn expired_credential_of_deleted_role_is_removed() {
    let world = World::new();
    world.role("brief", json!({ "default_ttl": "3s" }));
    let credential = world.credential("brief");
    let end = Instant::now() + Duration::from_secs(credential.seconds);
    world.root.delete("database/roles/brief").expect(204);
    assert_gone_on_time(&world, &credential.username, end);
}

#[test]
fn downtime_expiry_removes_credential_within_two_seconds() {
    let mut world = World::new();
    world.role("brief", json!({ "default_ttl": "2s" }));
    let credential = world.credential("brief");
    let end = Instant::now() + Duration::from_secs(credential.seconds);
    world.bulkhead.kill();
    until_true("the lease's end passes", Duration::from_secs(10), || Instant::now() > end);
    assert!(
        world.postgres.has_user(&credential.username),
        "the user was not dropped without a server"
    );
    world.bulkhead.start_again();
    until_true("the user goes after the restart", GRACE, || {
        !world.postgres.has_user(&credential.username)
    });
}

#[test]
fn credential_expiring_after_restart_ends_within_two_seconds() {
    let mut world = World::new();
    world.role("brief", json!({ "default_ttl": "5s" }));
    let credential = world.credential("brief");
    let end = Instant::now() + Duration::from_secs(credential.seconds);
    world.bulkhead.kill();
    world.bulkhead.start_again();
    assert_gone_on_time(&world, &credential.username, end);
}

#[test]
fn lease_survives_restart_and_is_renewed_and_revoked() {
    let mut world = World::new();
    let credential = world.credential("reader");
    world.bulkhead.kill();
    world.bulkhead.start_again();
    world.root = world.bulkhead.root();
    let body = json!({ "lease_id": credential.lease, "increment": "2h" });
    world.root.write("sys/leases/renew", &body).expect(200);
    let left = seconds_valid(&world, &credential.username);
    assert!((7195.0..=7206.0).contains(&left), "valid for {left} s after a renewal by 7200 s");
    world.revoke(&credential.lease);
    assert!(!world.postgres.has_user(&credential.username));
}

#[test]
fn a_revoked_token_revokes_its_credentials() {
    let world = World::new();
    let reader = r#"path "database/creds/reader" { capabilities = ["read"] }
                    path "auth/token/revoke-self" { capabilities = ["update"] }"#;
    let client = world.client_with("reader", reader);
    let credential = world.credential_for(&client, "reader");
    client.write("auth/token/revoke-self", &json!({})).expect(204);
    until_true("the token's user goes", GRACE, || !world.postgres.has_user(&credential.username));
    client.read("database/creds/reader").expect(403);
}

#[test]
fn lease_never_outlives_requesting_token() {
    let world = World::new();
    let rules = r#"path "database/creds/reader" { capabilities = ["read"] }"#;
    world.root.write("sys/policies/acl/reader", &json!({ "policy": rules })).expect(204);
    let body = json!({ "policies": ["reader"], "ttl": "3s" });
    let answer = world.root.write("auth/token/create", &body).expect(200);
    let client = world.bulkhead.client(answer.body["auth"]["client_token"].as_str());
    let end = Instant::now() + Duration::from_secs(3);
    let credential = world.credential_for(&client, "reader");
    assert!(credential.seconds <= 3, "a lease of {} s for a token of 3 s", credential.seconds);
    until_true("the user goes with its token", Duration::from_secs(3) + GRACE, || {
        !world.postgres.has_user(&credential.username)
    });
    assert!(Instant::now() < end + GRACE);
}

#[test]
fn sixteen_callers_at_once_each_get_a_credential() {
    let world = World::new();
    let direct = [
        r#"CREATE ROLE "{{name}}" LOGIN PASSWORD '{{password}}' VALID UNTIL '{{expiration}}'"#,
        r#"GRANT SELECT ON ALL TABLES IN SCHEMA public TO "{{name}}""#,
    ];
    world.role("direct", json!({ "creation_statements": direct }));
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let ask = |_| scope.spawn(|| world.root.read("database/creds/direct").status);
        let callers: Vec<_> = (0..16).map(ask).collect();
        callers.into_iter().map(|caller| caller.join().expect("a caller does not panic")).collect()
    });
    assert_eq!(
        statuses, [200; 16],
        "direct grants on one table conflict in PostgreSQL; callers must not see that"
    );
    assert_eq!(world.postgres.users().len(), 16);
}

#[test]
fn a_root_user_without_superuser_suffices() {
    let world = World::empty();
    world.postgres.query(
        "CREATE ROLE manager LOGIN CREATEROLE PASSWORD 'of-the-manager';
         GRANT readers TO manager WITH ADMIN OPTION; GRANT pg_signal_backend TO manager",
    );
    let mut connection = world.connection();
    connection["username"] = json!("manager");
    connection["password"] = json!("of-the-manager");
    let written = world.root.write("database/config/demo", &connection);
    assert!(written.status < 300, "{written:?}");
    world.role("reader", json!({ "default_ttl": "1h" }));
    let credential = world.credential("reader");
    let read = world.postgres.login(
        &credential.username,
        &credential.password,
        "SELECT count(*) FROM orders",
    );
    assert_eq!(read.as_deref(), Ok("2"));
    world.root.write("sys/leases/renew", &json!({ "lease_id": credential.lease })).expect(200);
    world.revoke(&credential.lease);
    assert!(!world.postgres.has_user(&credential.username));
}

#[test]
fn revocation_reports_foreign_grant_and_locks_out_user() {
    let world = World::empty();
    world.postgres.query(
        "CREATE ROLE manager LOGIN CREATEROLE PASSWORD 'of-the-manager';
         CREATE TABLE managed (id int); ALTER TABLE managed OWNER TO manager",
    );
    let manager = json!({ "username": "manager", "password": "of-the-manager" });
    let connection = with(world.connection(), manager);
    world.root.write("database/config/demo", &connection).expect_success();
    let creation = "CREATE ROLE \"{{name}}\" LOGIN PASSWORD '{{password}}' VALID UNTIL \
                    '{{expiration}}'; GRANT SELECT ON managed TO \"{{name}}\"";
    world.role("reader", json!({ "creation_statements": creation }));
    let credential = world.credential("reader");
    // The manager may not revoke this grant; the database's error names it.
    world.postgres.query(&format!("GRANT SELECT ON orders TO \"{}\"", credential.username));
    let lease = json!({ "lease_id": credential.lease });
    let answer = world.root.write("sys/leases/revoke", &lease).expect(400);
    assert!(answer.errors().contains("table orders"), "{}", answer.errors());
    let login = world.postgres.login(&credential.username, &credential.password, "SELECT 1");
    assert!(login.is_err(), "an expired user cannot log in");
    world.postgres.query(&format!("REVOKE SELECT ON orders FROM \"{}\"", credential.username));
    world.revoke(&credential.lease);
    assert_eq!(world.postgres.users(), Vec::<String>::new());
}

#[test]
fn a_connection_works_after_a_reset() {
    let world = World::new();
    let before = world.credential("reader");
    world.root.write("database/reset/demo", &json!({})).expect(204);
    let after = world.credential("reader");
    world.revoke(&before.lease);
    world.revoke(&after.lease);
    assert_eq!(world.postgres.users(), Vec::<String>::new());
}

#[test]
fn excessive_object_grants_are_reported_with_remedy() {
    let world = World::new();
    world.postgres.query(
        "DO $$ BEGIN FOR number IN 1..3000 LOOP BEGIN \
         EXECUTE format('CREATE ROLE grantee_%s', number); \
         EXECUTE format('GRANT SELECT ON orders TO grantee_%s', number); \
         EXCEPTION WHEN program_limit_exceeded THEN EXIT; END; END LOOP; END $$",
    );
    let direct = "GRANT SELECT ON orders TO \"{{name}}\"";
    let statements = json!({ "creation_statements": [crate::world::CREATION, direct] });
    world.role("direct", statements);
    let refused = world.root.read("database/creds/direct").expect(400);
    assert!(refused.errors().contains("IN ROLE"), "{}", refused.errors());
    assert_eq!(world.postgres.users(), Vec::<String>::new());
    let credential = world.credential("reader");
    world.revoke(&credential.lease);
}

//! Databases that are down, slow or refuse: a clear answer in time, and nothing left behind.

use crate::world::{CREATION, World, with};
use bulkhead_tests::Postgres;
use bulkhead_tests::wait::until_true;
use serde_json::json;
use std::net::TcpListener;
use std::time::{Duration, Instant};

/// Added to a connection's own timeout: the rest of the request, on a busy machine.
const SLACK: Duration = Duration::from_secs(8);

/// Number of concurrent callers of a database that does not answer, more than its connections.
const CALLERS: usize = 8;

pub(super) fn a_connection_to_a_database_that_is_down_is_502_and_not_stored() {
    let world = World::empty();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let closed = listener.local_addr().expect("the listener has an address").port();
    drop(listener);
    let url = format!(
        "postgresql://{{{{username}}}}:{{{{password}}}}@127.0.0.1:{closed}/demo?sslmode=disable"
    );
    let connection =
        with(world.connection(), json!({ "connection_url": url, "connect_timeout": "2s" }));
    let start = Instant::now();
    let refused = world.root.write("database/config/demo", &connection).expect(502);
    assert!(start.elapsed() < Duration::from_secs(2) + SLACK, "{:?}", start.elapsed());
    assert!(refused.errors().contains("demo"), "{}", refused.errors());
    world.root.read("database/config/demo").expect(404);
    let unverified = with(connection, json!({ "verify_connection": false }));
    assert!(
        world.root.write("database/config/demo", &unverified).status < 300,
        "unverified, it may be written"
    );
    world.role("reader", json!({}));
    world.root.read("database/creds/reader").expect(502);
}

pub(super) fn a_database_that_went_down_is_502_for_every_use_of_it() {
    let mut world = World::new();
    let lease = world.credential("reader").lease;
    world.postgres.stop();
    world.root.read("database/creds/reader").expect(502);
    world.root.write("database/reset/demo", &json!({})).expect(502);
    world.root.write("sys/leases/renew", &json!({ "lease_id": lease })).expect(502);
    world.root.write("sys/leases/revoke", &json!({ "lease_id": lease })).expect(502);
    let lookup = world.root.write("sys/leases/lookup", &json!({ "lease_id": lease })).expect(200);
    assert_eq!(
        lookup.body["data"]["irrevocable"], false,
        "a database that is down is tried again, for ever"
    );
}

pub(super) fn a_database_that_does_not_answer_is_502_within_the_connections_timeout() {
    let world = World::empty();
    let connection =
        with(world.connection(), json!({ "connect_timeout": "1s", "verify_connection": false }));
    assert!(world.root.write("database/config/demo", &connection).status < 300);
    world.role("reader", json!({}));
    let paused = world.postgres.pause();
    let start = Instant::now();
    world.root.read("database/creds/reader").expect(502);
    assert!(start.elapsed() < Duration::from_secs(1) + SLACK, "{:?}", start.elapsed());
    let ask = || world.root.read("database/creds/reader").status;
    std::thread::scope(|scope| {
        let callers: Vec<_> = (0..CALLERS).map(|_| scope.spawn(ask)).collect();
        for caller in callers {
            assert_eq!(caller.join().expect("a caller does not panic"), 502);
        }
    });
    let start = Instant::now();
    world
        .root
        .write("database/config/other", &with(connection, json!({ "verify_connection": true })))
        .expect(502);
    assert!(start.elapsed() < Duration::from_secs(1) + SLACK, "{:?}", start.elapsed());
    world.root.read("database/config/other").expect(404);
    drop(paused);
    world.credential("reader");
}

#[test]
fn paused_and_resumed_database_keeps_no_orphaned_user() {
    let world = World::empty();
    let connection = with(world.connection(), json!({ "connect_timeout": "1s" }));
    assert!(world.root.write("database/config/demo", &connection).status < 300);
    world.role("reader", json!({}));
    let before = world.credential("reader");
    let paused = world.postgres.pause();
    let start = Instant::now();
    let answer = world.root.read("database/creds/reader").expect(502);
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}: {:?}", start.elapsed(), answer.body);
    drop(paused);
    let only = vec![before.username];
    until_true("the user of the failed request is undone", Duration::from_secs(60), || {
        world.postgres.users() == only
    });
    world.credential("reader");
}

#[test]
fn an_unresponsive_database_does_not_delay_another() {
    let world = World::new();
    let other = World::empty();
    let elsewhere =
        with(other.connection(), json!({ "connect_timeout": "30s", "verify_connection": false }));
    assert!(world.root.write("database/config/slow", &elsewhere).status < 300);
    world.role("slow", json!({ "db_name": "slow" }));
    let paused = other.postgres.pause();
    let ask = || world.root.read("database/creds/slow").status;
    let in_flight = || world.root.read("sys/in-flight-req").expect(200).body.to_string();
    std::thread::scope(|scope| {
        let callers: Vec<_> = (0..CALLERS).map(|_| scope.spawn(ask)).collect();
        until_true("the callers wait", Duration::from_secs(20), || {
            in_flight().matches("database/creds/slow").count() == CALLERS
        });
        world.credential("reader");
        let waiting = callers.iter().filter(|caller| !caller.is_finished()).count();
        assert_eq!(waiting, CALLERS, "the credential waited for the database that hangs");
        drop(paused);
        for caller in callers {
            let status = caller.join().expect("a caller does not panic");
            assert!([200, 502].contains(&status), "{status}");
        }
    });
}

/// While the database is away, its leases wait together, and a read of the connection warns of
/// them.
#[test]
fn leases_of_unavailable_database_end_after_its_return() {
    const WAITING: usize = 24;
    let world = World::empty();
    let connection =
        with(world.connection(), json!({ "connect_timeout": "1s", "max_open_connections": 8 }));
    assert!(world.root.write("database/config/demo", &connection).status < 300);
    world.role("reader", json!({}));
    (0..WAITING).for_each(|_| drop(world.credential("reader")));
    assert_eq!(world.root.read("database/config/demo").expect(200).warnings(), "");
    let paused = world.postgres.pause();
    let revoked = world
        .root
        .write("sys/leases/revoke-prefix/database/creds/reader", &json!({ "sync": false }));
    revoked.expect(202);
    let shown = || world.root.read("database/config/demo").expect(200).warnings();
    until_true("a read tells that it does not answer", Duration::from_secs(60), || {
        shown().contains("does not answer")
    });
    assert!(shown().contains("live leases: "), "{}", shown());
    let log = world.bulkhead.printed();
    assert!(log.contains("event=lane-rests"), "{log}");
    drop(paused);
    until_true("all users are gone", Duration::from_secs(60), || world.postgres.users().is_empty());
    until_true("nothing is told any more", SLACK, || shown().is_empty());
    assert!(world.bulkhead.printed().contains("event=lane-answers-again"));
    let counted = world.root.read("sys/leases/count?type=irrevocable").expect(200);
    assert_eq!(counted.body["data"]["lease_count"], 0, "nothing was given up");
}

#[test]
fn credential_is_revoked_only_at_creating_server() {
    let world = World::new();
    let credential = world.credential("reader");
    let other = Postgres::start();
    let namesake = format!("CREATE ROLE \"{}\" LOGIN PASSWORD 'theirs'", credential.username);
    other.query(&namesake);
    let elsewhere = with(world.connection(), json!({ "connection_url": other.url() }));
    let warned = world.root.write("database/config/demo", &elsewhere).expect(200).warnings();
    let before = format!("made at postgres://127.0.0.1:{}: 1;", world.postgres.port);
    assert!(warned.contains(&before), "{warned}");

    let lease = json!({ "lease_id": credential.lease });
    world.root.write("sys/leases/renew", &lease).expect(502);
    let refused = world.root.write("sys/leases/revoke", &lease).expect(502).errors();
    assert!(refused.contains("was made at") && refused.contains("revoke-force"), "{refused}");
    assert!(other.has_user(&credential.username), "the namesake is another user");
    let lookup = world.root.write("sys/leases/lookup", &lease).expect(200);
    assert_eq!(lookup.body["data"]["irrevocable"], false, "the lease is tried again later");

    assert!(world.connect("demo").status < 300);
    world.revoke(&credential.lease);
    assert!(!world.postgres.has_user(&credential.username));

    let forgotten = world.credential("reader");
    world.root.write("database/config/demo", &elsewhere).expect(200);
    world.root.write("sys/leases/revoke-force/database/creds/reader", &json!({})).expect(204);
    world.root.write("sys/leases/lookup", &json!({ "lease_id": forgotten.lease })).expect(400);
    assert!(world.postgres.has_user(&forgotten.username), "knowingly");
}

pub(super) fn a_wrong_root_password_is_400_and_names_the_connection() {
    let world = World::empty();
    let connection = with(world.connection(), json!({ "password": "~Wr0ng#Pa$$w0rd^" }));
    let refused = world.root.write("database/config/demo", &connection).expect(400);
    for word in ["demo", "28P01"] {
        assert!(refused.errors().contains(word), "{} lacks {word}", refused.errors());
    }
    world.root.read("database/config/demo").expect(404);
    world.bulkhead.assert_silent("~Wr0ng#Pa$$w0rd^");
}

#[test]
fn a_missing_database_is_reported_as_missing() {
    let world = World::empty();
    let url = world.postgres.url().replace("/demo", "/nowhere");
    let connection = with(world.connection(), json!({ "connection_url": url }));
    let refused = world.root.write("database/config/demo", &connection).expect(400).errors();
    for part in ["database nowhere of connection \"demo\" does not exist", "3D000"] {
        assert!(refused.contains(part), "{refused}");
    }
    world.postgres.query("CREATE ROLE shut NOLOGIN PASSWORD 'Hv3-Pq8-Lm5'");
    let login = json!({ "username": "shut", "password": "Hv3-Pq8-Lm5" });
    let connection = with(world.connection(), login);
    let refused = world.root.write("database/config/demo", &connection).expect(400).errors();
    assert!(refused.contains("the user may not log in (NOLOGIN)"), "{refused}");
    world.root.read("database/config/demo").expect(404);
}

#[test]
fn unknown_url_parameter_is_named_without_password_parts() {
    let world = World::empty();
    let url = world.postgres.url();
    let refused = |url: &str| {
        let connection = with(world.connection(), json!({ "connection_url": url }));
        world.root.write("database/config/demo", &connection).expect(400).errors()
    };
    let mistyped = refused(&format!("{url}&sslmod=require"));
    assert!(mistyped.contains("unknown parameter sslmod"), "{mistyped}");
    for leaky in [
        url.replace("{{password}}", "hunter?twopieces=1"),
        url.replace("{{password}}", "x") + "&password=hunter&twopieces=1",
        "host=127.0.0.1 user=u password=hunter twopieces=1".to_owned(),
    ] {
        let errors = refused(&leaky);
        assert!(errors.contains("unknown parameter in place"), "{errors}");
        assert!(!errors.contains("twopieces") && !errors.contains("hunter"), "{errors}");
    }
}

#[test]
fn a_reload_without_connections_warns() {
    let world = World::new();
    for (plugin, why) in [
        ("postgres-database-plugin", "database plugin"),
        ("mysql-database-plugin", "the catalog has the plugin"),
    ] {
        let answer = world.root.write(&format!("database/reload/{plugin}"), &json!({})).expect(200);
        assert_eq!(answer.body["data"], json!({ "connections": [], "count": 0 }));
        let warnings = answer.body["warnings"].to_string();
        assert!(warnings.contains("no connections were found with plugin_name"), "{warnings}");
        assert!(warnings.contains(why), "{warnings}");
    }
    let all =
        world.root.write("database/reload/postgresql-database-plugin", &json!({})).expect(200);
    assert_eq!(all.body["data"]["count"], 1);
    assert!(all.body["warnings"].is_null(), "{all:?}");
}

#[test]
fn postgresql_nonrandom_username_template_removes_no_other_user() {
    let world = World::empty();
    let template = json!({ "username_template": "v-{{.RoleName}}", "max_open_connections": -1 });
    let connection = with(world.connection(), template);
    let answer = world.root.write("database/config/demo", &connection).expect(200);
    let warnings = answer.body["warnings"].to_string();
    assert!(warnings.contains("eight random characters"), "{warnings}");
    assert!(warnings.contains("a connection has at most 64"), "{warnings}");
    world.role("reader", json!({}));
    let first = world.credential("reader");
    assert_eq!(first.username, "v-reader");
    let refused = world.root.read("database/creds/reader").expect(400).errors();
    assert!(refused.contains("with a taken name (SQLSTATE 42710)"), "{refused}");
    let login = world.postgres.login(&first.username, &first.password, "SELECT 1");
    assert!(login.is_ok(), "the first user is there: {login:?}");
    world.revoke(&first.lease);
    world.credential("reader");
}

#[test]
fn changed_root_password_is_400_without_new_user() {
    let world = World::new();
    world.postgres.query(
        "CREATE ROLE bystander SUPERUSER LOGIN PASSWORD 'p'; \
         ALTER ROLE bulkhead PASSWORD 'changed'",
    );
    assert!(
        world.root.write("database/reset/demo", &json!({})).status == 400,
        "a reset logs in again"
    );
    let refused = world.root.read("database/creds/reader").expect(400);
    assert!(refused.errors().contains("demo"), "{}", refused.errors());
    let users = world.postgres.login(
        "bystander",
        "p",
        "SELECT count(*) FROM pg_roles WHERE rolname LIKE 'v-%'",
    );
    assert_eq!(users.as_deref(), Ok("0"));
}

#[test]
fn a_session_closed_by_the_database_is_reopened() {
    let world = World::new();
    world.credential("reader");
    let cut = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
               WHERE pid <> pg_backend_pid() AND usename = 'bulkhead'";
    assert_ne!(world.postgres.query(cut), "0", "the pool had a session to cut");
    world.credential("reader");
}

#[test]
fn sessions_stay_within_the_connections_limit() {
    let world = World::empty();
    let connection = with(world.connection(), json!({ "max_open_connections": 2 }));
    assert!(world.root.write("database/config/demo", &connection).status < 300);
    world.role("reader", json!({}));
    std::thread::scope(|scope| {
        for _ in 0..12 {
            scope.spawn(|| world.root.read("database/creds/reader").expect(200));
        }
    });
    for _ in 0..5 {
        world.root.write("database/reset/demo", &json!({})).expect(204);
        assert!(
            world.root.write("database/config/demo", &json!({ "allowed_roles": "*" })).status < 300
        );
    }
    let open = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'bulkhead' \
                AND pid <> pg_backend_pid() AND backend_type = 'client backend'";
    until_true("retired pools close", Duration::from_secs(10), || {
        world.postgres.query(open).parse::<u32>().expect("a number") <= 2
    });
}

#[test]
fn a_reused_session_keeps_no_prepared_statements() {
    let world = World::empty();
    let one_session = with(world.connection(), json!({ "max_open_connections": 1 }));
    assert!(world.root.write("database/config/demo", &one_session).status < 300);
    let none_is_left = "SELECT 1 / CASE WHEN EXISTS (SELECT FROM pg_prepared_statements) THEN 0 \
                        ELSE 1 END";
    world.role("reader", json!({ "creation_statements": [none_is_left, CREATION] }));
    for _ in 0..3 {
        world.revoke(&world.credential("reader").lease);
    }
}

#[test]
fn connection_removal_warns_of_dependent_leases() {
    let world = World::new();
    let credential = world.credential("reader");
    let removed = world.root.delete("database/config/demo").expect(200);
    assert!(removed.warnings().contains('1'), "{}", removed.warnings());
    let body = json!({ "lease_id": credential.lease });
    let refused = world.root.write("sys/leases/revoke", &body);
    assert_eq!(refused.status, 502, "{refused:?}");
    assert!(refused.errors().contains("config/demo"), "{}", refused.errors());
    world.root.write("sys/leases/lookup", &body).expect(200);
    world.connect("demo");
    world.revoke(&credential.lease);
    assert!(!world.postgres.has_user(&credential.username));
}

//! Static roles whose account cannot log in from this server, or whose rotation the database
//! refuses: no password that was set is lost, and no dead password is displayed.

use crate::world::{World, with};
use bulkhead_tests::wait::until_true;
use bulkhead_tests::{Answer, Bulkhead, Client, MariaDb, Postgres};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

/// Longest wait for background work, including the pauses between attempts.
const PATIENCE: Duration = Duration::from_secs(40);
/// Password of an account before Bulkhead takes it over.
const FIRST: &str = "Hv3-Pq8-Lm5-Zd1";

/// The usual static role of the account `app`.
fn role(db_name: &str) -> Value {
    json!({ "db_name": db_name, "username": "app", "rotation_period": "1h" })
}

fn shown(root: &Client) -> String {
    root.read("database/static-creds/app").expect(200).text("password").to_owned()
}

/// Asserts the warning that the password could not be verified.
#[track_caller]
fn assert_unverified(answer: Answer) {
    let answer = answer.expect(200);
    let warnings = answer.body["warnings"].to_string();
    assert!(warnings.contains("could not be verified"), "{answer:?}");
}

fn is_verified(root: &Client) -> Value {
    root.read("database/static-roles/app").expect(200).body["data"]["credential_verified"].clone()
}

fn world() -> World {
    let world = World::new();
    world.postgres.query(&format!("CREATE ROLE app LOGIN PASSWORD '{FIRST}' IN ROLE readers"));
    world
}

fn logs_in(postgres: &Postgres, password: &str) -> bool {
    postgres.login("app", password, "SELECT 1").is_ok()
}

/// Puts `first` before the other rules of `pg_hba.conf`, or removes an earlier first rule.
fn rule(postgres: &Postgres, first: &str) {
    let path = postgres.query("SHOW hba_file");
    let rules = fs::read_to_string(&path).expect("the rules can be read");
    let others = rules.lines().filter(|line| !line.ends_with("reject"));
    let all: Vec<&str> = std::iter::once(first).chain(others).collect();
    fs::write(&path, all.join("\n") + "\n").expect("the rules can be written");
    postgres.query("SELECT pg_reload_conf()");
}

#[test]
fn an_unverified_postgresql_password_is_kept() {
    type Reason = (&'static str, fn(&Postgres), fn(&Postgres));
    let reasons: [Reason; 4] = [
        (
            "no session is left to it",
            |server| drop(server.query("ALTER ROLE app CONNECTION LIMIT 0")),
            |server| drop(server.query("ALTER ROLE app CONNECTION LIMIT -1")),
        ),
        (
            "its password has expired",
            |server| drop(server.query("ALTER ROLE app VALID UNTIL '2020-01-01'")),
            |server| drop(server.query("ALTER ROLE app VALID UNTIL 'infinity'")),
        ),
        (
            "a rule rejects it",
            |server| rule(server, "host all app 127.0.0.1/32 reject"),
            |server| rule(server, ""),
        ),
        (
            "it may not log in at all",
            |server| drop(server.query("ALTER ROLE app NOLOGIN")),
            |server| drop(server.query("ALTER ROLE app LOGIN")),
        ),
    ];
    let world = world();
    let is_refused = || !logs_in(&world.postgres, FIRST);
    for (reason, set, lift) in reasons {
        world.postgres.query(&format!("ALTER ROLE app PASSWORD '{FIRST}'"));
        set(&world.postgres);
        until_true(reason, PATIENCE, is_refused);
        assert_unverified(world.root.write("database/static-roles/app", &role("demo")));
        let first = shown(&world.root);
        assert_eq!(is_verified(&world.root), false, "{reason}");
        assert_unverified(world.root.write("database/rotate-role/app", &json!({})));
        let second = shown(&world.root);
        assert_ne!(first, second, "{reason}");
        lift(&world.postgres);
        until_true(reason, PATIENCE, || logs_in(&world.postgres, &second));
        world.root.write("database/rotate-role/app", &json!({})).expect(204);
        assert_eq!(is_verified(&world.root), true, "{reason}");
        assert!(logs_in(&world.postgres, &shown(&world.root)), "{reason}");
        world.root.delete("database/static-roles/app").expect(200);
    }
}

#[test]
fn wrong_imported_password_is_refused_and_unverified_warns() {
    let world = world();
    let imported = |password: &str| {
        with(role("demo"), json!({ "skip_import_rotation": true, "password": password }))
    };
    let refused = world.root.write("database/static-roles/app", &imported("wrong")).expect(400);
    assert!(refused.errors().contains("refuses password"), "{refused:?}");
    world.root.read("database/static-roles/app").expect(404);
    world.root.write("database/static-roles/app", &imported(FIRST)).expect(204);
    assert_eq!((shown(&world.root).as_str(), is_verified(&world.root)), (FIRST, json!(true)));
    world.root.delete("database/static-roles/app").expect(204);
    world.postgres.query("ALTER ROLE app CONNECTION LIMIT 0");
    assert_unverified(world.root.write("database/static-roles/app", &imported(FIRST)));
    assert_eq!(is_verified(&world.root), false);
}

/// Follows the advice of the refusal: retries as often as possible.
#[test]
fn refused_candidate_password_is_replaced_despite_frequent_retries() {
    let world = world();
    world.root.write("database/static-roles/app", &role("demo")).expect(204);
    world.postgres.query(
        "CREATE FUNCTION try_out(word text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN \
         RAISE LOG 'candidate <%>', md5(word); \
         RAISE EXCEPTION 'not good enough' USING ERRCODE = '22023'; END $$",
    );
    let refusing = json!({ "rotation_statements": "SELECT try_out('{{password}}')" });
    world.root.write("database/static-roles/app", &refusing).expect(204);
    // Somebody else has changed the password, so no known password is in force.
    world.postgres.query(&format!("ALTER ROLE app PASSWORD '{FIRST}'"));
    world.root.write("database/rotate-role/app", &json!({})).expect(400);
    let candidates = || {
        let log = world.postgres.log();
        let seen = log.split("candidate <").skip(1).filter_map(|rest| rest.split('>').next());
        seen.map(str::to_owned).collect::<BTreeSet<String>>().len()
    };
    until_true("another candidate is tried", PATIENCE, || {
        let open = world.root.write("database/rotate-role/app", &json!({})).expect(503);
        assert!(open.errors().contains("22023"), "{open:?}");
        candidates() > 2
    });
    let dead = world.root.read("database/static-creds/app").expect(503);
    assert!(dead.errors().contains("22023"), "{dead:?}");
    let mended = json!({ "rotation_statements": [] });
    world.root.write("database/static-roles/app", &mended).expect(204);
    until_true("the rotation goes on", PATIENCE, || {
        world.root.write("database/rotate-role/app", &json!({}));
        world.root.read("database/static-creds/app").status == 200
    });
    until_true("what is shown logs in", PATIENCE, || logs_in(&world.postgres, &shown(&world.root)));
}

#[test]
fn an_unverified_mariadb_password_is_kept() {
    let mariadb = MariaDb::start(&[]);
    let bulkhead = Bulkhead::start();
    let root = bulkhead.root();
    let connection = json!({
        "plugin_name": "mysql-database-plugin", "allowed_roles": "*", "username": "bulkhead",
        "password": mariadb.password, "connection_url": format!("{}?tls=false", mariadb.url()),
    });
    assert!(root.write("database/config/sea", &connection).status < 300);
    let logs_in = |password: &str| mariadb.login("app", password, "SELECT 1").is_ok();
    for (host, requirement, lift) in [
        ("10.20.%", "", "RENAME USER 'app'@'10.20.%' TO 'app'@'%'"),
        ("%", "REQUIRE X509", "ALTER USER 'app'@'%' REQUIRE NONE"),
        ("%", "REQUIRE SSL", "ALTER USER 'app'@'%' REQUIRE NONE"),
        ("%", "ACCOUNT LOCK", "ALTER USER 'app'@'%' ACCOUNT UNLOCK"),
    ] {
        let account = format!("'app'@'{host}' IDENTIFIED BY '{FIRST}' {requirement}");
        mariadb.query(&format!("CREATE USER {account}"));
        mariadb.query(&format!("GRANT SELECT ON demo.orders TO 'app'@'{host}'"));
        assert_unverified(root.write("database/static-roles/app", &role("sea")));
        assert_eq!(is_verified(&root), false, "{host} {requirement}");
        assert_unverified(root.write("database/rotate-role/app", &json!({})));
        let given = shown(&root);
        mariadb.query(lift);
        assert!(logs_in(&given) && !logs_in(FIRST), "{host} {requirement}");
        root.write("database/rotate-role/app", &json!({})).expect(204);
        assert_eq!(is_verified(&root), true, "{host} {requirement}");
        assert!(logs_in(&shown(&root)), "{host} {requirement}");
        root.delete("database/static-roles/app").expect(200);
        mariadb.query("DROP USER 'app'@'%'");
    }
    mariadb.query(&format!("CREATE USER 'app'@'%' IDENTIFIED BY '{FIRST}'"));
    let wrong = with(role("sea"), json!({ "skip_import_rotation": true, "password": "wrong" }));
    let refused = root.write("database/static-roles/app", &wrong).expect(400);
    assert!(refused.errors().contains("refuses password"), "{refused:?}");
}

//! Static roles on a real database: the displayed password always logs in, also after a failure of
//! the database, the process or the account.

use crate::world::{World, with};
use bulkhead_tests::wait::until_true;
use bulkhead_tests::{Postgres, leaks};
use serde_json::{Value, json};
use std::thread;
use std::time::{Duration, Instant};

/// Longest wait for background work, including the pauses between attempts.
const PATIENCE: Duration = Duration::from_secs(40);
/// Longest time for an answer that needs no database.
const AT_ONCE: Duration = Duration::from_secs(4);
/// Password of an account before Bulkhead takes it over.
const FIRST: &str = "Hv3-Pq8-Lm5-Zd1";

/// A world with the connection `demo` and the account `app`.
fn world() -> World {
    let world = World::new();
    account(&world.postgres, "app");
    world
}

fn account(postgres: &Postgres, name: &str) {
    postgres.query(&format!("CREATE ROLE \"{name}\" LOGIN PASSWORD '{FIRST}' IN ROLE readers"));
}

/// The usual fields of a static role of `username`.
fn role(username: &str) -> Value {
    json!({ "db_name": "demo", "username": username, "rotation_period": "1h" })
}

/// The displayed password.
fn shown(world: &World, role: &str) -> String {
    let answer = world.root.read(&format!("database/static-creds/{role}")).expect(200);
    answer.text("password").to_owned()
}

fn logs_in(postgres: &Postgres, username: &str, password: &str) -> bool {
    postgres.login(username, password, "SELECT 1").is_ok()
}

/// Returns true if the displayed password of `app` logs in.
fn is_in_force(world: &World) -> bool {
    logs_in(&world.postgres, "app", &shown(world, "app"))
}

#[test]
fn new_static_role_rotates_and_shows_password() {
    let world = world();
    world.root.write("database/static-roles/app", &role("app")).expect(204);
    assert!(is_in_force(&world));
    assert!(!logs_in(&world.postgres, "app", FIRST), "the first password is over");
    let answer = world.root.read("database/static-creds/app").expect(200);
    assert_eq!(answer.text("username"), "app");
    assert_eq!(answer.body["lease_id"], "", "nothing is leased");
    assert!(answer.body["data"]["ttl"].as_u64().is_some_and(|ttl| (3_590..=3_600).contains(&ttl)));
    assert_eq!(answer.text("last_vault_rotation"), answer.text("last_service_rotation"));
    assert_eq!(shown(&world, "app"), shown(&world, "app"), "a read does not change the password");
}

#[test]
fn a_password_is_rotated_after_every_period() {
    let world = world();
    let often = with(role("app"), json!({ "rotation_period": 5 }));
    world.root.write("database/static-roles/app", &often).expect(204);
    for _ in 0..2 {
        let before = shown(&world, "app");
        until_true("the next rotation", PATIENCE, || shown(&world, "app") != before);
        assert!(is_in_force(&world));
    }
}

#[test]
fn a_requested_rotation_changes_the_password_at_once() {
    let world = world();
    world.root.write("database/static-roles/app", &role("app")).expect(204);
    let before = shown(&world, "app");
    world.root.write("database/rotate-role/app", &json!({})).expect(204);
    assert_ne!(shown(&world, "app"), before);
    assert!(is_in_force(&world));
    let unknown = world.root.write("database/rotate-role/other", &json!({})).expect(400);
    assert!(unknown.errors().contains("no static role found"), "{unknown:?}");
}

#[test]
fn custom_statements_rotate_password_and_errors_hide_it() {
    let world = world();
    let given = json!({ "rotation_statements": "ALTER ROLE \"{{name}}\" PASSWORD '{{password}}'" });
    world.root.write("database/static-roles/app", &with(role("app"), given)).expect(204);
    assert!(is_in_force(&world));
    let broken =
        json!({ "rotation_statements": "ALTER ROLE \"{{name}}\" PASSWORT '{{password}}'" });
    world.root.write("database/static-roles/app", &broken).expect(204);
    let refused = world.root.write("database/rotate-role/app", &json!({})).expect(400);
    assert!(refused.errors().contains("42601"), "{refused:?}");
    assert!(is_in_force(&world), "the old password is still the one");
    leaks::assert_silent("the log", &world.bulkhead.printed(), &shown(&world, "app"));
    let given = json!({ "rotation_statements": [] });
    world.root.write("database/static-roles/app", &given).expect(204);
    let before = shown(&world, "app");
    until_true("the unfinished rotation goes on with a fresh password", PATIENCE, || {
        world.root.write("database/rotate-role/app", &json!({}));
        shown(&world, "app") != before && is_in_force(&world)
    });
}

#[test]
fn missing_or_connection_user_gets_no_static_role() {
    let world = world();
    for (username, reason) in [("nobody", "no such user"), ("bulkhead", "rotate-root/demo")] {
        let refused = world.root.write("database/static-roles/app", &role(username)).expect(400);
        assert!(refused.errors().contains(reason), "{refused:?}");
        world.root.read("database/static-roles/app").expect(404);
    }
    world.root.write("database/static-roles/app", &role("app")).expect(204);
    let second = world.root.write("database/static-roles/second", &role("app")).expect(400);
    assert!(second.errors().contains("an account has one owner"), "{second:?}");
    assert!(is_in_force(&world));
}

#[test]
fn an_imported_password_stays_until_the_first_rotation() {
    let world = world();
    let imported = json!({ "skip_import_rotation": true, "password": FIRST });
    world.root.write("database/static-roles/app", &with(role("app"), imported)).expect(204);
    assert_eq!(shown(&world, "app"), FIRST);
    assert!(is_in_force(&world));
    world.root.write("database/rotate-role/app", &json!({})).expect(204);
    assert_ne!(shown(&world, "app"), FIRST);
    assert!(is_in_force(&world));
}

/// Each login is a process of the database server, and a pool for each account would push out pools
/// in use.
#[test]
fn password_verification_takes_one_login_without_lingering_session() {
    let world = World::of(Postgres::start_with("of-the-connection", &["-c", "log_connections=on"]));
    account(&world.postgres, "app");
    world.connect("demo");
    let logins = || world.postgres.log().matches("connection authorized: user=app ").count();
    world.root.write("database/static-roles/app", &role("app")).expect(204);
    assert_eq!(logins(), 1);
    world.root.write("database/rotate-role/app", &json!({})).expect(204);
    assert_eq!(logins(), 2);
    let open = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'app'";
    until_true("its sessions are closed", PATIENCE, || world.postgres.query(open) == "0");
    assert!(is_in_force(&world));
}

/// P1: an unresponsive database delays only requests that need it, and overdue rotations happen
/// when it is back.
#[test]
fn unresponsive_database_delays_no_other_and_role_recovers() {
    let world = world();
    let away = Postgres::start_with(&world.postgres.password, &[]);
    account(&away, "far");
    let config = with(
        world.connection(),
        json!({ "connection_url": format!("{}&connect_timeout=8", away.url()) }),
    );
    assert!(world.root.write("database/config/away", &config).status < 300);
    let often = json!({ "rotation_period": 5 });
    let far = with(with(role("far"), json!({ "db_name": "away" })), often.clone());
    world.root.write("database/static-roles/far", &far).expect(204);
    world.root.write("database/static-roles/app", &with(role("app"), often)).expect(204);
    let paused = away.pause();
    let ttl =
        || world.root.read("database/static-creds/far").expect(200).body["data"]["ttl"].clone();
    until_true("the rotation of the database that hangs is due", PATIENCE, || ttl() == 0);
    for _ in 0..2 {
        let before = shown(&world, "app");
        until_true("the other database's role is rotated", PATIENCE, || {
            shown(&world, "app") != before
        });
    }
    assert!(is_in_force(&world));
    let start = Instant::now();
    world.root.read("database/static-roles/far").expect(200);
    world.root.write("database/static-roles/far", &json!({ "rotation_period": 6 })).expect(204);
    assert!(start.elapsed() < AT_ONCE, "{:?}", start.elapsed());
    drop(paused);
    let before = shown(&world, "far");
    until_true("the role recovers", 2 * PATIENCE, || {
        let now = shown(&world, "far");
        now != before && logs_in(&away, "far", &now)
    });
}

/// P3: a restart rotates nothing early and forgets nothing that is due.
#[test]
fn a_restart_rotates_only_overdue_roles() {
    let mut world = world();
    account(&world.postgres, "soon");
    world.root.write("database/static-roles/app", &role("app")).expect(204);
    let soon = with(role("soon"), json!({ "rotation_period": 6 }));
    world.root.write("database/static-roles/soon", &soon).expect(204);
    let (app_password, due) = (shown(&world, "app"), shown(&world, "soon"));
    world.bulkhead.kill();
    world.bulkhead.start_again();
    world.root = world.bulkhead.root();
    until_true("what was due is rotated", PATIENCE, || shown(&world, "soon") != due);
    assert!(logs_in(&world.postgres, "soon", &shown(&world, "soon")));
    assert_eq!(shown(&world, "app"), app_password);
    assert!(is_in_force(&world));
}

/// Concurrent changes would fail with the database's error `tuple concurrently updated`.
#[test]
fn concurrent_role_rotations_end_with_one_working_password() {
    let world = world();
    world.root.write("database/static-roles/app", &role("app")).expect(204);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let answer = world.root.write("database/rotate-role/app", &json!({}));
                assert!([204, 503].contains(&answer.status), "{answer:?}");
            });
        }
    });
    until_true("what is shown logs in", PATIENCE, || is_in_force(&world));
    world.root.write("database/rotate-role/app", &json!({}));
    until_true("what is shown logs in", PATIENCE, || is_in_force(&world));
}

/// S11: each read of static credentials checks the connection's allowed roles.
#[test]
fn static_role_outside_allowed_roles_shows_no_password() {
    let world = world();
    world.root.write("database/static-roles/app", &role("app")).expect(204);
    let closed = with(world.connection(), json!({ "allowed_roles": "other" }));
    assert!(world.root.write("database/config/demo", &closed).status < 300);
    let denied = world.root.read("database/static-creds/app").expect(403);
    assert!(denied.errors().contains("allowed_roles"), "{denied:?}");
    world.root.write("database/rotate-role/app", &json!({})).expect(403);
}

/// P10: create and update are separate capabilities.
#[test]
fn static_role_create_and_update_are_separate_capabilities() {
    let world = world();
    let rules =
        |may: &str| format!("path \"database/static-roles/*\" {{ capabilities = [\"{may}\"] }}");
    let creator = world.client_with("creator", &rules("create"));
    let updater = world.client_with("updater", &rules("update"));
    updater.write("database/static-roles/app", &role("app")).expect(403);
    creator.write("database/static-roles/app", &role("app")).expect(204);
    creator.write("database/static-roles/app", &role("app")).expect(403);
    updater.write("database/static-roles/app", &json!({ "rotation_period": "2h" })).expect(204);
}

#[test]
fn user_without_login_right_gets_new_password() {
    let world = world();
    world.postgres.query("ALTER ROLE app NOLOGIN");
    world.root.write("database/static-roles/app", &role("app")).expect(200);
    world.postgres.query("ALTER ROLE app LOGIN");
    assert!(is_in_force(&world));
}

#[test]
fn account_names_with_sql_syntax_are_quoted() {
    let world = World::new();
    for name in ["Mixed Case", "quote\"d", "it's", "semi;colon", "{{password}}"] {
        let doubled = name.replace('"', "\"\"");
        account(&world.postgres, &doubled);
        world.root.write("database/static-roles/app", &role(name)).expect(204);
        assert!(logs_in(&world.postgres, name, &shown(&world, "app")), "{name}");
        world.root.delete("database/static-roles/app").expect(200);
    }
}

#[test]
fn rotation_repairs_role_after_database_restore() {
    let world = world();
    world.root.write("database/static-roles/app", &role("app")).expect(204);
    let lease = world.credential("reader").lease;
    // The account has its old password, and the user of the lease does not exist.
    world.postgres.query(&format!("ALTER ROLE app PASSWORD '{FIRST}'"));
    for user in world.postgres.users() {
        world.postgres.query(&format!("DROP ROLE \"{user}\""));
    }
    assert!(!is_in_force(&world));
    world.root.write("database/rotate-role/app", &json!({})).expect(204);
    assert!(is_in_force(&world));
    world.revoke(&lease);
    world.postgres.query("CREATE ROLE bystander SUPERUSER LOGIN PASSWORD 'p'");
    world.postgres.query("ALTER ROLE bulkhead PASSWORD 'of-the-backup'");
    let answer = world.root.write("database/reset/demo", &json!({})).expect(400);
    assert!(answer.errors().contains("demo"), "{}", answer.errors());
    let shown = shown(&world, "app");
    world.root.write("database/rotate-role/app", &json!({})).expect(400);
    assert!(logs_in(&world.postgres, "app", &shown), "what is shown stays what logs in");
}

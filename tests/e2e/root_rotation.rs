//! Rotation of a connection's own password on a real database: afterwards the connection works and
//! the old password does not.

use crate::world::{World, with};
use bulkhead_tests::Postgres;
use bulkhead_tests::wait::until_true;
use serde_json::{Value, json};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(40);
/// Password of the connection's own user before the first rotation.
const FIRST: &str = "Rb6-Tn2-Gy9-Kc4";

/// A world whose connection `demo` logs in as `keeper`, which may create users and change itself.
fn world() -> World {
    let world = World::new();
    world.postgres.query(&format!("CREATE ROLE keeper SUPERUSER LOGIN PASSWORD '{FIRST}'"));
    assert!(world.root.write("database/config/demo", &keeper(&world, json!({}))).status < 300);
    world
}

fn keeper(world: &World, more: Value) -> Value {
    with(with(world.connection(), json!({ "username": "keeper", "password": FIRST })), more)
}

fn logs_in(postgres: &Postgres, password: &str) -> bool {
    postgres.login("keeper", password, "SELECT 1").is_ok()
}

#[test]
fn rotation_keeps_connection_and_invalidates_old_password() {
    let world = world();
    let before = world.credential("reader");
    world.root.write("database/rotate-root/demo", &json!({})).expect(204);
    assert!(!logs_in(&world.postgres, FIRST));
    let after = world.credential("reader");
    world.revoke(&before.lease);
    world.revoke(&after.lease);
    world.root.write("database/reset/demo", &json!({})).expect(204);
    world.root.write("database/rotate-root/demo", &json!({})).expect(204);
    world.credential("reader");
    let shown = world.root.read("database/config/demo").expect(200);
    assert!(shown.body["data"]["connection_details"].get("password").is_none(), "{shown:?}");
}

#[test]
fn rotation_period_rotates_connection_password() {
    let world = world();
    let config = keeper(&world, json!({ "rotation_period": 10 }));
    assert!(world.root.write("database/config/demo", &config).status < 300);
    until_true("the password is changed by itself", PATIENCE, || !logs_in(&world.postgres, FIRST));
    world.credential("reader");
    let disabled = json!({ "disable_automated_rotation": true });
    assert!(world.root.write("database/config/demo", &disabled).status < 300);
    world.credential("reader");
}

#[test]
fn connection_without_password_template_is_not_rotated() {
    let world = world();
    let inline = world.postgres.url().replace("{{password}}", FIRST);
    let config = keeper(&world, json!({ "connection_url": inline }));
    assert!(world.root.write("database/config/demo", &config).status < 300);
    let refused = world.root.write("database/rotate-root/demo", &json!({})).expect(400);
    assert!(refused.errors().contains("must template {{password}}"), "{refused:?}");
    assert!(logs_in(&world.postgres, FIRST));
    world.root.write("database/rotate-root/other", &json!({})).expect(400);
}

#[test]
fn failed_rotation_keeps_password_and_completes_after_repair() {
    let world = world();
    let broken = json!({ "root_rotation_statements": "ALTER ROLE nobody PASSWORD '{{password}}'" });
    assert!(world.root.write("database/config/demo", &broken).status < 300);
    world.root.write("database/rotate-root/demo", &json!({})).expect(400);
    assert!(logs_in(&world.postgres, FIRST));
    world.credential("reader");
    let mended = json!({ "root_rotation_statements": [] });
    assert!(world.root.write("database/config/demo", &mended).status < 300);
    until_true("the unfinished rotation goes on", PATIENCE, || {
        world.root.write("database/rotate-root/demo", &json!({}));
        !logs_in(&world.postgres, FIRST)
    });
    until_true("the connection works", PATIENCE, || {
        world.root.read("database/creds/reader").status == 200
    });
}

/// P10: sessions with an earlier password are closed.
#[test]
fn many_rotations_resets_and_reloads_leave_few_sessions() {
    let world = world();
    for round in 0..10 {
        world.root.write("database/rotate-root/demo", &json!({})).expect(204);
        world.root.write("database/reset/demo", &json!({})).expect(204);
        let path = "database/reload/postgresql-database-plugin";
        let reloaded = world.root.write(path, &json!({})).expect(200);
        assert_eq!(
            reloaded.body["data"],
            json!({ "connections": ["demo"], "count": 1 }),
            "{round}"
        );
        world.credential("reader");
    }
    let sessions = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'keeper'";
    until_true("sessions of earlier generations are closed", PATIENCE, || {
        world.postgres.query(sessions).parse::<u32>().expect("a number") <= 5
    });
}

#[test]
fn first_password_does_not_replace_rotated_password() {
    for is_verified in [true, false] {
        let world = world();
        world.root.write("database/rotate-root/demo", &json!({})).expect(204);
        let first = keeper(&world, json!({ "verify_connection": is_verified }));
        let refused = world.root.write("database/config/demo", &first).expect(400).errors();
        assert!(refused.contains("the password made by a rotation is"), "{refused}");
        let credential = world.credential("reader");
        world.revoke(&credential.lease);
        let forced = with(first, json!({ "verify_connection": false, "force": true }));
        world.root.write("database/config/demo", &forced).expect_success();
        let shown = world.root.read("database/config/demo").expect(200).body.to_string();
        assert!(!shown.contains("force"), "{shown}");
        world.root.read("database/creds/reader").expect(400);
    }
}

#[test]
fn rotated_password_waits_for_return_to_former_server() {
    let world = world();
    let other = Postgres::start();
    world.root.write("database/rotate-root/demo", &json!({})).expect(204);
    let elsewhere = json!({
        "connection_url": other.url(), "username": "bulkhead", "password": other.password,
    });
    let warnings = world.root.write("database/config/demo", &elsewhere).expect(200).warnings();
    assert!(warnings.contains("is kept for the former servers"), "{warnings}");
    // No login works with the first password, so the kept one is found after the write.
    let back = keeper(&world, json!({ "verify_connection": false }));
    world.root.write("database/config/demo", &back).expect_success();
    until_true("the kept password is in use", Duration::from_secs(20), || {
        world.root.read("database/creds/reader").status == 200
    });
}

#[test]
fn mount_removal_warns_of_only_copy_of_password() {
    let world = world();
    let only_copies = || {
        let shown = world.root.read("sys/mounts/database").expect(200);
        shown.body["data"]["only_copies"].clone()
    };
    assert_eq!(only_copies(), Value::Null);
    world.root.write("database/rotate-root/demo", &json!({})).expect(204);
    let secret = "the password of user \"keeper\" of connection \"demo\"";
    assert_eq!(only_copies(), json!([secret]));
    let warnings = world.root.delete("sys/mounts/database").expect(200).warnings();
    assert!(warnings.contains("knew the password") && warnings.contains("keeper"), "{warnings}");
}

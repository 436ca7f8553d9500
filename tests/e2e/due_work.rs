//! What ends in its time while everything of other mounts hangs, at its size: thousands of wakes
//! that never come back, and databases that accept and never answer.

use crate::world::{CREATION, World, with};
use bulkhead_tests::paths::guest;
use bulkhead_tests::wait::{until, until_true};
use bulkhead_tests::{Client, Postgres};
use serde_json::json;
use std::thread;
use std::time::Duration;

/// Wakes of one mount that hang, in more lanes than there are places.
const HANGING: u32 = 2_000;
const LANES: u32 = 500;
/// Databases that do not answer, and credentials in each of them that are due.
const UNREACHABLE: u32 = 16;
const DUE_IN_EACH: u32 = 5;
/// How soon after its end a lease of a healthy mount has ended.
const ENDED: Duration = Duration::from_secs(2);
/// For what is waited for before that.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn a_lease_ends_within_two_seconds_beside_hung_wakes_and_databases_of_one_mount() {
    ends_beside_what_hangs(|_| "away".to_owned());
}

#[test]
fn a_lease_ends_within_two_seconds_beside_hung_wakes_and_databases_of_many_mounts() {
    ends_beside_what_hangs(|number| format!("away-{number}"));
}

/// With the connections to the database that is paused each in the mount that `mount` names.
fn ends_beside_what_hangs(mount: impl Fn(u32) -> String) {
    let world = World::new();
    // Whoever gave up while it was paused is still let in when it goes on.
    let away = Postgres::start_with(&world.postgres.password, &["-c", "max_connections=500"]);
    let due: Vec<String> =
        (0..UNREACHABLE).flat_map(|n| leases_of(&world, &away, &mount(n), n)).collect();
    let paused = away.pause();
    let is_over = |lease: &String| {
        let found = world.root.write("sys/leases/lookup", &json!({ "lease_id": lease }));
        found.status == 400 || found.body["data"]["ttl"].as_i64() == Some(0)
    };
    until_true("the unreachable leases are due", PATIENCE, || due.iter().all(is_over));
    hang(&world.root);
    world.role("short", json!({ "default_ttl": "1s", "max_ttl": "1s" }));
    for _ in 0..3 {
        let user = world.credential("short").username;
        let took = until_true("the user of the healthy mount is gone", PATIENCE, || {
            !world.postgres.has_user(&user)
        });
        assert!(took < Duration::from_secs(1) + ENDED, "{took:?}");
    }
    drop(paused);
    until_true("all leases end once their database answers", 2 * PATIENCE, || {
        away.users().iter().all(|user| !user.starts_with("v-"))
    });
}

/// Credentials of a connection to the database that is going to be paused.
fn leases_of(world: &World, away: &Postgres, mount: &str, number: u32) -> Vec<String> {
    let root = &world.root;
    if root.read(&format!("sys/mounts/{mount}")).status != 200 {
        root.write(&format!("sys/mounts/{mount}"), &json!({ "type": "database" })).expect(204);
    }
    let connection = with(world.connection(), json!({ "connection_url": away.url() }));
    let config = format!("{mount}/config/away-{number}");
    assert!(root.write(&config, &connection).status < 300);
    let role = json!({
        "db_name": format!("away-{number}"),
        "creation_statements": [CREATION],
        "default_ttl": "10s",
        "max_ttl": "10s",
    });
    assert!(root.write(&format!("{mount}/roles/reader-{number}"), &role).status < 300);
    let asked = |_| root.read(&format!("{mount}/creds/reader-{number}")).expect(200);
    (0..DUE_IN_EACH).map(asked).map(|given| given.lease().to_owned()).collect()
}

/// Lets the wakes of a mount of another author hang, and waits until some do.
fn hang(root: &Client) {
    root.upload("sys/plugins/catalog/secret/probe", &guest("probe")).expect(204);
    root.write("sys/mounts/hung", &json!({ "type": "probe" })).expect(204);
    thread::scope(|scope| {
        for first in 0..4 {
            scope.spawn(move || {
                for number in (first..HANGING).step_by(4) {
                    let timer = json!({ "after": 0, "lane": format!("lane {}", number % LANES) });
                    root.write(&format!("hung/timer/hang-{number}"), &timer).expect(204);
                }
            });
        }
    });
    until("a wake hangs", PATIENCE, || {
        let noted = |number| root.read(&format!("hung/note/hang-{number}")).status == 200;
        (0..HANGING).find(|number| noted(*number))
    });
}

//! Due work of a healthy mount while other mounts hang: thousands of wakes that never return, and
//! databases that accept connections and never answer.

use crate::world::{CREATION, World, with};
use bulkhead_tests::paths::guest;
use bulkhead_tests::wait::{until, until_true};
use bulkhead_tests::{Client, Postgres};
use serde_json::json;
use std::thread;
use std::time::Duration;

/// Number of hanging wakes of a mount, and number of their lanes: more than may run at a time.
const HANGING: u32 = 2_000;
const LANES: u32 = 500;
/// Number of unresponsive databases, and due credentials in each.
const UNREACHABLE: u32 = 16;
const DUE_IN_EACH: u32 = 5;
/// Longest time until a lease of a healthy mount ends after its expiry.
const ENDED: Duration = Duration::from_secs(2);
/// Longest wait for the preparations.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn hung_work_of_one_mount_delays_no_lease() {
    ends_beside_what_hangs(|_| "away".to_owned());
}

#[test]
fn hung_work_of_many_mounts_delays_no_lease() {
    ends_beside_what_hangs(|number| format!("away-{number}"));
}

/// `mount` names the mount of each connection to the paused database.
fn ends_beside_what_hangs(mount: impl Fn(u32) -> String) {
    let world = World::new();
    // Clients that gave up during the pause still hold connections afterwards.
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

/// Issues credentials of a connection to the database that will be paused.
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
    let issue = |_| root.read(&format!("{mount}/creds/reader-{number}")).expect(200);
    (0..DUE_IN_EACH).map(issue).map(|given| given.lease().to_owned()).collect()
}

/// Makes the wakes of a mount hang, and waits until some do.
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

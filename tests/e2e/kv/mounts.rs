//! Mounts of version 1 and version 2 of the API.

use super::data;
use crate::world::World;
use bulkhead_tests::Client;
use bulkhead_tests::wait::{StopOnDrop, until_true};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(60);

fn options(world: &World, path: &str) -> Value {
    world.root.read(&format!("sys/mounts/{path}")).expect(200).body["data"]["options"].clone()
}

#[test]
fn the_option_chooses_the_version_of_the_api() {
    let world = World::empty();
    for (path, body, version, shown) in [
        ("a", json!({ "type": "kv" }), 1, json!({})),
        ("b", json!({ "type": "kv", "options": { "version": "1" } }), 1, json!({"version": "1"})),
        ("c", json!({ "type": "kv", "options": { "version": 2 } }), 2, json!({"version": "2"})),
        ("d", json!({ "type": "kv-v2" }), 2, json!({ "version": "2" })),
        ("e/f", json!({ "type": "kv-v1" }), 1, json!({ "version": "1" })),
    ] {
        world.root.write(&format!("sys/mounts/{path}"), &body).expect(204);
        assert_eq!(options(&world, path), shown, "{path}");
        let info = world.root.read(&format!("sys/mounts/{path}")).expect(200);
        assert_eq!(info.text("type"), "kv");
        match version {
            1 => {
                world.root.write(&format!("{path}/data/x"), &json!({ "n": 1 })).expect(204);
                let read = world.root.read(&format!("{path}/data/x")).expect(200);
                assert_eq!(read.body["data"], json!({ "n": 1 }));
                assert_eq!(read.body["lease_duration"], 2_764_800);
            }
            _ => {
                let written = world.root.write(&format!("{path}/data/x"), &data(json!({"n": 1})));
                assert_eq!(written.expect(200).body["data"]["version"], 1);
                world.root.write(&format!("{path}/x"), &json!({ "n": 1 })).expect(404);
            }
        }
    }
    for wrong in ["3", "0", "two"] {
        let body = json!({ "type": "kv", "options": { "version": wrong } });
        let refused = world.root.write("sys/mounts/g", &body).expect(400);
        assert!(refused.errors().contains("give 1 or 2"), "{refused:?}");
    }
    let absent = world.root.write("sys/mounts/g", &json!({ "type": "kv-v3" }));
    absent.refused(400, "there is no secrets engine \"kv-v3\"");
}

#[test]
fn kv_mount_with_secrets_refuses_downgrade() {
    let world = World::empty();
    world.root.write("sys/mounts/a", &json!({ "type": "kv" })).expect(204);
    let to_2 = json!({ "options": { "version": "2" } });
    world.root.write("sys/mounts/a/tune", &to_2).expect(204);
    world.root.write("a/data/x", &data(json!({}))).expect(200);
    let to_1 = json!({ "options": { "version": "1" } });
    let refused = world.root.write("sys/mounts/a/tune", &to_1).expect(400);
    assert!(refused.errors().contains("cannot change to version 1"), "{refused:?}");
    assert_eq!(options(&world, "a"), json!({ "version": "2" }));
    world.root.write("sys/mounts/a/tune", &json!({ "description": "kept" })).expect(204);
    let refused = world.root.write("sys/mounts/a/tune", &json!({"options": {"version": "9"}}));
    assert!(refused.expect(400).errors().contains("give 1 or 2"));
    world.root.read("a/data/x").expect(200);
}

#[test]
fn secrets_of_version_1_become_versions_in_place() {
    let mut world = World::empty();
    world.root.write("sys/mounts/old", &json!({ "type": "kv" })).expect(204);
    for number in 0..1_100 {
        world.root.write(&format!("old/s/{number}"), &json!({ "n": number })).expect(204);
    }
    world.root.write("old/data/app", &json!({ "user": "a", "ttl": "1h" })).expect(204);
    let reader = world.client_with("reader", r#"path "old/data/*" { capabilities = ["read"] }"#);
    let to_2 = json!({ "options": { "version": "2" } });
    world.root.write("sys/mounts/old/tune", &to_2).expect(204);
    assert_eq!(options(&world, "old"), json!({ "version": "2" }));
    for number in [0, 499, 500, 1_099] {
        let read = reader.read(&format!("old/data/s/{number}")).expect(200);
        assert_eq!(read.body["data"]["data"], json!({ "n": number }));
        assert_eq!(read.body["data"]["metadata"]["version"], 1);
    }
    let app = world.root.read("old/data/data/app").expect(200);
    assert_eq!(app.body["data"]["data"], json!({ "user": "a", "ttl": "1h" }));
    let listed = world.root.list("old/metadata/s").expect(200);
    assert_eq!(listed.body["data"]["keys"].as_array().map(Vec::len), Some(1_100));
    let second = json!({ "data": { "user": "b" }, "options": { "cas": 1 } });
    let written = world.root.write("old/data/data/app", &second).expect(200);
    assert_eq!(written.body["data"]["version"], 2);
    let back = json!({ "options": { "version": "1" } });
    let refused = world.root.write("sys/mounts/old/tune", &back).expect(400);
    assert!(refused.errors().contains("cannot change to version 1"), "{refused:?}");
    world.bulkhead.kill();
    world.bulkhead.start_again();
    let first = world.bulkhead.root().read("old/data/data/app?version=1").expect(200);
    assert_eq!(first.body["data"]["data"]["user"], "a");
}

/// Number of writers beside the upgrade.
const WRITERS: usize = 4;

/// Writes one secret after the other until version 2 answers, and returns the number of secrets.
/// `begun` counts the writers with a stored secret.
fn write_until_upgraded(
    (root, writer): (&Client, usize),
    begun: &AtomicUsize,
    stop: &AtomicBool,
) -> usize {
    for number in 0.. {
        let path = format!("old/w{writer}/{number}");
        let answer = root.write(&path, &json!({ "n": number }));
        if answer.status != 204 {
            // Version 2 answers 404 with the other path.
            answer.expect(404);
            return number;
        }
        if number == 0 {
            begun.fetch_add(1, Ordering::Relaxed);
        }
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    panic!("version 2 did not answer writer {writer}");
}

#[test]
fn kv_upgrade_loses_no_concurrent_write() {
    let world = World::empty();
    world.root.write("sys/mounts/old", &json!({ "type": "kv" })).expect(204);
    for number in 0..600 {
        world.root.write(&format!("old/s/{number}"), &json!({ "n": number })).expect(204);
    }
    let (begun, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let written = std::thread::scope(|scope| {
        let _stop = StopOnDrop(&stop);
        let (begun, stop) = (&begun, &stop);
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let root = world.bulkhead.root();
                scope.spawn(move || write_until_upgraded((&root, writer), begun, stop))
            })
            .collect();
        // From version 1 to version 2, the writes of each writer follow each other without a gap.
        until_true("each writer has written", SOON, || begun.load(Ordering::Relaxed) == WRITERS);
        let to_2 = json!({ "options": { "version": "2" } });
        world.root.write("sys/mounts/old/tune", &to_2).expect(204);
        writers.into_iter().map(|writer| writer.join().expect("a writer ends")).collect::<Vec<_>>()
    });
    for (writer, count) in written.into_iter().enumerate() {
        for number in 0..count {
            let read = world.root.read(&format!("old/data/w{writer}/{number}")).expect(200);
            assert_eq!(read.body["data"]["data"]["n"], number);
        }
        world.root.read(&format!("old/data/w{writer}/{count}")).expect(404);
    }
}

#[test]
fn an_interrupted_upgrade_is_completed_after_the_start() {
    let mut world = World::empty();
    world.root.write("sys/mounts/old", &json!({ "type": "kv" })).expect(204);
    let long = "x".repeat(900 << 10);
    for number in 0..40 {
        let secret = json!({ "long": long, "n": number });
        world.root.write(&format!("old/{number}"), &secret).expect(204);
    }
    let root = world.bulkhead.root();
    let tuning = std::thread::spawn(move || {
        let to_2 = json!({ "options": { "version": "2" } }).to_string();
        root.attempt("POST", "sys/mounts/old/tune", to_2.as_bytes())
    });
    until_true("the first step is stored", SOON, || {
        world.bulkhead.printed().contains("migration-in-steps")
    });
    world.bulkhead.kill();
    let unanswered = tuning.join().expect("the request ends");
    assert!(unanswered.is_err(), "the upgrade was under way: {unanswered:?}");
    world.bulkhead.start_again();
    let root = world.bulkhead.root();
    until_true("the mount serves again", SOON, || {
        root.attempt("GET", "old/data/0", b"").is_ok_and(|read| read.status == 200)
    });
    let mount = root.read("sys/mounts/old").expect(200);
    assert_eq!(mount.body["data"]["options"], json!({ "version": "2" }));
    for number in 0..40 {
        let read = root.read(&format!("old/data/{number}")).expect(200);
        assert_eq!(read.body["data"]["data"]["n"], number);
        assert_eq!(read.body["data"]["metadata"]["version"], 1);
    }
}

#[test]
fn kv_version_1_path_names_version_2_path() {
    let world = World::empty();
    let secret = json!({ "password": "c4n4ry" });
    for (answer, path) in [
        (world.root.read("secret/app/db"), "secret/data/app/db"),
        (world.root.write("secret/app/db", &secret), "secret/data/app/db"),
        (world.root.delete("secret/app/db"), "secret/data/app/db"),
        (world.root.list("secret/app"), "secret/metadata/app"),
        (world.root.list("secret"), "secret/metadata"),
    ] {
        let answer = answer.expect(404);
        let hint = format!("serves version 2: use \"{path}\"");
        assert!(answer.errors().contains(&hint), "{answer:?}");
        assert_eq!(answer.body["warnings"], answer.body["errors"], "clients show warnings");
        assert!(!answer.errors().contains("c4n4ry"), "{answer:?}");
    }
    world.weak().read("secret/app/db").refused(403, "this token may not read secret/app/db");
    let nobody = world.bulkhead.client(None).read("secret/app/db");
    let nobody = nobody.refused(403, "this path needs a token");
    assert_eq!(nobody.body["warnings"], Value::Null);
    world.root.write("sys/mounts/old", &json!({ "type": "kv" })).expect(204);
    world.root.read("old/data/x").expect(404);
    assert_eq!(world.root.read("old/data/x").body["errors"], json!([]), "a path of version 1");
}

#[test]
fn secrets_move_and_end_with_their_mount() {
    let world = World::empty();
    world.root.write("secret/data/x", &data(json!({ "n": 1 }))).expect(200);
    let moved = json!({ "from": "secret", "to": "kept" });
    let migration = world.root.write("sys/remount", &moved).expect(200);
    let status = format!("sys/remount/status/{}", migration.text("migration_id"));
    until_true("the move ends", SOON, || {
        world.root.read(&status).body["data"]["migration_info"]["status"] == "success"
    });
    let read = world.root.read("kept/data/x").expect(200);
    assert_eq!(read.body["data"]["data"], json!({ "n": 1 }));
    world.root.delete("sys/mounts/kept").expect(204);
    world.root.write("sys/mounts/kept", &json!({ "type": "kv-v2" })).expect(204);
    world.root.read("kept/data/x").expect(404);
}

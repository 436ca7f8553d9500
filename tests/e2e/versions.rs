//! Versions of a plugin: a mount is swapped from version to version and keeps its data, its leases
//! and every request.

use crate::world::World;
use bulkhead_tests::operators::open;
use bulkhead_tests::paths::{guest, in_version, with_text};
use bulkhead_tests::wait::until_true;
use bulkhead_tests::{Answer, Client};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

const PROBE: &str = "sys/plugins/catalog/secret/probe";
const HOSTILE: &str = "sys/plugins/catalog/secret/hostile";
/// The part of the description of the hostile guest that names its version and its schema.
const OF_HOSTILE: &str = "\"version\":\"1.0.0\",\"schema\":2";

/// Longest wait for the end of work in the background.
const SOON: Duration = Duration::from_secs(20);

/// The hostile guest in that version, with data of that schema.
fn hostile(version: &str, schema: u32) -> Vec<u8> {
    let other = format!("\"version\":\"{version}\",\"schema\":{schema}");
    with_text(guest("hostile"), OF_HOSTILE, &other)
}

/// A world with two versions of the probe, of which the older version serves `third/`.
fn two_probes() -> World {
    let world = World::empty();
    world.root.upload(PROBE, &guest("probe")).expect(204);
    world.root.upload(PROBE, &in_version("probe", "2.0.0")).expect(204);
    enable(&world.root, "probe", "v1.0.0");
    world
}

/// Mounts that version of the plugin at `third/`.
#[track_caller]
fn enable(root: &Client, kind: &str, version: &str) {
    let fields = json!({ "type": kind, "config": { "plugin_version": version } });
    root.write("sys/mounts/third", &fields).expect(204);
}

/// Asks for that version of the plugin of `third/`.
fn swap(root: &Client, version: &str) -> Answer {
    root.write("sys/mounts/third/tune", &json!({ "plugin_version": version }))
}

/// The version that the operator asked for, and the version that serves `third/`.
#[track_caller]
fn versions(root: &Client) -> (String, String) {
    let mount = root.read("sys/mounts/third").expect(200);
    (mount.text("plugin_version").to_owned(), mount.text("running_plugin_version").to_owned())
}

/// Both, where the mount serves the version that was asked for.
fn both(version: &str) -> (String, String) {
    (version.to_owned(), version.to_owned())
}

#[test]
fn a_mount_that_is_swapped_keeps_its_data_its_leases_and_its_timers() {
    let world = two_probes();
    let root = &world.root;
    assert_eq!(versions(root), both("1.0.0"));
    root.write("third/count/visits", &json!({})).expect(204);
    let lease = root.write("third/lease/made", &json!({ "how": "ok", "ttl": 3600 })).expect(200);
    root.write("third/timer/later", &json!({ "after": 1_500 })).expect(204);
    swap(root, "2.0.0").expect(204);
    assert_eq!(versions(root), both("2.0.0"));
    root.write("third/count/visits", &json!({})).expect(204);
    assert_eq!(note(root, "visits"), json!(2));
    root.write("sys/leases/revoke", &json!({ "lease_id": lease.lease() })).expect(204);
    root.read("third/note/made").expect(200);
    until_true("the timer of the older version wakes the newer", SOON, || {
        root.read("third/note/later").status == 200
    });
    swap(root, "v1.0.0").expect(204);
    assert_eq!(versions(root), both("1.0.0"));
    assert_eq!(note(root, "visits"), json!(2));
}

/// The note of the probe at `third/`.
#[track_caller]
fn note(root: &Client, name: &str) -> Value {
    root.read(&format!("third/note/{name}")).expect(200).body["data"]["note"].clone()
}

#[test]
fn the_version_of_a_mount_survives_a_restart() {
    let (mut server, operators) = open();
    let root = operators.root(&server);
    root.upload(PROBE, &guest("probe")).expect(204);
    root.upload(PROBE, &in_version("probe", "2.0.0")).expect(204);
    enable(&root, "probe", "1.0.0");
    root.write("sys/mounts/newest", &json!({ "type": "probe" })).expect(204);
    server.kill();
    server.start_again();
    operators.unseal(&server);
    let root = operators.root(&server);
    assert_eq!(versions(&root), both("1.0.0"));
    let newest = root.read("sys/mounts/newest").expect(200);
    assert_eq!(
        (newest.text("plugin_version"), newest.text("running_plugin_version")),
        ("", "2.0.0")
    );
}

#[test]
fn requests_lose_nothing_while_their_mount_is_swapped_again_and_again() {
    let world = two_probes();
    let (stop, counted) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for caller in 0..4 {
            let (root, stop, counted) = (&world.root, &stop, &counted);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    root.write(&format!("third/count/{caller}"), &json!({})).expect(204);
                    counted.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for round in 0..20 {
            swap(&world.root, ["2.0.0", "1.0.0"][round % 2]).expect(204);
        }
        stop.store(true, Ordering::Relaxed);
    });
    let stored: u64 =
        (0..4).map(|caller| note(&world.root, &caller.to_string()).as_u64().unwrap()).sum();
    assert_eq!(stored, counted.into_inner());
}

#[test]
fn data_of_an_older_schema_are_migrated_while_requests_wait_and_a_downgrade_is_refused() {
    let world = World::empty();
    let root = &world.root;
    root.upload(HOSTILE, &hostile("1.0.0", 2)).expect(204);
    root.upload(HOSTILE, &hostile("2.0.0", 3)).expect(204);
    enable(root, "hostile", "1.0.0");
    assert_eq!(root.read("third/acts").expect(200).body["data"]["migrated"], json!(false));
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    root.read("third/acts").expect(200);
                }
            });
        }
        swap(root, "2.0.0").expect(204);
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(versions(root), both("2.0.0"));
    assert_eq!(root.read("third/acts").expect(200).body["data"]["migrated"], json!(true));
    let refused = swap(root, "1.0.0").expect(400);
    for part in ["third/", "schema 3", "version 1.0.0", "up to 2"] {
        assert!(refused.errors().contains(part), "{refused:?}");
    }
    assert_eq!(versions(root), both("2.0.0"));
}

#[test]
fn a_version_that_cannot_migrate_leaves_the_version_before_serving() {
    let world = World::empty();
    let root = &world.root;
    root.upload(HOSTILE, &hostile("1.0.0", 4)).expect(204);
    root.upload(HOSTILE, &hostile("2.0.0", 5)).expect(204);
    enable(root, "hostile", "1.0.0");
    let fields = json!({ "plugin_version": "2.0.0", "description": "new" });
    let fields = fields.to_string();
    let refused = root.attempt("POST", "sys/mounts/third/tune", fields.as_bytes()).unwrap();
    assert_eq!(refused.status, 500, "{refused:?}");
    for part in ["plugin hostile 2.0.0", "panicked", "the mount is served as before"] {
        assert!(refused.errors().contains(part), "{refused:?}");
    }
    assert_eq!(versions(root), both("1.0.0"));
    root.read("third/acts").expect(200);
}

#[test]
fn a_version_that_crashes_again_and_again_is_replaced_by_the_version_before() {
    let world = World::empty();
    let root = &world.root;
    root.upload(HOSTILE, &hostile("1.0.0", 2)).expect(204);
    root.upload(HOSTILE, &hostile("2.0.0", 2)).expect(204);
    enable(root, "hostile", "1.0.0");
    swap(root, "2.0.0").expect(204);
    until_true("the version before serves again", SOON, || {
        root.attempt("GET", "third/panic", b"").unwrap();
        versions(root) == both("1.0.0")
    });
    root.read("third/acts").expect(200);
    assert!(world.bulkhead.printed().contains("event=plugin-rolled-back"));
}

#[test]
fn a_version_that_is_not_there_or_not_free_is_refused_and_nothing_changes() {
    let world = two_probes();
    let root = &world.root;
    for (version, why) in [("3.0.0", "1.0.0, 2.0.0"), ("newest", "\"newest\""), ("^1", "\"^1\"")] {
        let refused = swap(root, version).expect(400);
        assert!(refused.errors().contains(why), "{refused:?}");
        let fields = json!({ "type": "probe", "config": { "plugin_version": version } });
        let refused = root.write("sys/mounts/other", &fields).expect(400);
        assert!(refused.errors().contains(why), "{refused:?}");
    }
    assert_eq!(versions(root), both("1.0.0"));
    swap(root, "1.0.0").expect(204);
    let other_bytes = [in_version("probe", "2.0.0"), vec![0, 2, 1, b'x']].concat();
    let refused = root.upload(PROBE, &other_bytes).expect(400);
    assert!(refused.errors().contains("the bytes of a version never change"), "{refused:?}");
    let refused = root.upload(&format!("{PROBE}?version=9.9.9"), &in_version("probe", "3.0.0"));
    assert!(refused.expect(400).errors().contains("3.0.0"));
}

#[test]
fn the_catalog_shows_every_version_and_a_version_in_use_stays() {
    let world = two_probes();
    let root = &world.root;
    let listed = root.read("sys/plugins/catalog").expect(200);
    let names = listed.body["data"]["secret"].as_array().unwrap();
    assert_eq!(names.iter().filter(|name| **name == json!("probe")).count(), 1);
    let detailed = listed.body["data"]["detailed"].as_array().unwrap();
    let probes = detailed.iter().filter(|plugin| plugin["name"] == json!("probe"));
    let numbers: Vec<&Value> = probes.map(|plugin| &plugin["version"]).collect();
    assert_eq!(numbers, ["1.0.0", "2.0.0"]);
    assert_eq!(root.read(PROBE).expect(200).text("version"), "2.0.0");
    let one = root.read(&format!("{PROBE}?version=v1.0.0")).expect(200);
    assert_eq!(one.text("version"), "1.0.0");
    root.read(&format!("{PROBE}?version=3.0.0")).expect(404);

    let refused = root.delete(PROBE).expect(400);
    assert!(refused.errors().contains("1.0.0, 2.0.0"), "{refused:?}");
    let refused = root.delete(&format!("{PROBE}?version=1.0.0")).expect(400);
    assert!(refused.errors().contains("third/"), "{refused:?}");
    swap(root, "2.0.0").expect(204);
    root.delete(&format!("{PROBE}?version=1.0.0")).expect(204);
    let refused = root.delete(PROBE).expect(400);
    assert!(refused.errors().contains("in use by the mount third/"), "{refused:?}");
    assert_eq!(versions(root), both("2.0.0"));
}

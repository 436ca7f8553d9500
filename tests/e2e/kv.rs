//! The key-value engine on a running server: a team's secrets through restarts, concurrent writes
//! and foreign tokens.

mod bad_input;
mod contention;
mod mounts;

use crate::world::World;
use bulkhead_tests::concurrent_requests::at_once;
use bulkhead_tests::{leaks, metrics};
use serde_json::{Value, json};
use std::fs;

const WRITERS: usize = 50;

fn data(value: Value) -> Value {
    json!({ "data": value })
}

/// Writes a secret in version 2 of the API, and returns its version number.
#[track_caller]
fn put(world: &World, path: &str, value: Value) -> u64 {
    let written = world.root.write(&format!("secret/data/{path}"), &data(value)).expect(200);
    written.body["data"]["version"].as_u64().expect("a version")
}

#[test]
fn dev_server_secret_is_put_and_read() {
    let world = World::empty();
    let value = json!({ "password": "pässwörd", "port": 5432, "on": true, "of": [1, null, {}] });
    assert_eq!(put(&world, "app", value.clone()), 1);
    let read = world.root.read("secret/data/app").expect(200);
    assert_eq!(read.body["data"]["data"], value);
    assert_eq!(read.body["mount_type"], "kv");
    assert_eq!(read.body["data"]["metadata"]["version"], 1);
    assert_eq!((&read.body["lease_id"], &read.body["lease_duration"]), (&json!(""), &json!(0)));
    let preflight = world.root.read("sys/internal/ui/mounts/secret/app").expect(200);
    assert_eq!(preflight.body["data"]["path"], "secret/");
    assert_eq!(preflight.body["data"]["options"], json!({ "version": "2" }));
}

#[test]
fn versions_are_deleted_undeleted_and_destroyed() {
    let world = World::empty();
    for number in 1..=3 {
        assert_eq!(put(&world, "app", json!({ "n": number })), number);
    }
    let read = |version: u64| world.root.read(&format!("secret/data/app?version={version}"));
    let versions = json!({ "versions": [2, 3] });
    world.root.write("secret/delete/app", &versions).expect(204);
    for version in [0, 2, 3] {
        let gone = read(version).expect(404);
        assert_eq!(gone.body["data"]["data"], Value::Null);
        assert_ne!(gone.body["data"]["metadata"]["deletion_time"], "");
        assert!(gone.body["request_id"].as_str().is_some_and(|id| !id.is_empty()));
    }
    assert_eq!(read(1).expect(200).body["data"]["data"], json!({ "n": 1 }));
    world.root.write("secret/undelete/app", &versions).expect(204);
    assert_eq!(read(0).expect(200).body["data"]["data"], json!({ "n": 3 }));
    world.root.send("PUT", "secret/destroy/app", b"{\"versions\": [3]}").expect(204);
    world.root.write("secret/undelete/app", &versions).expect(204);
    assert_eq!(read(3).expect(404).body["data"]["metadata"]["destroyed"], true);
    assert_eq!(read(9).expect(404).body, json!({ "errors": [] }));
    world.root.delete("secret/metadata/app").expect(204);
    assert_eq!(read(0).expect(404).body, json!({ "errors": [] }));
}

#[test]
fn concurrent_writers_with_same_version_succeed_once() {
    let world = World::empty();
    put(&world, "app", json!({ "n": 0 }));
    let answers = at_once(&[world.bulkhead.root()], WRITERS, |client, writer| {
        let body = json!({ "data": { "n": writer }, "options": { "cas": 1 } });
        client.write("secret/data/app", &body)
    });
    let (winners, losers): (Vec<_>, Vec<_>) =
        answers.into_iter().partition(|answer| answer.status == 200);
    assert_eq!((winners.len(), losers.len()), (1, WRITERS - 1));
    losers.into_iter().for_each(|loser| drop(loser.refused(400, "the current version is 2")));
    let read = world.root.read("secret/data/app").expect(200);
    assert_eq!(read.body["data"]["metadata"]["version"], 2);
}

#[test]
fn concurrent_writers_without_version_lose_no_write() {
    let world = World::empty();
    world.root.write("secret/config", &json!({ "max_versions": 100 })).expect(204);
    let mut numbers = at_once(&[world.bulkhead.root()], WRITERS, |client, writer| {
        let written = client.write("secret/data/app", &data(json!({ "n": writer })));
        written.expect(200).body["data"]["version"].as_u64().expect("a version")
    });
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=50).collect::<Vec<u64>>());
}

/// Version 1 of the API reads nothing before it overwrites.
#[test]
fn concurrent_overwrites_of_one_secret_never_conflict() {
    let world = World::empty();
    world.root.write("sys/mounts/old", &json!({ "type": "kv" })).expect(204);
    world.root.write("old/app", &json!({ "n": 0 })).expect(204);
    let conflicts =
        || metrics::count(&metrics::scrape(&world.bulkhead), "bulkhead_store_conflicts_total{}");
    let before = conflicts();
    at_once(&[world.bulkhead.root()], WRITERS, |client, writer| {
        client.write("old/app", &json!({ "n": writer + 1 })).expect(204)
    });
    assert_eq!(conflicts(), before);
    let read = world.root.read("old/app").expect(200);
    assert!(read.body["data"]["n"].as_u64().is_some_and(|n| n > 0), "{}", read.body);
}

#[test]
fn secrets_outlive_a_power_cut() {
    let mut world = World::empty();
    world.root.write("sys/mounts/old", &json!({ "type": "kv" })).expect(204);
    world.root.write("old/app", &json!({ "n": 1 })).expect(204);
    put(&world, "app", json!({ "n": 1 }));
    put(&world, "app", json!({ "n": 2 }));
    world.bulkhead.kill();
    world.bulkhead.start_again();
    let root = world.bulkhead.root();
    assert_eq!(root.read("old/app").expect(200).body["data"], json!({ "n": 1 }));
    let read = root.read("secret/data/app?version=1").expect(200);
    assert_eq!(read.body["data"]["data"], json!({ "n": 1 }));
    let written = root.write("secret/data/app", &data(json!({}))).expect(200);
    assert_eq!(written.body["data"]["version"], 3);
}

#[test]
fn listing_shows_secrets_and_folders_once_in_pages() {
    let world = World::empty();
    world.root.write("sys/mounts/old", &json!({ "type": "kv" })).expect(204);
    world.root.list("secret/metadata").expect(404);
    world.root.list("old").expect(404);
    let inside = (0..150).map(|number| format!("a/{number:03}"));
    for path in ["a", "a-b", "b/c/d", "e"].map(str::to_owned).into_iter().chain(inside) {
        put(&world, &path, json!({}));
        world.root.write(&format!("old/{path}"), &json!({ "n": 1 })).expect(204);
    }
    let keys = |path: &str| world.root.list(path).expect(200).body["data"]["keys"].clone();
    let all = json!(["a", "a-b", "a/", "b/", "e"]);
    for path in ["secret/metadata", "secret/metadata/", "old", "old/"] {
        assert_eq!(keys(path), all, "{path}");
    }
    assert_eq!(keys("secret/metadata?limit=3"), json!(["a", "a-b", "a/"]));
    assert_eq!(keys("secret/metadata?after=a/&limit=2"), json!(["b/", "e"]));
    assert_eq!(keys("secret/metadata/a").as_array().map(Vec::len), Some(150));
    assert_eq!(keys("secret/metadata/b/"), json!(["c/"]));
    assert_eq!(keys("old/b/c"), json!(["d"]));
    world.root.list("secret/metadata/e").expect(404);
    let by_get = world.root.read("secret/metadata/b?list=true").expect(200);
    assert_eq!(by_get.body["data"]["keys"], json!(["c/"]));
}

#[test]
fn team_reaches_only_its_own_secrets() {
    let world = World::empty();
    put(&world, "blue/app", json!({ "n": 1 }));
    put(&world, "red/app", json!({ "n": 1 }));
    let blue = world.client_with(
        "blue",
        r#"path "secret/data/blue/*" { capabilities = ["read", "update"] }
           path "secret/metadata/blue/*" { capabilities = ["list"] }"#,
    );
    blue.read("secret/data/blue/app").expect(200);
    blue.write("secret/data/blue/app", &data(json!({ "n": 2 }))).expect(200);
    assert_eq!(blue.list("secret/metadata/blue").expect(200).body["data"]["keys"], json!(["app"]));
    let empty = data(json!({}));
    blue.write("secret/data/blue/new", &empty).refused(403, "may not create secret/data/blue/new");
    blue.patch("secret/data/blue/app", &empty).refused(403, "may not patch secret/data/blue/app");
    blue.delete("secret/data/blue/app").refused(403, "may not delete secret/data/blue/app");
    for path in ["secret/data/red/app", "secret/metadata/blue/app", "secret/data/blue"] {
        blue.read(path).refused(403, &format!("this token may not read {path}"));
    }
    blue.read("sys/internal/ui/mounts/secret/blue/app").expect(200);
}

#[test]
fn logs_hold_only_hashes_of_secret_values() {
    let world = World::empty();
    let canary = "canary-Zx81-Qd7-of-a-secret";
    world.root.write("sys/mounts/old", &json!({ "type": "kv" })).expect(204);
    let mut value = json!({ "password": canary, "pin": 48_151_623, "more": { "in": [canary] } });
    put(&world, "app", value.clone());
    value[canary] = json!(canary);
    world.root.write("old/app", &json!({ "more": value.clone() })).expect(204);
    let text = world.root.write("secret/data/app", &json!({ "data": canary }));
    text.refused(400, "data must be an object");
    world.root.read("secret/subkeys/app").expect(200);
    world.root.patch("secret/data/app", &data(value)).expect(200);
    world.root.read("secret/data/app").expect(200);
    world.root.read("old/app").expect(200);
    let unwrapped = world.root.write("secret/data/app", &json!({ "password": canary }));
    unwrapped.refused(400, "no data were given");
    leaks::assert_silent("the log", &world.bulkhead.printed(), canary);
    let audited = fs::read_to_string(world.bulkhead.data().join("audit.log")).expect("the file");
    assert!(!audited.contains(canary) && !audited.contains("48151623"), "{audited}");
    assert!(audited.contains("secret/data/app") && audited.contains("old/app"));
    let hash = world.root.write("sys/audit-hash/file", &json!({ "input": canary })).expect(200);
    let found = audited.matches(hash.text("hash")).count();
    assert!(found >= 4, "{found} in {audited}");
}

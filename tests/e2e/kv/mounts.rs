//! Mounts of version 1 and version 2 of the API.

use super::data;
use crate::world::World;
use serde_json::{Value, json};

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
    world.root.write("sys/mounts/g", &json!({ "type": "kv-v3" })).expect(400);
}

#[test]
fn only_an_empty_mount_changes_its_api_version() {
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
fn secrets_move_with_their_mount_and_go_with_it() {
    let world = World::empty();
    world.root.write("secret/data/x", &data(json!({ "n": 1 }))).expect(200);
    let moved = json!({ "from": "secret", "to": "kept" });
    let migration = world.root.write("sys/remount", &moved).expect(200);
    let status = format!("sys/remount/status/{}", migration.text("migration_id"));
    bulkhead_tests::wait::until_true("the move ends", std::time::Duration::from_secs(30), || {
        world.root.read(&status).body["data"]["migration_info"]["status"] == "success"
    });
    let read = world.root.read("kept/data/x").expect(200);
    assert_eq!(read.body["data"]["data"], json!({ "n": 1 }));
    world.root.delete("sys/mounts/kept").expect(204);
    world.root.write("sys/mounts/kept", &json!({ "type": "kv-v2" })).expect(204);
    world.root.read("kept/data/x").expect(404);
}

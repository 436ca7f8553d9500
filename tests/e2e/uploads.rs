//! Components that are not ours: uploaded, mounted, called, kept, and removed.

use crate::world::World;
use bulkhead_tests::Client;
use bulkhead_tests::operators::open;
use bulkhead_tests::paths::{guest, target};
use serde_json::{Value, json};

/// Where the probe is registered.
const PROBE: &str = "sys/plugins/catalog/secret/probe";

/// The same component with other bytes: a section that nobody reads.
fn with_a_note(component: &[u8]) -> Vec<u8> {
    [component, &[0, 2, 1, b'x']].concat()
}

/// Registers the probe, and mounts it at `where`.
#[track_caller]
fn mounted(root: &Client, path: &str) {
    root.upload(PROBE, &guest("probe")).expect(204);
    root.write(&format!("sys/mounts/{path}"), &json!({ "type": "probe" })).expect(204);
}

#[test]
fn a_component_that_is_not_ours_serves_and_is_there_after_a_restart_and_a_second_unsealing() {
    let (mut server, operators) = open();
    let root = operators.root(&server);
    mounted(&root, "third");
    root.write("third/count/visits", &json!({})).expect(204);
    let listed = root.read("sys/mounts/third").expect(200);
    assert_eq!((listed.text("type"), listed.text("running_plugin_version")), ("probe", "1.0.0"));
    for visit in 2..4 {
        server.kill();
        server.start_again();
        operators.unseal(&server);
        let root = operators.root(&server);
        root.write("third/count/visits", &json!({})).expect(204);
        assert_eq!(root.read("third/note/visits").expect(200).body["data"]["note"], json!(visit));
        let printed = server.printed();
        assert!(!printed.contains("compiled-code"), "it was compiled again: {printed}");
    }
    let info = operators.root(&server).read(PROBE).expect(200);
    assert_eq!(
        (info.text("name"), info.text("type"), info.body["data"]["builtin"].clone()),
        ("probe", "secret", json!(false))
    );
}

#[test]
fn the_same_component_is_registered_once_and_no_other_takes_its_place() {
    let world = World::empty();
    let probe = guest("probe");
    world.root.upload(PROBE, &probe).expect(204);
    world.root.upload(PROBE, &probe).expect(204);
    world.root.upload(&format!("{PROBE}?version=v1.0.0"), &probe).expect(204);
    let refused = world.root.upload(PROBE, &with_a_note(&probe)).expect(400);
    assert!(refused.errors().contains("a name has one component"), "{refused:?}");
    world.root.delete(PROBE).expect(204);
    world.root.upload(PROBE, &with_a_note(&probe)).expect(204);
    assert_eq!(
        world.root.list("sys/plugins/catalog/secret").expect(200).body["data"]["keys"],
        json!(["database", "probe"])
    );
}

#[test]
fn a_plugin_in_use_or_of_this_binary_is_not_removed() {
    let world = World::empty();
    mounted(&world.root, "third");
    let refused = world.root.delete(PROBE).expect(400);
    assert!(refused.errors().contains("third/"), "{refused:?}");
    world.root.delete("sys/mounts/third").expect(204);
    world.root.delete(PROBE).expect(204);
    world.root.delete(PROBE).expect(204);
    world.root.read(PROBE).expect(404);
    let refused = world.root.write("sys/mounts/third", &json!({ "type": "probe" })).expect(400);
    assert!(refused.errors().contains("plugin not found in the catalog"), "{refused:?}");
    for builtin in ["secret/database", "database/postgresql-database-plugin"] {
        let refused = world.root.delete(&format!("sys/plugins/catalog/{builtin}")).expect(400);
        assert!(refused.errors().contains("built in"), "{refused:?}");
    }
}

#[test]
fn an_uploaded_component_reaches_nothing_that_it_was_not_granted() {
    let world = World::empty();
    mounted(&world.root, "third");
    world.root.write("third/count/x", &json!({})).expect(204);
    let other = world.root.read("third/outside/x");
    assert!(other.status >= 400 || other.body["data"]["note"] == Value::Null, "{other:?}");
    world.root.write("database/config/none", &json!({ "plugin_name": "probe" })).expect(400);
}

#[test]
fn the_command_line_registers_lists_shows_and_deregisters() {
    let world = World::empty();
    let file = target().join("guests/probe.wasm");
    let run = |arguments: &[&str]| {
        let output = world.bulkhead.command(arguments).output().expect("the program runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, out, why) = run(&["plugin", "register", &file.display().to_string(), "-version=1.0.0"]);
    assert_eq!((code, out.as_str()), (Some(0), "registered the secret plugin probe\n"), "{why}");
    let (code, out, _) = run(&["plugin", "list"]);
    assert!(code == Some(0) && out.contains("postgresql-database-plugin") && out.contains("probe"), "{out}");
    let (code, out, _) = run(&["plugin", "info", "probe"]);
    assert!(code == Some(0) && out.contains("1.0.0"), "{out}");
    let (code, _, why) = run(&["plugin", "register", &file.display().to_string(), "-version=2.0.0"]);
    assert!(code == Some(1) && why.contains("plugin version mismatch"), "{code:?} {why}");
    let (code, out, _) = run(&["plugin", "deregister", "probe"]);
    assert_eq!((code, out.as_str()), (Some(0), "deregistered the secret plugin probe\n"));
    assert_eq!(run(&["plugin", "info", "probe"]).0, Some(1));
}

//! Unusual and bad input: each request is served or refused with a reason, without a server error.

use super::{data, put};
use crate::world::World;
use serde_json::json;

#[test]
fn paths_have_any_printable_characters() {
    let world = World::empty();
    world.root.write("sys/mounts/old", &json!({ "type": "kv" })).expect(204);
    for (path, shown) in [
        ("a%20b", "a b"),
        ("%D0%BA%D0%BB%D1%8E%D1%87", "ключ"),
        ("100%25", "100%"),
        ("a%3Fb%23c", "a?b#c"),
        ("config", "config"),
        ("..a", "..a"),
    ] {
        put(&world, &format!("odd/{path}"), json!({ "is": shown }));
        let read = world.root.read(&format!("secret/data/odd/{path}")).expect(200);
        assert_eq!(read.body["data"]["data"]["is"], shown);
        world.root.write(&format!("old/odd/{path}"), &json!({ "is": shown })).expect(204);
        assert_eq!(world.root.read(&format!("old/odd/{path}")).expect(200).text("is"), shown);
    }
    let listed = world.root.list("secret/metadata/odd").expect(200);
    assert_eq!(listed.body["data"]["keys"].as_array().map(Vec::len), Some(6));
    assert_eq!(listed.body, {
        let mut same = world.root.list("secret/metadata/odd/").expect(200).body;
        same["request_id"] = listed.body["request_id"].clone();
        same
    });
}

#[test]
fn paths_that_cannot_be_stored_are_refused() {
    let world = World::empty();
    let long = "a".repeat(481);
    for (path, reason) in [
        (format!("secret/data/{long}"), "at most 480 bytes"),
        ("secret/data/a/".to_owned(), "ending in '/'"),
        ("secret/data/a%00b".to_owned(), "unprintable"),
        ("secret/data/a/%2E%2E/b".to_owned(), "segment"),
        ("secret/data/%ff".to_owned(), "not UTF-8"),
    ] {
        world.root.write(&path, &data(json!({}))).refused(400, reason);
    }
    world.root.read(&format!("secret/data/{long}")).refused(400, "at most 480 bytes");
    world.root.read("secret/data").refused(404, "use \"secret/data/data\"");
    world.root.read("secret/metadata").refused(405, "unsupported operation");
    world.root.read("secret/anything").refused(404, "use \"secret/data/anything\"");
}

#[test]
fn malformed_secrets_are_refused() {
    let world = World::empty();
    world.root.write("sys/mounts/old", &json!({ "type": "kv" })).expect(204);
    for (path, body, reason) in [
        ("secret/data/x", json!({}), "no data were given"),
        ("secret/data/x", json!({ "data": 7 }), "must be an object"),
        ("secret/data/x", json!({ "data": {}, "options": { "cas": "x" } }), "options.cas"),
        ("secret/data/x", json!({ "data": {}, "options": { "cas": 3 } }), "current version is 0"),
        ("secret/delete/x", json!({}), "no version number"),
        ("secret/destroy/x", json!({ "versions": ["one"] }), "is not a version"),
        ("secret/metadata/x", json!({ "max_versions": -1 }), "max_versions"),
        ("secret/metadata/x", json!({ "custom_metadata": [] }), "custom_metadata"),
        ("secret/config", json!({ "delete_version_after": "soon" }), "delete_version_after"),
        ("old/x", json!({}), "missing data fields"),
    ] {
        world.root.write(path, &body).refused(400, reason);
    }
    world.root.send("POST", "secret/data/x", b"[1]").refused(400, "the body is a list");
    world.root.send("POST", "old/x", b"\"text\"").refused(400, "the body is a string");
    world.root.read("secret/data/x?version=-1").refused(400, "version cannot be -1");
    world.root.read("secret/data/x?version=last").refused(400, "\"last\" is not a whole number");
    world.root.list("secret/metadata").expect(404);
    world.root.patch("secret/data/x", &data(json!({}))).expect(404);
    world.root.patch("old/x", &json!({ "a": 1 })).refused(405, "unsupported operation");
}

#[test]
fn large_secret_is_kept_and_larger_is_refused() {
    let world = World::empty();
    world.root.write("sys/mounts/old", &json!({ "type": "kv" })).expect(204);
    let large = "x".repeat(1_048_000);
    put(&world, "large", json!({ "text": large }));
    let read = world.root.read("secret/data/large").expect(200);
    assert_eq!(read.body["data"]["data"]["text"].as_str().map(str::len), Some(1_048_000));
    let stale = json!({ "data": { "text": large }, "options": { "cas": 9 } });
    let refused = world.root.write("secret/data/large", &stale).expect(400);
    assert!(refused.errors().contains("current version is 1"), "{}", refused.errors().len());
    world.root.write("old/large", &json!({ "text": large })).expect(204);
    let larger = json!({ "text": "x".repeat(1_049_000) });
    let most = "this path takes at most 1048576";
    world.root.write("secret/data/large", &data(larger.clone())).refused(413, most);
    world.root.write("old/large", &larger).refused(413, most);
    assert_eq!(world.root.read("old/large").expect(200).text("text").len(), 1_048_000);
}

#[test]
fn a_member_may_be_named_path() {
    let world = World::empty();
    world.root.write("sys/mounts/old", &json!({ "type": "kv" })).expect(204);
    let narrow = world.client_with(
        "narrow",
        r#"path "old/*" { capabilities = ["create"], denied_parameters = { "path" = [] } }"#,
    );
    narrow.write("old/x", &json!({ "path": "other" })).refused(403, "with parameter \"path\"");
    narrow.write("old/x", &json!({ "name": "other" })).expect(204);
    world.root.write("old/x", &json!({ "path": "other", "none": null })).expect(204);
    let read = world.root.read("old/x").expect(200);
    assert_eq!(read.body["data"], json!({ "path": "other", "none": null }));
    world.root.read("old/other").expect(404);
}

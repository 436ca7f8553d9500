//! Default mounts of dev mode: tutorials enable plugins at the paths where dev mode mounted them.

use bulkhead_tests::operators::open;
use bulkhead_tests::{Bulkhead, Client};
use serde_json::{Value, json};

/// The default mounts that clients enable by name, with the path of the request.
fn default_mounts(root: &Client) -> Vec<(String, Value)> {
    let of = |folder: &str| {
        let listed = root.read(folder).expect(200).body["data"].clone();
        let mounts = listed.as_object().expect("an object").clone();
        let folder = folder.to_owned();
        mounts
            .into_iter()
            .map(move |(path, mount)| (format!("{folder}/{}", path.trim_end_matches('/')), mount))
    };
    let is_default =
        |(_, mount): &(String, Value)| mount["description"] == "default mount of dev mode";
    of("sys/auth").chain(of("sys/mounts")).filter(is_default).collect()
}

#[test]
fn enabling_takes_an_untouched_default_mount_over_once() {
    let server = Bulkhead::start();
    let root = server.root();
    let mounts = default_mounts(&root);
    assert!(mounts.len() >= 10, "{mounts:?}");
    for (path, mount) in &mounts {
        let body = json!({
            "type": mount["type"], "description": "", "options": mount["options"],
            "config": { "default_lease_ttl": "", "max_lease_ttl": "" },
        });
        let enabled = root.write(path, &body).expect(200);
        assert!(enabled.warnings().contains("dev mode had mounted"), "{path}: {enabled:?}");
        let now = root.read(path).expect(200).body["data"].clone();
        assert_eq!((&now["uuid"], &now["description"]), (&mount["uuid"], &json!("")), "{path}");
        let again = root.write(path, &body).expect(400);
        assert!(again.errors().contains("path is already in use"), "{path}: {again:?}");
    }
}

#[test]
fn a_touched_default_mount_is_in_use() {
    let server = Bulkhead::start();
    let root = server.root();
    root.write("auth/userpass/users/eve", &json!({ "password": "long enough" })).expect(204);
    root.write("sys/auth/approle/tune", &json!({ "max_lease_ttl": "1h" })).expect(204);
    root.write("secret/data/app", &json!({ "data": { "a": 1 } })).expect(200);
    for (path, body) in [
        ("sys/auth/userpass", json!({ "type": "userpass" })),
        ("sys/auth/approle", json!({ "type": "approle" })),
        ("sys/mounts/secret", json!({ "type": "kv-v2" })),
        ("sys/auth/jwt", json!({ "type": "userpass" })),
        ("sys/auth/jwt", json!({ "type": "jwt", "config": { "max_lease_ttl": "1h" } })),
        ("sys/auth/jwt", json!({ "type": "jwt", "local": true })),
        ("sys/auth/jwt/below", json!({ "type": "jwt" })),
        ("sys/mounts/database", json!({ "type": "kv" })),
        ("sys/mounts/database", json!({ "type": "database", "options": { "a": "b" } })),
    ] {
        let refused = root.write(path, &body).expect(400);
        assert!(refused.errors().contains("path is already in use"), "{path} {body}: {refused:?}");
    }
    root.read("auth/userpass/users/eve").expect(200);
    root.write("sys/auth/jwt", &json!({ "type": "jwt" })).expect(200);
}

#[test]
fn a_take_over_needs_the_right_to_enable() {
    let server = Bulkhead::start();
    let rules = r#"path "sys/auth/userpass" { capabilities = ["create", "update"] }"#;
    server.root().write("sys/policies/acl/weak", &json!({ "policy": rules })).expect(204);
    let token = json!({ "policies": ["weak"] });
    let token = server.root().write("auth/token/create", &token).expect(200);
    let weak = server.client(token.body["auth"]["client_token"].as_str());
    weak.write("sys/auth/userpass", &json!({ "type": "userpass" })).expect(403);
    server.root().write("sys/auth/userpass", &json!({ "type": "userpass" })).expect(200);
}

#[test]
fn production_server_refuses_a_second_mount() {
    let (server, operators) = open();
    let root = operators.root(&server);
    let body = json!({ "type": "userpass", "description": "default mount of dev mode" });
    root.write("sys/auth/userpass", &body).expect(204);
    let again = root.write("sys/auth/userpass", &json!({ "type": "userpass" })).expect(400);
    assert!(again.errors().contains("path is already in use"), "{again:?}");
}

#[test]
fn first_commands_of_tutorials_succeed() {
    let server = Bulkhead::start();
    for arguments in [
        &["auth", "enable", "userpass"][..],
        &["auth", "enable", "approle"],
        &["auth", "enable", "-description=machines", "kubernetes"],
        &["secrets", "enable", "database"],
    ] {
        let done = server.command(arguments).output().expect("the program runs");
        let error = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success() && error.contains("dev mode had mounted"), "{error}");
    }
    let mount = server.root().read("sys/auth/kubernetes").expect(200);
    assert_eq!(mount.text("description"), "machines");
}

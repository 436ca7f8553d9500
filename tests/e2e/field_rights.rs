//! Rights of fields: a change of some settings needs `sudo` on the path, at every endpoint that
//! takes the setting; all other settings need the right to the endpoint alone.

use crate::world::{World, with};
use bulkhead_tests::paths::guest;
use bulkhead_tests::{Answer, Client};
use serde_json::{Value, json};

/// Rights to all mounts and connections, without `sudo`.
const MOUNTER: &str = r#"
path "sys/mounts/*" { capabilities = ["create", "read", "update"] }
path "database/config/*" { capabilities = ["create", "read", "update"] }
"#;

/// Settings of a mount, each with the name in the refusal.
fn guarded() -> Vec<(Value, &'static str)> {
    vec![
        (json!({ "grants": ["ambient:env/HOME"] }), "grants"),
        (json!({ "grants": [] }), "grants"),
        (json!({ "add_grants": "ambient:pod-identity" }), "add_grants"),
        (json!({ "remove_grants": ["limit:memory=96MiB"] }), "remove_grants"),
        (json!({ "plugin_version": "1.0.0" }), "plugin_version"),
        (json!({ "override_pinned_version": true }), "override_pinned_version"),
        (json!({ "plugin_rollback": "off" }), "plugin_rollback"),
        (json!({ "plugin_probation": "1s" }), "plugin_probation"),
        (json!({ "identity_token_key": "k" }), "identity_token_key"),
        (json!({ "audit_non_hmac_request_keys": "password" }), "audit_non_hmac_request_keys"),
        (json!({ "audit_non_hmac_response_keys": ["x"] }), "audit_non_hmac_response_keys"),
        (json!({ "options": { "instance_reuse": "bounded" } }), "options.instance_reuse"),
    ]
}

/// A world with the probe in its catalog, and a client without `sudo`.
fn world() -> (World, Client) {
    let world = World::empty();
    world.root.upload("sys/plugins/catalog/secret/probe", &guest("probe")).expect(204);
    let mounter = world.client_with("mounter", MOUNTER);
    (world, mounter)
}

#[track_caller]
fn assert_refused(refused: &Answer, path: &str, name: &str) {
    assert_eq!(refused.status, 403, "{name}: {refused:?}");
    let errors = refused.errors();
    for part in [format!("{path} with a change of"), format!("\"{name}\""), "needs sudo".into()] {
        assert!(errors.contains(&part), "{name} {part}: {errors}");
    }
}

#[test]
fn a_tune_without_sudo_changes_no_guarded_setting() {
    let (world, mounter) = world();
    let config = json!({ "grants": ["limit:memory=96MiB"] });
    world.root.write("sys/mounts/third", &json!({ "type": "probe", "config": config })).expect(204);
    let shown = || world.root.read("sys/mounts/third/tune").expect(200).body["data"].clone();
    let before = shown();
    for (fields, name) in guarded() {
        let refused = mounter.write("sys/mounts/third/tune", &fields);
        assert_refused(&refused, "sys/mounts/third/tune", name);
    }
    let several = json!({ "description": "new", "plugin_rollback": "off", "grants": "http:*" });
    let refused = mounter.write("sys/mounts/third/tune", &several).expect(403);
    assert!(refused.errors().contains("\"grants\", \"plugin_rollback\""), "{refused:?}");
    assert_eq!(shown(), before);
    mounter.write("sys/mounts/nowhere/tune", &json!({ "grants": ["http:*"] })).expect(403);

    let rules = r#"path "sys/mounts/third/tune" { capabilities = ["update", "sudo"] }"#;
    let guardian = world.client_with("guardian", rules);
    guardian.write("sys/mounts/third/tune", &several).expect(204);
}

#[test]
fn an_enable_without_sudo_sets_no_guarded_setting() {
    let (world, mounter) = world();
    let path = "sys/mounts/other";
    for (fields, name) in guarded() {
        // A grant list without a line, and the changes of a list, are nothing at a new mount.
        if fields["grants"] == json!([]) || ["add_grants", "remove_grants"].contains(&name) {
            continue;
        }
        let refused = mounter.write(path, &json!({ "type": "probe", "config": fields }));
        assert_refused(&refused, path, &format!("config.{name}"));
    }
    for (name, value) in [("grants", "http:*"), ("plugin_version", "1.0.0")] {
        let refused = mounter.write(path, &json!({ "type": "probe", name: value }));
        assert_refused(&refused, path, name);
    }
    world.root.read(path).expect(400);
}

#[test]
fn requests_of_unmodified_clients_need_no_sudo() {
    let (world, mounter) = world();
    // The shapes of the Go client: empty settings, and both lifetimes with each description.
    let go = json!({
        "type": "kv", "description": "", "local": false, "seal_wrap": false, "options": null,
        "external_entropy_access": false, "plugin_version": "",
        "config": {
            "default_lease_ttl": "", "max_lease_ttl": "", "force_no_cache": false,
            "options": null, "plugin_version": "", "listing_visibility": "hidden",
        },
    });
    mounter.write("sys/mounts/go", &go).expect(204);
    let described = json!({ "default_lease_ttl": "", "max_lease_ttl": "", "description": "d" });
    mounter.write("sys/mounts/go/tune", &described).expect(204);

    // A client that sends the settings as they are shown, with a change of one.
    let config = json!({
        "grants": ["limit:memory=96MiB"], "plugin_version": "v1.0.0", "plugin_rollback": "off",
        "plugin_probation": "2m", "audit_non_hmac_request_keys": "a,b",
        "options": { "instance_reuse": "bounded" },
    });
    let grown = json!({ "type": "probe", "config": config });
    world.root.write("sys/mounts/third", &grown).expect(204);
    let shown = mounter.read("sys/mounts/third/tune").expect(200).body["data"].clone();
    let changed =
        with(shown, json!({ "description": "by a declaration", "max_lease_ttl": 3_456_000 }));
    let answer = mounter.write("sys/mounts/third/tune", &changed);
    assert!(answer.status < 300, "{answer:?}");
    let lines = json!({ "plugin_probation": "120s", "audit_non_hmac_request_keys": ["a", "b"] });
    mounter.write("sys/mounts/third/tune", &lines).expect(204);
}

#[test]
fn both_auth_tuning_paths_guard_lockout() {
    let world = World::empty();
    world.root.write("sys/auth/people", &json!({ "type": "userpass" })).expect(204);
    let mounter = world.client_with("mounter", MOUNTER);
    let path = "sys/mounts/auth/people/tune";
    for (fields, name) in [
        (json!({ "user_lockout_config": { "lockout_disable": true } }), "user_lockout_config"),
        (json!({ "user_lockout_config": { "lockout_threshold": 90 } }), "user_lockout_config"),
        (json!({ "token_type": "batch" }), "token_type"),
        (json!({ "grants": ["limit:memory=96MiB"] }), "grants"),
    ] {
        assert_refused(&mounter.write(path, &fields), path, name);
    }
    mounter.write(path, &json!({ "description": "d", "max_lease_ttl": "48h" })).expect(204);
    mounter.write(path, &json!({ "token_type": "default-service" })).expect(204);
    mounter.write("sys/auth/people/tune", &json!({ "description": "e" })).expect(403);
    let lockout = json!({ "user_lockout_config": { "lockout_threshold": 9 } });
    world.root.write(path, &lockout).expect(204);
    mounter.write(path, &lockout).expect(204);
}

#[test]
fn the_version_of_a_connection_needs_sudo() {
    let world = World::empty();
    let mounter = world.client_with("mounter", MOUNTER);
    let path = "database/config/orders";
    let version = world.root.read("sys/seal-status").expect(200).body["version"].clone();
    for fields in [
        json!({ "plugin_version": "9.9.9" }),
        json!({ "plugin_version": version, "override_pinned_version": "true" }),
    ] {
        let refused = mounter.write(path, &with(world.connection(), fields));
        assert_refused(&refused, path, "plugin_version");
    }
    world.root.read(path).expect(404);
    let empty = json!({ "plugin_version": "", "override_pinned_version": false });
    let written = mounter.write(path, &with(world.connection(), empty.clone()));
    assert!(written.status < 300, "{written:?}");
    let again = mounter.write(path, &with(world.connection(), empty));
    assert!(again.status < 300, "{again:?}");
    let refused = mounter.write(path, &json!({ "override_pinned_version": true }));
    assert_refused(&refused, path, "override_pinned_version");
}

#[test]
fn field_rights_are_shown_with_the_field() {
    let world = World::empty();
    for (path, field) in [
        ("sys/mounts/x/tune", "plugin_rollback"),
        ("sys/mounts/x", "plugin_version"),
        ("database/config/x", "override_pinned_version"),
    ] {
        // Help is a document without an envelope.
        let help = world.root.read(&format!("sys/internal/help/{path}"));
        assert_eq!(help.status, 200, "{help:?}");
        let text = help.body["help"].as_str().expect("a text");
        let line = text.lines().find(|line| line.trim().starts_with(field)).expect("the field");
        assert!(line.contains("a change needs sudo"), "{line}");
    }
}

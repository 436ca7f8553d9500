//! Mounts over HTTP: bodies of published clients, a database behind a mount, and bad settings.

use crate::world::World;
use bulkhead_tests::wait::until;
use serde_json::{Value, json};
use std::time::Duration;

/// All known mounts, for a comparison of before and after.
#[track_caller]
fn mount_tables(world: &World) -> [Value; 2] {
    ["sys/mounts", "sys/auth"].map(|path| world.root.read(path).expect(200).body["data"].clone())
}

#[test]
fn bodies_of_published_clients_are_accepted_with_nulls() {
    let world = World::empty();
    let python = json!({
        "type": "database", "description": null, "config": null, "options": null,
        "plugin_name": null, "local": false, "seal_wrap": false,
    });
    let go = json!({
        "type": "database", "description": "", "local": false, "seal_wrap": false,
        "external_entropy_access": false, "options": null,
        "config": {
            "options": null, "default_lease_ttl": "", "max_lease_ttl": "",
            "force_no_cache": false,
        },
    });
    let rust = json!({
        "type": "database", "description": null, "path": "rust",
        "config": {
            "default_lease_ttl": null, "max_lease_ttl": null, "force_no_cache": null,
            "token_type": null, "audit_non_hmac_request_keys": null, "listing_visibility": null,
            "plugin_version": null, "user_lockout_config": null,
        },
    });
    let plugin = json!({
        "type": "plugin", "plugin_name": "database", "config": { "max_lease_ttl": "system" },
    });
    for (path, body, status) in [
        ("python", python, 204),
        ("go", go, 204),
        ("rust", rust, 204),
        ("teams/plugin", plugin, 204),
    ] {
        world.root.write(&format!("sys/mounts/{path}"), &body).expect(status);
        let info = world.root.read(&format!("sys/mounts/{path}")).expect(200).body["data"].clone();
        assert_eq!(
            (&info["type"], &info["config"]["max_lease_ttl"]),
            (&json!("database"), &json!(0)),
            "{path}"
        );
    }
    let before = mount_tables(&world);
    let tune = json!({
        "default_lease_ttl": null, "max_lease_ttl": null, "description": null,
        "audit_non_hmac_request_keys": null, "audit_non_hmac_response_keys": null,
        "listing_visibility": null, "passthrough_request_headers": null, "options": null,
        "token_type": null, "plugin_version": null, "user_lockout_config": null,
    });
    world.root.write("sys/mounts/python/tune", &tune).expect(204);
    world.root.write("sys/auth/token/tune", &tune).expect(204);
    assert_eq!(mount_tables(&world), before, "nulls change nothing");
}

#[test]
fn every_mount_setting_is_read_back() {
    let world = World::empty();
    let config = json!({
        "default_lease_ttl": "1h", "max_lease_ttl": 7200, "force_no_cache": true,
        "listing_visibility": "hidden",
        "audit_non_hmac_request_keys": "a,b", "audit_non_hmac_response_keys": ["c"],
        "passthrough_request_headers": ["X-Trace"], "allowed_response_headers": ["X-Cost"],
        "identity_token_key": "k", "delegated_auth_accessors": ["auth_x_00000000"],
        "plugin_version": "v0.1.0", "override_pinned_version": true,
        "plugin_rollback": "off", "plugin_probation": "2m",
        "grants": ["database:postgresql-database-plugin", "limit:memory=65536KiB"],
        "telepathy": true,
    });
    let body = json!({
        "type": "database", "description": "d", "options": { "a": "b" }, "config": config,
        "local": true,
    });
    world.root.write("identity/oidc/key/k", &json!({ "algorithm": "EdDSA" })).expect(204);
    let warnings = world.root.write("sys/mounts/all", &body).expect(200).warnings();
    for part in [
        "config.telepathy",
        "local is stored",
        "passthrough_request_headers is stored",
        "force_no_cache is",
    ] {
        assert!(warnings.contains(part), "{part}: {warnings}");
    }
    let info = world.root.read("sys/mounts/all").expect(200).body["data"].clone();
    let expected = json!({
        "default_lease_ttl": 3600, "max_lease_ttl": 7200, "force_no_cache": true,
        "listing_visibility": "hidden",
        "audit_non_hmac_request_keys": ["a", "b"], "audit_non_hmac_response_keys": ["c"],
        "passthrough_request_headers": ["X-Trace"], "allowed_response_headers": ["X-Cost"],
        "identity_token_key": "k", "delegated_auth_accessors": ["auth_x_00000000"],
        "plugin_version": "", "override_pinned_version": false,
        "plugin_rollback": "off", "plugin_probation": 120,
        "grants": ["database:postgresql-database-plugin", "limit:memory=64MiB"],
    });
    assert_eq!(info["config"], expected);
    assert_eq!((&info["options"], &info["local"]), (&json!({ "a": "b" }), &json!(true)));
}

#[test]
fn go_client_description_change_keeps_mount_limits() {
    let world = World::empty();
    let limits = json!({ "default_lease_ttl": "1h", "max_lease_ttl": "2h" });
    world.root.write("sys/mounts/go", &json!({ "type": "database", "config": limits })).expect(204);
    world.root.write("sys/auth/token/tune", &limits).expect(204);
    let of_go = json!({
        "options": null, "default_lease_ttl": "", "description": "new", "max_lease_ttl": "",
        "force_no_cache": false,
    });
    let system = json!({ "default_lease_ttl": "system", "max_lease_ttl": "system" });
    let lifetimes = |path: &str| {
        let tuned = world.root.read(path).expect(200).body["data"].clone();
        (
            tuned["description"].clone(),
            [&tuned["default_lease_ttl"], &tuned["max_lease_ttl"]]
                .map(|seconds| seconds.as_u64().expect("seconds")),
        )
    };
    for path in ["sys/mounts/go/tune", "sys/auth/token/tune", "sys/mounts/auth/token/tune"] {
        world.root.write(path, &limits).expect(204);
        world.root.write(path, &of_go).expect(204);
        assert_eq!(lifetimes(path), (json!("new"), [3600, 7200]), "{path}");
        world.root.write(path, &system).expect(204);
        assert_eq!(lifetimes(path).1, [2_764_800, 2_764_800], "{path}");
    }
}

#[test]
fn empty_text_in_partial_update_changes_no_limit() {
    let world = World::new();
    let role = json!({ "token_period": "1h", "token_explicit_max_ttl": "2h", "token_num_uses": 5,
                       "renewable": true, "orphan": true });
    world.root.write("auth/token/roles/r", &role).expect(204);
    let paths = ["auth/token/roles/r", "database/roles/reader", "database/config/demo"];
    let read = |path: &str| world.root.read(path).expect(200).body["data"].clone();
    let before = paths.map(read);
    let empty = json!({
        "token_period": "", "token_explicit_max_ttl": "", "token_num_uses": "", "renewable": "",
        "orphan": "", "default_ttl": "", "max_ttl": "", "verify_connection": "",
    });
    let of = |names: &[&str]| {
        let named = names.iter().map(|name| ((*name).to_owned(), empty[*name].clone()));
        Value::Object(named.collect())
    };
    let token_role =
        of(&["token_period", "token_explicit_max_ttl", "token_num_uses", "renewable", "orphan"]);
    world.root.write("auth/token/roles/r", &token_role).expect(204);
    world.root.write("database/roles/reader", &of(&["default_ttl", "max_ttl"])).expect(204);
    let answer = world.root.write("database/config/demo", &of(&["verify_connection"]));
    assert!(answer.status < 300, "{answer:?}");
    assert_eq!(paths.map(read), before);
    world.root.write("database/roles/reader", &json!({ "max_ttl": 0 })).expect(204);
    assert_eq!(read("database/roles/reader")["max_ttl"], 0, "0 is said");
}

/// Creates a mount `warehouse` with a connection, a role and a credential.
fn warehouse(world: &World) -> String {
    world.root.write("sys/mounts/warehouse", &json!({ "type": "database" })).expect(204);
    assert!(world.root.write("warehouse/config/demo", &world.connection()).status < 300);
    let role = json!({
        "db_name": "demo", "creation_statements": crate::world::CREATION, "default_ttl": "1h",
    });
    world.root.write("warehouse/roles/reader", &role).expect(204);
    credential(world, "warehouse")
}

#[track_caller]
fn credential(world: &World, mount: &str) -> String {
    let username =
        world.root.read(&format!("{mount}/creds/reader")).expect(200).text("username").to_owned();
    assert!(world.postgres.has_user(&username));
    username
}

#[test]
fn a_disabled_mount_revokes_its_credentials() {
    let world = World::empty();
    let username = warehouse(&world);
    world.root.delete("sys/mounts/warehouse").expect(204);
    assert!(!world.postgres.has_user(&username));
    world.root.read("warehouse/config/demo").expect(404);
    world.root.write("sys/mounts/warehouse", &json!({ "type": "database" })).expect(204);
    assert_eq!(world.root.read("warehouse/config/demo").expect(404).body, json!({ "errors": [] }));
}

#[test]
fn a_mount_with_an_unreachable_database_stays_mounted() {
    let mut world = World::empty();
    warehouse(&world);
    world.postgres.stop();
    let refused = world.root.delete("sys/mounts/warehouse").expect(400);
    for part in ["warehouse/ stays mounted: ", "sys/leases/revoke-force/warehouse/"] {
        assert!(refused.errors().contains(part), "{part}: {refused:?}");
    }
    world.root.read("warehouse/config/demo").expect(200);
    world.root.read("sys/mounts/warehouse").expect(200);
}

#[test]
fn a_moved_mount_works_at_its_new_path() {
    let world = World::empty();
    let username = warehouse(&world);
    let begun = world
        .root
        .write("sys/remount", &json!({ "from": "warehouse", "to": "teams/orders" }))
        .expect(200);
    let status = format!("sys/remount/status/{}", begun.text("migration_id"));
    let ended = || {
        let status =
            world.root.read(&status).expect(200).body["data"]["migration_info"]["status"].clone();
        (status != "in-progress").then_some(status)
    };
    assert_eq!(until("the end of the move", Duration::from_secs(30), ended).0, "success");
    assert!(!world.postgres.has_user(&username), "the lease of the old path ended");
    world.root.read("warehouse/creds/reader").expect(404);
    credential(&world, "teams/orders");
}

/// A path, a body, and a part of the refusal.
type Nonsense = (&'static str, Value, &'static str);

/// Mounts without a plugin, or with impossible settings.
fn mounts_that_cannot_be() -> Vec<Nonsense> {
    let mount = |config: Value| json!({ "type": "database", "config": config });
    vec![
        ("sys/mounts/x", json!({}), "type is required"),
        ("sys/mounts/x", json!({ "type": null }), "type is required"),
        ("sys/mounts/x", json!({ "type": "plugin" }), "plugin_name is required"),
        ("sys/mounts/x", json!({ "type": "plugin", "plugin_name": "telepathy" }), "telepathy"),
        ("sys/mounts/x", json!({ "type": "database", "plugin_name": "kv" }), "kv"),
        (
            "sys/mounts/x",
            json!({ "type": "database", "plugin_version": "v9.9.9" }),
            "there is 0.1.0",
        ),
        ("sys/mounts/x", mount(json!({ "plugin_version": "v9.9.9" })), "v9.9.9"),
        ("sys/mounts/x", mount(json!([])), "config must be an object"),
        ("sys/mounts/x", mount(json!({ "max_lease_ttl": -1 })), "-1"),
        (
            "sys/mounts/x",
            mount(json!({ "max_lease_ttl": "9999999999999999999999h" })),
            "max_lease_ttl",
        ),
        (
            "sys/mounts/x",
            mount(json!({ "default_lease_ttl": "2h", "max_lease_ttl": "1h" })),
            "is longer than",
        ),
        ("sys/mounts/x", mount(json!({ "default_lease_ttl": "769h" })), "the system's maximum"),
        ("sys/mounts/x", mount(json!({ "listing_visibility": "everyone" })), "everyone"),
        ("sys/mounts/x", mount(json!({ "token_type": "batch" })), "token_type"),
        (
            "sys/mounts/x",
            mount(json!({ "passthrough_request_headers": ["X-Vault-Token"] })),
            "X-Vault-Token",
        ),
        (
            "sys/mounts/x",
            mount(json!({ "user_lockout_config": { "lockout_threshold": 1 } })),
            "user_lockout_config",
        ),
        ("sys/mounts/x", json!({ "type": "database", "local": "perhaps" }), "perhaps"),
        ("sys/mounts/x", json!({ "type": "database", "options": [1] }), "options"),
    ]
}

/// Paths that are taken, reserved or malformed.
fn paths_that_cannot_be_had() -> Vec<Nonsense> {
    vec![
        (
            "sys/mounts/database",
            json!({ "type": "database", "local": true }),
            "path is already in use at database/",
        ),
        (
            "sys/mounts/database/below",
            json!({ "type": "database" }),
            "path is already in use at database/",
        ),
        ("sys/mounts/sys", json!({ "type": "database" }), "path is already in use at sys/"),
        ("sys/mounts/auth/x", json!({ "type": "database" }), "path is already in use at auth/"),
        (
            "sys/mounts/identity",
            json!({ "type": "database" }),
            "path is already in use at identity/",
        ),
        (
            "sys/mounts/cubbyhole/x",
            json!({ "type": "database" }),
            "path is already in use at cubbyhole/",
        ),
        ("sys/mounts/a%20b", json!({ "type": "database" }), "white space"),
        ("sys/auth/token", json!({ "type": "database" }), "path is already in use at auth/token/"),
        ("sys/auth/x", json!({ "type": "database" }), "plugin not found in the catalog"),
    ]
}

fn settings_that_cannot_be_tuned() -> Vec<Nonsense> {
    vec![
        ("sys/mounts/nowhere/tune", json!({}), "No secret engine mount at nowhere/"),
        ("sys/auth/nowhere/tune", json!({}), "No auth engine at nowhere/"),
        (
            "sys/mounts/database/tune",
            json!({ "default_lease_ttl": "800h" }),
            "the system's maximum",
        ),
        ("sys/mounts/database/tune", json!({ "max_lease_ttl": true }), "true"),
        ("sys/mounts/database/tune", json!({ "plugin_version": "v2.0.0" }), "v2.0.0"),
        ("sys/mounts/sys/tune", json!({ "force_no_cache": true }), "part of the server"),
        ("sys/auth/token/tune", json!({ "token_type": "batch" }), "part of the server"),
    ]
}

/// Moves from a missing mount, to a taken path, or of a built-in mount.
fn moves_that_cannot_be_made() -> Vec<Nonsense> {
    vec![
        ("sys/remount", json!({ "from": "database" }), "to is required"),
        ("sys/remount", json!({ "from": "nowhere", "to": "x" }), "nothing is mounted at nowhere/"),
        (
            "sys/remount",
            json!({ "from": "database", "to": "database" }),
            "path is already in use at database/",
        ),
        (
            "sys/remount",
            json!({ "from": "database", "to": "database/x" }),
            "path is already in use at database/",
        ),
        (
            "sys/remount",
            json!({ "from": "database", "to": "auth/x" }),
            "cannot be moved to auth/x/",
        ),
        (
            "sys/remount",
            json!({ "from": "database", "to": "sys/x" }),
            "path is already in use at sys/",
        ),
        ("sys/remount", json!({ "from": "database", "to": "a/../b" }), "a/../b"),
        ("sys/remount", json!({ "from": "sys", "to": "x" }), "part of the server"),
        ("sys/remount", json!({ "from": "auth/token", "to": "auth/x" }), "part of the server"),
    ]
}

pub(super) fn bad_mount_settings_are_refused_and_change_nothing() {
    let world = World::empty();
    let before = mount_tables(&world);
    let cases = [
        mounts_that_cannot_be(),
        paths_that_cannot_be_had(),
        settings_that_cannot_be_tuned(),
        moves_that_cannot_be_made(),
    ];
    for (path, body, says) in cases.concat() {
        let refused = world.root.write(path, &body).expect(400);
        assert!(
            refused.errors().contains(says),
            "{path} {body}: {} does not speak of {says}",
            refused.errors()
        );
        assert_eq!(mount_tables(&world), before, "{path} {body} changed something");
    }
    for path in ["sys/mounts/sys", "sys/mounts/identity", "sys/auth/token"] {
        let refused = world.root.delete(path).expect(400);
        assert!(refused.errors().contains("is part of the server"), "{path}: {refused:?}");
    }
    for path in ["sys/mounts/nowhere", "sys/auth/nowhere"] {
        world.root.delete(path).expect(204);
    }
    world.root.delete("sys/mounts/database/tune").expect(405);
    world.root.read("sys/remount/status/none").expect(404);
    assert_eq!(mount_tables(&world), before);
}

#[test]
fn a_caller_without_permission_learns_nothing_about_mounts() {
    let world = World::empty();
    let weak = world.weak();
    for path in ["sys/mounts", "sys/auth", "sys/remount/status/x"] {
        weak.read(path).expect(403);
    }
    for path in ["database", "nowhere", "sys", "auth/token", "identity"] {
        let refused =
            |answer: bulkhead_tests::Answer| answer.expect(403).errors().replace(path, "<path>");
        let read = refused(weak.read(&format!("sys/mounts/{path}")));
        assert_eq!(read, refused(weak.read("sys/mounts/nothing")).replace("nothing", "<path>"));
        refused(weak.delete(&format!("sys/mounts/{path}")));
        refused(weak.write(&format!("sys/mounts/{path}"), &json!({ "type": "database" })));
        refused(weak.write(&format!("sys/mounts/{path}/tune"), &json!({ "description": "x" })));
    }
}

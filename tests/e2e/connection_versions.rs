//! Versions of a database plugin: a connection keeps its version until an operator chooses another,
//! and the version that serves the connection revokes its leases.

use crate::world::World;
use bulkhead_tests::operators::open;
use bulkhead_tests::paths::{guest, with_text};
use serde_json::{Value, json};

const KEYRING: &str = "keyring-database-plugin";
const CATALOG: &str = "sys/plugins/catalog/database/keyring-database-plugin";
const PIN: &str = "sys/plugins/pins/database/keyring-database-plugin";

/// The keyring plugin in the given version.
fn keyring(version: &str) -> Vec<u8> {
    let (own, other) = (format!("{KEYRING}1.0.0"), format!("{KEYRING}{version}"));
    with_text(guest("keyring"), &own, &other)
}

/// A world with these versions of the keyring, which the mount `database/` may use.
fn world(versions: &[&str]) -> World {
    let world = World::empty();
    let line = format!("sql:postgres://127.0.0.1:{}", world.postgres.port);
    for version in versions {
        let answer = world.root.upload(&format!("{CATALOG}?grants={line}"), &keyring(version));
        assert!(answer.status < 300, "{answer:?}");
    }
    let grants =
        json!({ "add_grants": [line, "address:127.0.0.0/8", format!("database:{KEYRING}")] });
    world.root.write("sys/mounts/database/tune", &grants).expect(204);
    world
}

/// The fields of a keyring connection, without a version.
fn fields(world: &World) -> Value {
    json!({
        "plugin_name": KEYRING, "allowed_roles": "*", "username": "bulkhead",
        "password": world.postgres.password, "port": world.postgres.port,
    })
}

#[track_caller]
fn connect(world: &World, name: &str, more: Value) {
    let fields = crate::world::with(fields(world), more);
    let written = world.root.write(&format!("database/config/{name}"), &fields);
    assert!(written.status < 300, "{written:?}");
}

/// Returns the requested version and the running version.
#[track_caller]
fn versions(world: &World, name: &str) -> (String, String) {
    let shown = world.root.read(&format!("database/config/{name}")).expect(200);
    (shown.text("plugin_version").to_owned(), shown.text("running_plugin_version").to_owned())
}

fn pair(configured: &str, running: &str) -> (String, String) {
    (configured.to_owned(), running.to_owned())
}

#[test]
fn connection_write_swaps_version_and_newer_revokes_leases() {
    let world = world(&["1.0.0", "2.0.0"]);
    let root = &world.root;
    connect(&world, "keys", json!({ "plugin_version": "v1.0.0" }));
    assert_eq!(versions(&world, "keys"), pair("v1.0.0", "1.0.0"));
    let role = json!({ "db_name": "keys", "credential_type": "rsa_private_key" });
    root.write("database/roles/signer", &role).expect(204);
    let older = root.read("database/creds/signer").expect(200);

    let refused = root.delete(&format!("{CATALOG}?version=1.0.0")).expect(400);
    assert!(refused.errors().contains("connection \"keys\" of database/"), "{refused:?}");
    let refused = root.delete(CATALOG).expect(400);
    assert!(refused.errors().contains("1.0.0, 2.0.0"), "{refused:?}");

    root.write("database/config/keys", &json!({ "allowed_roles": ["signer"] })).expect(204);
    assert_eq!(versions(&world, "keys"), pair("v1.0.0", "1.0.0"), "no version was named");
    root.write("database/config/keys", &json!({ "plugin_version": "2.0.0" })).expect(204);
    assert_eq!(versions(&world, "keys"), pair("2.0.0", "2.0.0"));
    let newer = root.read("database/creds/signer").expect(200);
    root.delete(&format!("{CATALOG}?version=1.0.0")).expect(204);

    for answer in [older, newer] {
        let username = answer.text("username").to_owned();
        assert!(world.postgres.has_user(&username));
        world.revoke(answer.lease());
        assert!(!world.postgres.has_user(&username));
    }
    let refused = root.delete(CATALOG).expect(400);
    assert!(refused.errors().contains("connection \"keys\" of database/"), "{refused:?}");
    root.delete("database/config/keys").expect(204);
    root.delete(CATALOG).expect(204);
}

#[test]
fn the_last_version_stays_while_leases_need_it() {
    let world = world(&["1.0.0", "2.0.0"]);
    let root = &world.root;
    connect(&world, "keys", json!({}));
    assert_eq!(versions(&world, "keys"), pair("", "2.0.0"), "the newest version");
    let role = json!({ "db_name": "keys", "credential_type": "rsa_private_key" });
    root.write("database/roles/signer", &role).expect(204);
    let answer = root.read("database/creds/signer").expect(200);
    let removal = root.delete("database/config/keys").expect(200);
    assert!(removal.warnings().contains("leases that still need connection"), "{removal:?}");
    root.delete(&format!("{CATALOG}?version=2.0.0")).expect(204);
    let refused = root.delete(&format!("{CATALOG}?version=1.0.0")).expect(400);
    assert!(refused.errors().contains("it ends live leases: 1"), "{refused:?}");
    connect(&world, "keys", json!({}));
    world.revoke(answer.lease());
}

#[test]
fn pin_decides_for_connections_without_override() {
    let world = world(&["1.0.0", "2.0.0"]);
    let root = &world.root;
    connect(&world, "before", json!({}));
    root.write(PIN, &json!({ "version": "1.0.0" })).expect(204);
    assert_eq!(root.read(PIN).expect(200).text("type"), "database");
    connect(&world, "pinned", json!({}));
    assert_eq!(versions(&world, "pinned"), pair("", "1.0.0"), "the pin, and not the newest");
    assert_eq!(versions(&world, "before"), pair("", "2.0.0"), "a pin waits for a reload");

    let asks = crate::world::with(fields(&world), json!({ "plugin_version": "2.0.0" }));
    let refused = root.write("database/config/other", &asks).expect(400);
    assert!(refused.errors().contains("override_pinned_version=true"), "{refused:?}");
    let over = json!({ "plugin_version": "2.0.0", "override_pinned_version": true });
    connect(&world, "other", over);
    assert_eq!(versions(&world, "other"), pair("2.0.0", "2.0.0"));

    let reload = root.write(&format!("sys/plugins/reload/database/{KEYRING}"), &json!({}));
    reload.expect(200);
    assert_eq!(versions(&world, "before"), pair("", "1.0.0"));
    assert_eq!(versions(&world, "other"), pair("2.0.0", "2.0.0"));
    let refused = root.delete(&format!("{CATALOG}?version=1.0.0")).expect(400);
    assert!(refused.errors().contains("is pinned"), "{refused:?}");

    root.delete(PIN).expect(204);
    root.write("database/config/other", &json!({ "plugin_version": "" })).expect(204);
    root.write(PIN, &json!({ "version": "1.0.0" })).expect(204);
    root.write("sys/plugins/reload/backend", &json!({ "plugin": KEYRING })).expect(200);
    assert_eq!(
        versions(&world, "other"),
        pair("", "1.0.0"),
        "the new connection has no own version"
    );
    root.delete(PIN).expect(204);
    root.write("database/reset/other", &json!({})).expect(204);
    assert_eq!(versions(&world, "other"), pair("", "2.0.0"));
    let reload = root.write(&format!("database/reload/{KEYRING}"), &json!({})).expect(200);
    assert_eq!(reload.body["data"]["count"], json!(3));
    assert_eq!(versions(&world, "before"), pair("", "2.0.0"), "the newest, without a pin");
    assert_eq!(versions(&world, "pinned"), pair("", "2.0.0"));
}

#[test]
fn a_pin_reaches_connections_with_own_versions() {
    let world = world(&["1.0.0", "2.0.0"]);
    let root = &world.root;
    connect(&world, "keys", json!({ "plugin_version": "1.0.0" }));
    root.write(PIN, &json!({ "version": "2.0.0" })).expect(204);
    connect(&world, "keys", json!({ "plugin_version": "1.0.0" }));
    assert_eq!(versions(&world, "keys"), pair("1.0.0", "1.0.0"), "a pin waits for the reload");
    let reload = format!("sys/plugins/reload/database/{KEYRING}");
    root.write(&reload, &json!({})).expect(200);
    assert_eq!(versions(&world, "keys"), pair("1.0.0", "2.0.0"));
    root.write("database/config/keys", &json!({ "allowed_roles": "a" })).expect(204);
    assert_eq!(versions(&world, "keys"), pair("1.0.0", "2.0.0"));

    root.delete(PIN).expect(204);
    root.write("database/reset/keys", &json!({})).expect(204);
    assert_eq!(versions(&world, "keys"), pair("1.0.0", "1.0.0"), "the own version counts again");
    root.write(PIN, &json!({ "version": "2.0.0" })).expect(204);
    root.write("database/reset/keys", &json!({})).expect(204);
    assert_eq!(versions(&world, "keys"), pair("1.0.0", "2.0.0"), "a reset is a reload");
    root.write("database/config/keys", &json!({ "plugin_version": "" })).expect(204);
    root.delete(PIN).expect(204);
    root.write(&format!("database/reload/{KEYRING}"), &json!({})).expect(200);
    assert_eq!(versions(&world, "keys"), pair("", "2.0.0"), "nothing names 1.0.0 any more");
}

#[test]
fn missing_versions_are_refused_with_the_existing_versions() {
    let world = world(&["1.0.0", "2.0.0"]);
    connect(&world, "keys", json!({ "plugin_version": "1.0.0" }));
    for (more, why) in [
        (json!({ "plugin_version": "3.0.0" }), "1.0.0, 2.0.0"),
        (json!({ "plugin_version": "newest" }), "\"newest\" is not a semantic version"),
        (json!({ "plugin_name": "database" }), "there is no database plugin \"database\""),
        (json!({ "plugin_version": "", "override_pinned_version": true }), "give plugin_version"),
    ] {
        let body = crate::world::with(fields(&world), more);
        let refused = world.root.write("database/config/keys", &body).expect(400);
        assert!(refused.errors().contains(why), "{refused:?}");
    }
    assert_eq!(versions(&world, "keys"), pair("1.0.0", "1.0.0"));
}

#[test]
fn another_version_replaces_a_version_removed_by_force() {
    let world = world(&["1.0.0", "2.0.0"]);
    let root = &world.root;
    connect(&world, "keys", json!({ "plugin_version": "1.0.0" }));
    let removal = root.delete(&format!("{CATALOG}?version=1.0.0&force=true")).expect(200);
    assert!(removal.warnings().contains("connection \"keys\" of database/"), "{removal:?}");
    let refused = root.write("database/config/keys", &json!({ "allowed_roles": "*" })).expect(400);
    assert!(refused.errors().contains("has no version \"1.0.0\"; there is 2.0.0"), "{refused:?}");
    let shown = root.read("database/config/keys").expect(200);
    assert!(shown.warnings().contains("connection_details are left out"), "{shown:?}");
    let fresh = json!({ "plugin_version": "2.0.0", "password": world.postgres.password });
    root.write("database/config/keys", &fresh).expect(204);
    assert_eq!(versions(&world, "keys"), pair("2.0.0", "2.0.0"));
}

#[test]
fn connection_versions_survive_restart_and_end_with_mount() {
    let (mut server, operators) = open();
    let root = operators.root(&server);
    root.write("sys/mounts/database", &json!({ "type": "database" })).expect(204);
    let grants = json!({ "add_grants": [format!("database:{KEYRING}")] });
    root.write("sys/mounts/database/tune", &grants).expect(204);
    for version in ["1.0.0", "2.0.0"] {
        assert!(root.upload(CATALOG, &keyring(version)).status < 300);
    }
    let fields = json!({
        "plugin_name": KEYRING, "plugin_version": "1.0.0", "verify_connection": false,
        "allowed_roles": "*", "username": "bulkhead", "password": "none", "port": 1,
    });
    root.write("database/config/keys", &fields).expect(204);
    server.kill();
    server.start_again();
    operators.unseal(&server);
    let root = operators.root(&server);
    let shown = root.read("database/config/keys").expect(200);
    assert_eq!(shown.text("running_plugin_version"), "1.0.0");
    root.delete(&format!("{CATALOG}?version=1.0.0")).expect(400);
    root.delete("sys/mounts/database").expect(204);
    root.delete(&format!("{CATALOG}?version=1.0.0")).expect(204);
}

#[test]
fn version_without_accounts_ends_no_lease_with_accounts() {
    let world = world(&["1.0.0"]);
    let root = &world.root;
    let line = format!("sql:postgres://127.0.0.1:{}", world.postgres.port);
    let earlier = guest("built-for-1-1");
    root.upload(&format!("{CATALOG}?grants={line}"), &earlier).expect_success();
    connect(&world, "keys", json!({ "plugin_version": "1.0.0" }));
    let role = json!({ "db_name": "keys", "credential_type": "rsa_private_key" });
    root.write("database/roles/signer", &role).expect(204);
    let issued = root.read("database/creds/signer").expect(200);
    let username = issued.text("username");
    connect(&world, "keys", json!({ "plugin_version": "0.9.0" }));
    let lease = json!({ "lease_id": issued.lease() });
    let renewed = json!({ "lease_id": issued.lease(), "increment": 60 });
    for refused in
        [root.write("sys/leases/renew", &renewed), root.write("sys/leases/revoke", &lease)]
    {
        let refused = refused.expect(400).errors();
        assert!(refused.contains("does not know the accounts of user"), "{refused}");
    }
    root.write("sys/leases/lookup", &lease).expect(200);
    assert!(world.postgres.has_user(username));
    connect(&world, "keys", json!({ "plugin_version": "1.0.0" }));
    world.revoke(issued.lease());
    assert!(!world.postgres.has_user(username));
}

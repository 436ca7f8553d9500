//! Contract versions: a component built for any released minor version runs on this server.

use crate::world::World;
use bulkhead_tests::paths::guest;
use bulkhead_tests::wait::until_true;
use serde_json::json;
use std::time::Duration;

/// Longest wait for background work.
const SOON: Duration = Duration::from_secs(20);

/// Returns the guest `name`, whose interfaces have the names of `version`.
fn built_for(name: &str, interface: &str, version: &str) -> Vec<u8> {
    let component = guest(name);
    let text = format!("bulkhead:plugin/{interface}@{version}");
    assert!(component.windows(text.len()).any(|part| part == text.as_bytes()), "{name}: {text}");
    component
}

#[test]
fn a_secrets_engine_of_version_1_0_runs() {
    let world = World::empty();
    let root = &world.root;
    let component = built_for("built-for-1-0", "storage", "1.0.0");
    root.upload("sys/plugins/catalog/secret/first", &component).expect(204);
    root.write("sys/mounts/third", &json!({ "type": "first" })).expect(204);
    for count in 1..=2 {
        let counted = root.read("third/count").expect(200);
        assert_eq!(counted.body["data"]["count"], json!(count));
    }
    let state = |what: &str| root.read("third/state").expect(200).body["data"][what].clone();
    root.read("third/timer");
    until_true("its timer rings", SOON, || state("rung") == json!(true));
    let lease = root.read("third/lease").expect(200);
    assert_eq!(lease.text("password"), "of the first");
    assert_eq!(state("revoked"), json!(false));
    root.write("sys/leases/revoke", &json!({ "lease_id": lease.lease() })).expect(204);
    assert_eq!(state("revoked"), json!(true));
    root.delete("sys/mounts/third").expect(204);
    root.delete("sys/plugins/catalog/secret/first").expect(204);
}

#[test]
fn database_plugin_1_1_runs_without_user_accounts() {
    let world = World::empty();
    let (root, postgres) = (&world.root, &world.postgres);
    let line = format!("sql:postgres://127.0.0.1:{}", postgres.port);
    let place = "sys/plugins/catalog/database/keyring-database-plugin";
    let component = built_for("built-for-1-1", "sql", "1.1.0");
    root.upload(&format!("{place}?grants={line}"), &component).expect_success();
    let grants = json!([line, "address:127.0.0.0/8", "database:keyring-database-plugin"]);
    root.write("sys/mounts/database/tune", &json!({ "add_grants": grants })).expect(204);
    let config = json!({
        "plugin_name": "keyring-database-plugin", "allowed_roles": "*", "username": "bulkhead",
        "password": postgres.password, "port": postgres.port,
    });
    root.write("database/config/second", &config).expect_success();
    let role = json!({ "db_name": "second", "creation_statements": ["CREATE ROLE"] });
    root.write("database/roles/second", &role).expect(204);
    let issued = root.read("database/creds/second").expect(200);
    let (username, password) = (issued.text("username"), issued.text("password"));
    assert!(postgres.login(username, password, "SELECT 1").is_ok());
    let renewed = json!({ "lease_id": issued.lease(), "increment": 60 });
    root.write("sys/leases/renew", &renewed).expect(200);
    world.revoke(issued.lease());
    assert!(!postgres.has_user(username));
}

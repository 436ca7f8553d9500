//! A node is killed during the move of a mount or the migration of its data: no node serves the
//! mount half changed, and the next start of a node completes the change.

use super::SOON;
use super::proxied_nodes::ProxiedNodes;
use super::target_gate::{ClosedGate, PASSAGE, connect};
use bulkhead_tests::database_nodes::NodeSeal;
use bulkhead_tests::paths::{guest, with_text};
use bulkhead_tests::wait::until_true;
use bulkhead_tests::{Client, Postgres};
use serde_json::json;
use std::process::Stdio;
use std::thread;

const HOSTILE: &str = "sys/plugins/catalog/secret/hostile";
/// Records of the migrated mount; each step takes 500.
const RECORDS: u64 = 2_000;

#[test]
fn killed_nodes_move_is_completed_by_next_start() {
    let (mut place, target) = (ProxiedNodes::start(NodeSeal::StaticKey), Postgres::start());
    let [one, other] = [0, 1].map(|index| place.group.root(index));
    connect(&one, &target);
    let role = json!({
        "db_name": "orders", "default_ttl": "1h",
        "creation_statements": ["CREATE ROLE \"{{name}}\" LOGIN PASSWORD '{{password}}'"],
        "revocation_statements": [PASSAGE, "DROP ROLE IF EXISTS \"{{name}}\""],
    });
    one.write("database/roles/reader", &role).expect_success();
    other.read("database/creds/reader").expect(200);
    let gate = ClosedGate::close(&target);
    let moved = json!({ "from": "database", "to": "crew" });
    let id = one.write("sys/remount", &moved).expect(200).text("migration_id").to_owned();
    gate.wait_for_caller();
    place.group.nodes[0].kill();
    gate.open();
    place.lose_claim(0);
    for path in ["database/creds/reader", "crew/creds/reader"] {
        let refused = other.read(path);
        assert!([404, 503].contains(&refused.status), "{refused:?}");
    }
    place.group.start_again(0);
    let roots = [0, 1].map(|index| place.group.root(index));
    until_true("the move ends", SOON, || {
        let status = roots[1].read(&format!("sys/remount/status/{id}")).expect(200);
        status.body["data"]["migration_info"]["status"] == "success"
    });
    assert_eq!(target.users(), Vec::<String>::new());
    for root in &roots {
        root.read("crew/creds/reader").expect(200);
        root.read("database/creds/reader").expect(404);
    }
}

/// Locks the last records of the mount `third/` in the storage until the session is ended.
fn lock_last_records(database: &Postgres, mount: &str) -> std::process::Child {
    let lock = format!(
        "SELECT count(*) FROM (SELECT 1 FROM bulkhead_record WHERE key LIKE '{mount}/%' \
         ORDER BY key DESC LIMIT 700 FOR UPDATE) AS locked; SELECT pg_sleep(600)"
    );
    let mut psql = database.psql_at(database.port, &lock);
    let session = psql.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let sleeping = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
    until_true("the records are locked", SOON, || database.query(sleeping) == "1");
    session.expect("psql can be started")
}

fn enable_hostile(root: &Client) {
    for (version, schema) in [("1.0.0", 6), ("2.0.0", 7)] {
        let text = format!("\"version\":\"{version}\",\"schema\":{schema}");
        let bytes = with_text(guest("hostile"), "\"version\":\"1.0.0\",\"schema\":2", &text);
        root.upload(HOSTILE, &bytes).expect(204);
    }
    let fields = json!({ "type": "hostile", "config": { "plugin_version": "1.0.0" } });
    root.write("sys/mounts/third", &fields).expect(204);
    for _ in 0..RECORDS / 1_000 {
        root.read("third/fill").expect(200);
    }
}

#[test]
fn killed_nodes_migration_is_completed_by_next_start() {
    let mut place = ProxiedNodes::start(NodeSeal::StaticKey);
    let [one, other] = [0, 1].map(|index| place.group.root(index));
    enable_hostile(&one);
    let mount = one.read("sys/mounts/third").expect(200).text("uuid").to_owned();
    let mut session = lock_last_records(&place.database, &mount);
    let body = json!({ "plugin_version": "2.0.0" }).to_string();
    let swapping =
        thread::spawn(move || one.attempt("POST", "sys/mounts/third/tune", body.as_bytes()));
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    until_true("a step waits for the lock", SOON, || place.database.query(waiting) != "0");
    place.group.nodes[0].kill();
    swapping.join().expect("no panic").expect_err("the node was killed");
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
    place.database.query(end);
    session.wait().expect("psql ends");
    place.lose_claim(0);
    other.read("third/acts").refused(503, "migrat");
    place.group.start_again(0);
    for index in 0..2 {
        let root = place.group.root(index);
        until_true("the mount serves", SOON, || root.read("third/acts").status == 200);
        let serving = root.read("sys/mounts/third").expect(200);
        assert_eq!(serving.text("running_plugin_version"), "2.0.0");
        let rows = root.read("third/rows").expect(200);
        assert_eq!(rows.body["data"], json!({ "old": 0, "new": RECORDS }));
    }
}

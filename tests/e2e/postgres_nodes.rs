//! Two servers that share a PostgreSQL database: each answers every request, and a change of one is
//! in force on the other from its answer on.

use bulkhead_tests::concurrent_requests::at_once;
use bulkhead_tests::operators::operator;
use bulkhead_tests::paths::{Folder, binary};
use bulkhead_tests::wait::until_true;
use bulkhead_tests::{Bulkhead, Client, Operators, Postgres};
use serde_json::{Value, json};
use std::fs;
use std::time::Duration;

/// Time in which a node reads a change of another, on a loaded machine.
const SOON: Duration = Duration::from_secs(10);

/// Concurrent writers that send their requests to one node.
const WRITERS_OF_NODE: usize = 4;
/// Number of writes of a writer.
const WRITES: usize = 20;

/// Returns a server that shares `database` under this name, which is not started.
fn prepared(database: &Postgres, node_id: &str) -> Bulkhead {
    let data = Folder::new("node");
    let file = data.path().join("bulkhead.hcl");
    let Postgres { password, port, .. } = database;
    let url = format!("postgresql://bulkhead:{password}@127.0.0.1:{port}/demo?sslmode=disable");
    let text = format!(
        "listener \"tcp\" {{ address = \"127.0.0.1:0\" }}\n\
         api_addr = {api:?}\n\
         storage \"postgresql\" {{\n  connection_url = {url:?}\n  path = {path:?}\n  \
             ha_enabled = \"true\"\n  node_id = {node_id:?}\n}}\n",
        api = address_of(node_id),
        path = data.path(),
    );
    fs::write(&file, text).expect("a file can be written");
    Bulkhead::prepared(binary(), data).configured(file)
}

fn address_of(node_id: &str) -> String {
    format!("http://{node_id}.example.com:8200")
}

/// Two unsealed servers on one database, with a mount `secret/`.
pub(crate) struct Pair {
    pub(crate) database: Postgres,
    pub(crate) nodes: [Bulkhead; 2],
    pub(crate) operators: Operators,
}

impl Pair {
    pub(crate) fn start() -> Self {
        let database = Postgres::start();
        let mut nodes = ["node-1", "node-2"].map(|node_id| prepared(&database, node_id));
        nodes[0].start_again();
        let operators = Operators::initialise(&nodes[0], 3, 2);
        operators.unseal(&nodes[0]);
        operators.root(&nodes[0]).write("sys/mounts/secret", &json!({ "type": "kv" })).expect(204);
        nodes[1].start_again();
        operators.unseal(&nodes[1]);
        Self { database, nodes, operators }
    }

    /// Returns clients with the root token, one for each node.
    pub(crate) fn roots(&self) -> [Client; 2] {
        [0, 1].map(|index| self.operators.root(&self.nodes[index]))
    }
}

/// Returns the nodes that `sys/ha-status` lists.
#[track_caller]
fn listed(root: &Client) -> Vec<Value> {
    let answer = root.read("sys/ha-status").expect(200).body;
    answer["nodes"].as_array().expect("a list").clone()
}

#[test]
fn change_on_one_node_holds_on_other() {
    let pair = Pair::start();
    let [one, other] = pair.roots();
    for round in 0..5 {
        let (writer, reader) = if round % 2 == 0 { (&one, &other) } else { (&other, &one) };
        let read = |path: &str| reader.read(path).expect(200).body["data"]["round"].clone();
        let path = format!("secret/{round}");
        for path in [path.as_str(), "secret/a"] {
            writer.write(path, &json!({ "round": round })).expect(204);
        }
        assert_eq!(read(&path), round);
        // An earlier version may be in memory.
        until_true("the other node reads the change", SOON, || read("secret/a") == round);
    }
    let policy = json!({ "policy": "path \"secret/a\" { capabilities = [\"read\"] }" });
    one.write("sys/policies/acl/reader", &policy).expect(204);
    for _ in 0..5 {
        let created = one.write("auth/token/create", &json!({ "policies": ["reader"] }));
        let token = created.expect(200).body["auth"]["client_token"].clone();
        let holder = pair.nodes[1].client(token.as_str());
        holder.read("secret/a").expect(200);
        holder.read("secret/b").expect(403);
        one.write("auth/token/revoke", &json!({ "token": token })).expect(204);
        holder.read("secret/a").expect(403);
    }
}

/// Overwrites `secret/app` again and again, and returns the last value.
fn overwrite(client: &Client, writer: usize) -> String {
    let value = |round: usize| format!("{writer} {round}");
    for round in 0..WRITES {
        client.write("secret/app", &json!({ "value": value(round) })).expect(204);
    }
    value(WRITES - 1)
}

#[test]
fn nodes_overwriting_one_record_end_on_last_value() {
    let pair = Pair::start();
    let roots = pair.roots();
    roots[0].write("secret/app", &json!({ "value": "" })).expect(204);
    let last = at_once(&roots, WRITERS_OF_NODE, overwrite);
    let read = |root: &Client| root.read("secret/app").expect(200).text("value").to_owned();
    until_true("both nodes read one value", SOON, || read(&roots[0]) == read(&roots[1]));
    // A later write of the same writer replaces each earlier write.
    let value = read(&roots[0]);
    assert!(last.contains(&value), "{value} is not among the last writes {last:?}");
}

/// Writes versions of a secret, and returns their numbers.
fn write_versions(client: &Client, writer: usize) -> Vec<u64> {
    let write = || client.write("versioned/data/app", &json!({ "data": { "writer": writer } }));
    let version = |_| write().expect(200).body["data"]["version"].as_u64().expect("a version");
    (0..WRITES).map(version).collect()
}

#[test]
fn nodes_number_versions_of_one_secret_once() {
    let pair = Pair::start();
    let roots = pair.roots();
    let mount = json!({ "type": "kv", "options": { "version": "2" } });
    roots[0].write("sys/mounts/versioned", &mount).expect(204);
    let mut versions = at_once(&roots, WRITERS_OF_NODE, write_versions).concat();
    versions.sort_unstable();
    let most = (WRITES * WRITERS_OF_NODE * roots.len()) as u64;
    assert_eq!(versions, (1..=most).collect::<Vec<u64>>());
}

#[test]
fn nodes_create_one_record_once() {
    let pair = Pair::start();
    let policy = json!({ "policy": "path \"secret/new/*\" { capabilities = [\"create\"] }" });
    pair.roots()[0].write("sys/policies/acl/creator", &policy).expect(204);
    let created = pair.roots()[0].write("auth/token/create", &json!({ "policies": ["creator"] }));
    let token = created.expect(200).body["auth"]["client_token"].clone();
    let creators = [0, 1].map(|index| pair.nodes[index].client(token.as_str()));
    for round in 0..10 {
        let path = format!("secret/new/{round}");
        let write = |client: &Client, _| client.write(&path, &json!({ "value": 1 }));
        let (created, refused): (Vec<_>, Vec<_>) = at_once(&creators, WRITERS_OF_NODE, write)
            .into_iter()
            .partition(|answer| answer.status == 204);
        refused.into_iter().for_each(|answer| drop(answer.refused(403, "permission denied")));
        assert_eq!(created.len(), 1, "{path}");
    }
}

#[test]
fn nodes_are_listed_until_they_stop() {
    let mut pair = Pair::start();
    for (index, root) in pair.roots().iter().enumerate() {
        let nodes = listed(root);
        let ids: Vec<_> = nodes.iter().map(|node| node["node_id"].clone()).collect();
        assert_eq!(ids, ["node-1", "node-2"]);
        for (position, node) in nodes.iter().enumerate() {
            assert_eq!(node["active_node"], true, "{node}");
            assert_eq!(node["last_echo"].is_null(), position == index, "{node}");
            assert_eq!(node["api_address"], address_of(&format!("node-{}", position + 1)));
            assert!(node["last_commit"].as_u64() > Some(0), "{node}");
        }
        let leader = root.read("sys/leader").expect(200).body;
        assert_eq!([&leader["ha_enabled"], &leader["is_self"]], [true, true], "{leader}");
        assert_eq!(leader["leader_address"], nodes[index]["api_address"]);
        root.read("sys/health").expect(200);
    }
    let list = |words: &[&str]| operator(&pair.nodes[0], &pair.operators.token, words);
    let (code, table, error) = list(&["members"]);
    assert!(code == 0 && table.contains(&address_of("node-2")), "{table}{error}");
    let (_, document, error) = list(&["members", "-format=json"]);
    let document: Value = serde_json::from_str(&document).unwrap_or_else(|_| panic!("{error}"));
    assert_eq!(document["Nodes"].as_array().map(Vec::len), Some(2), "{document}");
    assert!(pair.nodes[1].stop());
    assert_eq!(listed(&pair.roots()[0]).len(), 1);
    pair.nodes[1].start_again();
    pair.operators.unseal(&pair.nodes[1]);
    assert_eq!(listed(&pair.roots()[0]).len(), 2);
}

#[test]
fn second_server_of_same_name_is_refused() {
    let pair = Pair::start();
    let mut namesake = prepared(&pair.database, "node-1");
    namesake.start_with(&[]).expect_err("the name is taken");
    let printed = namesake.printed();
    for part in
        ["the node_id \"node-1\" of this server", &address_of("node-1"), "a node_id of its own"]
    {
        assert!(printed.contains(part), "{part}: {printed}");
    }
    pair.roots().iter().for_each(|root| drop(root.read("sys/mounts").expect(200)));
}

#[test]
fn node_that_steps_down_is_drained_and_answers() {
    let pair = Pair::start();
    let [one, other] = pair.roots();
    other.write("sys/step-down", &json!({})).expect(204);
    // Whatever codes the load balancer chooses.
    let drained = other.read("sys/health?activecode=299&standbyok=true").expect(503).body;
    assert_eq!(drained["draining"], true, "{drained}");
    other.write("secret/a", &json!({ "round": 1 })).expect(204);
    let health = one.read("sys/health").expect(200).body;
    assert!(health["draining"].is_null(), "{health}");
    let (code, said, error) = operator(&pair.nodes[0], &pair.operators.token, &["step-down"]);
    assert!(code == 0 && said.contains("drained for 60 s"), "{said}{error}");
    one.read("sys/health").expect(503);
}

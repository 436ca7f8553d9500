//! Several nodes on one PostgreSQL database, beside one node on a database of its own.
//!
//! Two deployments of `docs/nodes.md` run at once, with one node and with three nodes, and are
//! measured in turns: reads, and revocations that another node must know at once. Then versions of
//! a plugin are swapped under a load on three nodes. At the end, a node behind HAProxy is killed
//! under reads and writes. The databases flush, and have the settings of a new installation.
//!
//! `BENCH_ROUNDS` sets another number of swaps, and a tenth of the number of revocations.

mod figures;
mod load;
mod node_kill;
mod node_reads;
mod node_revocations;
mod node_swaps;
mod steady;

use bulkhead_tests::haproxy::NodeTransport;
use bulkhead_tests::paths::{guest, in_version};
use bulkhead_tests::{NodeDeployment, Postgres};
use serde_json::json;
use std::time::Duration;
use tokio::runtime::Builder;

/// Number of nodes beside the single node.
const NODES: usize = 3;
/// Number of swaps, and a tenth of the number of revocations.
const ROUNDS: usize = 100;

/// Settings of a new installation, besides those of the tests, and sessions for all nodes.
const SETTINGS: [&str; 8] = [
    "-c",
    "fsync=on",
    "-c",
    "shared_buffers=128MB",
    "-c",
    "max_wal_size=1GB",
    "-c",
    "max_connections=200",
];

/// The secret that is read.
const SECRET: &str = "kv/orders";

fn main() {
    let runtime = Builder::new_multi_thread().enable_all().build().expect("a runtime can be built");
    let rounds = std::env::var("BENCH_ROUNDS")
        .map_or(ROUNDS, |text| text.parse().expect("a number of rounds"));
    let single = Deployed::start(1);
    let several = Deployed::start(NODES);
    let reads = node_reads::measure(&runtime, &single, &several);
    let revocations = node_revocations::measure(&runtime, &single, &several, 10 * rounds);
    drop(single);
    let swaps = node_swaps::measure(&runtime, &several, rounds);
    drop(several);
    let kill = node_kill::measure(&runtime, deployment(NODES, NodeTransport::Tls));
    figures::save(
        "nodes",
        json!({ "reads": reads, "revocations": revocations, "swaps": swaps, "kill": kill }),
    );
}

/// Nodes without TLS, with a secret, a token that may read the secret, and two versions of a
/// plugin.
struct Deployed {
    nodes: NodeDeployment,
    caller: String,
}

impl Deployed {
    fn start(count: usize) -> Self {
        let nodes = deployment(count, NodeTransport::Plain);
        let root = nodes.client();
        root.write("sys/mounts/kv", &json!({ "type": "kv" })).expect(204);
        root.write(SECRET, &json!({ "password": "correct horse" })).expect(204);
        let rules = format!("path \"{SECRET}\" {{ capabilities = [\"read\"] }}");
        root.write("sys/policies/acl/caller", &json!({ "policy": rules })).expect(204);
        let token = json!({ "policies": ["caller"], "ttl": "24h" });
        let answer = root.write("auth/token/create", &token).expect(200);
        let caller = answer.body["auth"]["client_token"].as_str().expect("a token").to_owned();
        root.upload(node_swaps::PROBE, &guest("probe")).expect(204);
        root.upload(node_swaps::PROBE, &in_version("probe", node_swaps::VERSIONS[1])).expect(204);
        Self { nodes, caller }
    }
}

fn deployment(count: usize, transport: NodeTransport) -> NodeDeployment {
    let database = Postgres::start_with("of-the-bench", &SETTINGS);
    NodeDeployment::start_on(database, count, transport)
}

/// Returns answers per second. A load that cannot be sent in time shows here.
fn rate(answers: usize, time: Duration) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "some hundred thousand answers")]
    let answers = answers as f64;
    answers / time.as_secs_f64()
}

fn verdict(is_held: bool) -> &'static str {
    if is_held { "held" } else { "MISSED" }
}

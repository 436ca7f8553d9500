//! Requests of a mount on three nodes while versions of its plugin are swapped, on each node in
//! turn.

use crate::figures::{micros, quantile};
use crate::load::{self, Connection};
use crate::steady::{ConnectionUse, SteadyLoad, SteadyOutcome};
use crate::{Deployed, rate, verdict};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

pub const PROBE: &str = "sys/plugins/catalog/secret/probe";
pub const VERSIONS: [&str; 2] = ["1.0.0", "2.0.0"];

/// Requests per second of all nodes, and clients of each node.
const RATE: u32 = 2_000;
const CLIENTS: u32 = 6;
/// Time between two swaps, and before the first and after the last swap.
const PAUSE: Duration = Duration::from_millis(200);

/// Prints and returns the failed requests without and with swaps.
pub fn measure(runtime: &Runtime, several: &Deployed, swaps: usize) -> Value {
    let root = several.nodes.client();
    let fields = json!({ "type": "probe", "config": { "plugin_version": VERSIONS[0] } });
    root.write("sys/mounts/exchanged", &fields).expect(204);
    root.write("exchanged/count/visits", &json!({})).expect(204);
    let addresses: Vec<_> = several.nodes.nodes.iter().map(|node| node.address()).collect();
    let request = load::get("exchanged/note/visits", &several.nodes.root);
    let during = |times: usize| loaded(&addresses, &request, &several.nodes.root, times);
    println!("a mount on {} nodes under {RATE} requests/s", addresses.len());
    // The first requests compile the component and fill caches.
    runtime.block_on(during(2));
    let (mut quiet, _) = runtime.block_on(loaded(&addresses, &request, "", 0));
    let quiet_row = quiet.report("without a swap");
    let began = Instant::now();
    let (mut swapped, mut times) = runtime.block_on(during(swaps));
    let per_second = rate(swapped.times.len(), began.elapsed());
    let mut row = swapped.report(&format!("{swaps} swaps"));
    let [p50, longest] = [0.5, 1.0].map(|share| micros(quantile(&mut times, share)));
    let is_held = swapped.failures.is_empty();
    println!(
        "    {per_second:.0} requests/s; a swap took p50 {p50} us, at most {longest} us; goal 0 \
         failed: {}",
        verdict(is_held)
    );
    row["per_second"] = per_second.into();
    row["swap_us"] = json!([p50, longest]);
    row["held"] = is_held.into();
    json!({ "quiet": quiet_row, "swapped": row })
}

/// Loads all nodes during this number of swaps; without swaps, for some pauses. Returns the answers
/// and the time of each swap.
async fn loaded(
    addresses: &[SocketAddr],
    request: &[u8],
    root: &str,
    swaps: usize,
) -> (SteadyOutcome, Vec<Duration>) {
    let node = |address: SocketAddr| SteadyLoad {
        address,
        request: request.to_vec(),
        clients: CLIENTS,
        per_second: RATE / u32::try_from(addresses.len()).expect("few nodes"),
        connections: ConnectionUse::Kept,
    };
    let [one, two, three] = addresses else { panic!("three nodes") };
    let event = async {
        let mut times = Vec::new();
        tokio::time::sleep(PAUSE).await;
        for round in 0..swaps {
            let address = addresses[round % addresses.len()];
            times.push(swap(address, root, VERSIONS[(round + 1) % 2]).await);
            tokio::time::sleep(PAUSE).await;
        }
        if swaps == 0 {
            tokio::time::sleep(20 * PAUSE).await;
        }
        times
    };
    let [one, two, three] = [node(*one), node(*two), node(*three)];
    let (outcome, (second, (third, times))) = one.during(two.during(three.during(event))).await;
    let mut all = outcome;
    all.add(second);
    all.add(third);
    (all, times)
}

async fn swap(address: SocketAddr, root: &str, version: &str) -> Duration {
    let mut connection = Connection::open(address).await;
    let body = json!({ "plugin_version": version }).to_string();
    let request = load::post("sys/mounts/exchanged/tune", root, &body);
    let began = Instant::now();
    connection.exchange(&request).await;
    began.elapsed()
}

//! Processor time of the standard requests: eight requests that a company sends all day, the same
//! with reused instances, and writes that contend for one record.
//!
//! `BENCH_AGAINST` names the server of another build. Both servers answer in turns, so that a busy
//! neighbour slows both alike; `make bench-against COMMIT=…` builds the other one. The figures are
//! microseconds of the server alone, without the load.

mod figures;
mod load;
mod standard;

use bulkhead_tests::Bulkhead;
use bulkhead_tests::paths::{Folder, binary, target};
use figures::quantile;
use load::Target;
use serde_json::{Value, json};
use standard::{Prepared, STANDARD, StandardRequest};
use std::path::PathBuf;
use std::time::Duration;

const CONNECTIONS: usize = 16;
/// Short rounds in turns: the ratio of two servers is the median ratio of neighbouring rounds.
const ROUNDS: usize = 11;
const TIME: Duration = Duration::from_millis(600);
const WARM_UP: Duration = Duration::from_millis(600);

/// A started server, ready for the standard requests.
struct Server {
    bulkhead: Bulkhead,
    prepared: Prepared,
}

impl Server {
    fn start(binary: PathBuf, folder: &str) -> Self {
        let mut bulkhead = Bulkhead::prepared(binary, Folder::at(target().join(folder)));
        bulkhead.start_again();
        let prepared = Prepared::of(&bulkhead.root());
        Self { bulkhead, prepared }
    }

    fn target(&self, standard: &StandardRequest) -> Target {
        Target {
            pid: self.bulkhead.pid(),
            address: self.bulkhead.url().trim_start_matches("http://").parse().expect("an address"),
            request: (standard.request)(&self.prepared),
            lengths: standard.lengths,
        }
    }
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime can be built");
    let mut servers = vec![Server::start(binary(), "bench-standard")];
    if let Some(other) = std::env::var_os("BENCH_AGAINST") {
        servers.push(Server::start(other.into(), "bench-standard-other"));
    }
    let title = "standard requests, microseconds of the server's processor time";
    println!("{title:66} this{}", if servers.len() > 1 { "    other    ratio" } else { "" });
    let only = std::env::var("BENCH_ONLY").unwrap_or_default();
    let chosen = STANDARD.iter().filter(|standard| standard.name.contains(&only));
    let rows: Vec<Value> =
        chosen.map(|standard| runtime.block_on(measure(&servers, standard))).collect();
    figures::save("standard_requests", json!(rows));
}

/// Measures a request on the servers in turns, prints the medians, and returns the row.
async fn measure(servers: &[Server], standard: &StandardRequest) -> Value {
    let targets: Vec<Target> = servers.iter().map(|server| server.target(standard)).collect();
    let connections = standard.connections.unwrap_or(CONNECTIONS);
    let mut micros = vec![Vec::new(); targets.len()];
    for target in &targets {
        target.load(connections, WARM_UP).await;
    }
    for _ in 0..ROUNDS {
        for (target, micros) in targets.iter().zip(&mut micros) {
            micros.push(target.load(connections, TIME).await.server * 1e6);
        }
    }
    let ratio = micros.get(1).map(|other| {
        let mut ratios: Vec<f64> = micros[0].iter().zip(other).map(|(a, b)| a / b).collect();
        quantile(&mut ratios, 0.5)
    });
    let medians: Vec<f64> = micros.iter_mut().map(|found| quantile(found, 0.5)).collect();
    let goal = standard.goal.map_or(String::new(), |goal| {
        format!("   {} {goal:.0}", if medians[0] <= goal { "held" } else { "MISSED" })
    });
    let figures: String = medians.iter().map(|median| format!(" {median:>8.1}")).collect();
    let shown = ratio.map_or(String::new(), |ratio| format!(" {ratio:>8.3}"));
    println!("  {:60}{figures}{shown}{goal}", standard.name);
    json!({
        "what": standard.name, "connections": connections, "server_us": medians[0],
        "other_us": medians.get(1), "ratio": ratio, "goal_us": standard.goal,
    })
}

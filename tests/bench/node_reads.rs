//! Reads of a secret: one node, and three nodes on the same machine, in turns.

use crate::figures::quantile;
use crate::load::{self, AnswerLengths, Load, Target};
use crate::{Deployed, SECRET, verdict};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::runtime::Runtime;

/// Number of connections, which three nodes share.
const CONNECTIONS: usize = 63;
const ROUNDS: usize = 10;
const TIME: Duration = Duration::from_millis(1_500);
const WARM_UP: Duration = Duration::from_secs(3);
/// Minimum throughput of three nodes, as a share of the throughput of one node: the machine has the
/// same cores for both.
const RATE_GOAL: f64 = 0.95;
/// Maximum processor time of three nodes per request, as a share of the time of one node.
const TIME_GOAL: f64 = 1.05;

/// Prints and returns both throughputs, and the processor time of the nodes per request.
pub fn measure(runtime: &Runtime, single: &Deployed, several: &Deployed) -> Value {
    let sides = [single, several].map(targets);
    for targets in &sides {
        runtime.block_on(together(targets, WARM_UP));
    }
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        rounds.push([0, 1].map(|side| runtime.block_on(together(&sides[side], TIME))));
    }
    let median = |figure: &dyn Fn(&[Load; 2]) -> f64| {
        quantile(&mut rounds.iter().map(figure).collect::<Vec<_>>(), 0.5)
    };
    let count = sides[1].len();
    println!("reads of a secret, {CONNECTIONS} connections, {ROUNDS} rounds");
    let rows = ["one node".to_owned(), format!("{count} nodes")].into_iter().enumerate();
    let rows = rows.map(|(side, name)| {
        let rate = median(&|round| round[side].per_second);
        let micros = median(&|round| round[side].server * 1e6);
        println!("  {name:24} {rate:>8.0} requests/s, {micros:>7.1} us of the nodes' processor");
        json!({ "what": name, "per_s": rate.round(), "server_us": micros })
    });
    let rows: Vec<Value> = rows.collect();
    let rate = median(&|round| round[1].per_second / round[0].per_second);
    let time = median(&|round| round[1].server / round[0].server);
    let is_held = rate >= RATE_GOAL && time <= TIME_GOAL;
    println!(
        "  {count} nodes against one: {rate:.2} of the throughput ({RATE_GOAL}), {time:.2} of the \
         processor time per request ({TIME_GOAL}): {}",
        verdict(is_held)
    );
    json!({ "rows": rows, "rate": rate, "time": time, "held": is_held })
}

fn targets(side: &Deployed) -> Vec<Target> {
    let request = load::get(SECRET, &side.caller);
    let target = |node: &bulkhead_tests::Bulkhead| Target {
        address: node.address(),
        pid: node.pid(),
        request: request.clone(),
        lengths: AnswerLengths::Equal,
    };
    side.nodes.nodes.iter().map(target).collect()
}

/// Loads all targets at once, each with its share of the connections. Returns the sum of the rates
/// and the mean processor time per request.
async fn together(targets: &[Target], time: Duration) -> Load {
    let connections = CONNECTIONS / targets.len();
    let used = |targets: &[Target]| targets.iter().map(|target| load::cpu(target.pid)).sum::<f64>();
    let before = used(targets);
    let loads = match targets {
        [one] => vec![one.load(connections, time).await],
        [one, two, three] => {
            let loads = tokio::join!(
                one.load(connections, time),
                two.load(connections, time),
                three.load(connections, time)
            );
            vec![loads.0, loads.1, loads.2]
        }
        _ => panic!("one node or three nodes, not {}", targets.len()),
    };
    let per_second = loads.iter().map(|load| load.per_second).sum::<f64>();
    let server = (used(targets) - before) / (per_second * time.as_secs_f64());
    Load { per_second, server, load: 0.0 }
}

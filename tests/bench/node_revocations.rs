//! Revocations of tokens under load: the token is used on the other nodes as soon as one node has
//! answered. The same revocations on a single node show the time that the other nodes add.

use crate::figures::{micros, quantile};
use crate::load::{self, Connection};
use crate::steady::{ConnectionUse, SteadyLoad};
use crate::{Deployed, SECRET, verdict};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// Requests per second of all nodes, and clients of each node.
const RATE: u32 = 500;
const CLIENTS: u32 = 8;
/// Number of revocations of one side before the other side has its turn.
const TURN: usize = 50;
/// Maximum time by which the 99th percentile of three nodes is above that of a single node.
const ADDED_GOAL: Duration = Duration::from_millis(60);

const TOKEN: &str = r#"{"policies":["caller"],"ttl":"1h"}"#;

/// Answers of one side.
#[derive(Default)]
struct Revocations {
    times: Vec<Duration>,
    /// Number of uses of a revoked token that succeeded.
    accepted: usize,
    /// Number of other answers than a refusal of the token.
    unexpected: Vec<String>,
    failed_load: usize,
}

/// Prints and returns the times, and the number of accepted uses of revoked tokens.
pub fn measure(runtime: &Runtime, single: &Deployed, several: &Deployed, count: usize) -> Value {
    let mut sides = [Revocations::default(), Revocations::default()];
    while sides[1].times.len() < count {
        let turn = TURN.min(count - sides[1].times.len());
        for (deployed, side) in [single, several].into_iter().zip(&mut sides) {
            runtime.block_on(turn_of(deployed, turn, side));
        }
    }
    println!("revocations of tokens under {RATE} reads/s, used on another node at once");
    let rows: Vec<[i64; 2]> = sides
        .iter_mut()
        .zip(["one node", "several nodes"])
        .map(|(side, name)| {
            let [p50, p99] = [0.5, 0.99].map(|share| micros(quantile(&mut side.times, share)));
            println!(
                "  {name:16} {} revocations, p50 {p50} us, p99 {p99} us; {} accepted afterwards, \
                 {} unexpected, {} reads failed",
                side.times.len(),
                side.accepted,
                side.unexpected.len(),
                side.failed_load
            );
            side.unexpected.iter().take(3).for_each(|answer| println!("    {answer}"));
            [p50, p99]
        })
        .collect();
    let [added_p50, added_p99] = [0, 1].map(|place| rows[1][place] - rows[0][place]);
    let is_held = sides[1].accepted == 0 && added_p99 <= micros(ADDED_GOAL);
    println!(
        "  added by the other nodes: p50 {added_p50} us, p99 {added_p99} us (60 ms); accepted {} \
         (0): {}",
        sides[1].accepted,
        verdict(is_held)
    );
    json!({
        "one_us": rows[0], "several_us": rows[1], "added_us": [added_p50, added_p99],
        "accepted": sides[1].accepted, "held": is_held,
    })
}

/// Revokes this number of tokens on one side, while all its nodes answer reads.
async fn turn_of(deployed: &Deployed, count: usize, side: &mut Revocations) {
    let addresses: Vec<_> = deployed.nodes.nodes.iter().map(|node| node.address()).collect();
    let request = load::get(SECRET, &deployed.caller);
    let loads = addresses.iter().map(|address| SteadyLoad {
        address: *address,
        request: request.clone(),
        clients: CLIENTS,
        per_second: RATE / u32::try_from(addresses.len()).expect("few nodes"),
        connections: ConnectionUse::Kept,
    });
    let (done, mut stops) = (revoke_all(&addresses, &deployed.nodes.root, count, side), Vec::new());
    let mut running = Vec::new();
    for load in loads {
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        stops.push(stop);
        running.push(tokio::spawn(async move { load.during(stopped).await.0 }));
    }
    let failed = done.await;
    drop(stops);
    for one in running {
        side.failed_load += one.await.expect("no client panicked").failures.len();
    }
    assert!(failed.is_none(), "{failed:?}");
}

/// Creates, uses and revokes tokens, one after the other, beginning on each node in turn. Returns a
/// request that failed before the revocation.
async fn revoke_all(
    addresses: &[SocketAddr],
    root: &str,
    count: usize,
    side: &mut Revocations,
) -> Option<String> {
    let mut connections = Vec::new();
    for address in addresses {
        connections.push(Connection::open(*address).await);
    }
    for round in 0..count {
        let place = round % addresses.len();
        let create = load::post("auth/token/create", root, TOKEN);
        let answer = connections[place].exchange(&create).await;
        let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
        let body: Value = serde_json::from_str(body).expect("JSON");
        let token = body["auth"]["client_token"].as_str().expect("a token").to_owned();
        let read = load::get(SECRET, &token);
        // Every node has the token in memory before the revocation.
        for connection in &mut connections {
            let answer = connection.attempt(&read).await;
            if !answer.starts_with("HTTP/1.1 200 ") {
                return Some(answer.to_owned());
            }
        }
        let body = json!({ "token": token }).to_string();
        let began = Instant::now();
        connections[place].exchange(&load::post("auth/token/revoke", root, &body)).await;
        side.times.push(began.elapsed());
        for connection in &mut connections {
            let answer = connection.attempt(&read).await;
            side.accepted += usize::from(answer.starts_with("HTTP/1.1 2"));
            if !answer.starts_with("HTTP/1.1 403 ") {
                side.unexpected.push(answer.to_owned());
            }
        }
    }
    None
}

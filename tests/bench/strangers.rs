//! The latency of a client during requests of two hundred callers without a token, who send any
//! path with any JSON of any length as fast as the server answers.
//!
//! Load and callers share the server's cores, so the figure includes their processor time.

mod figures;
mod load;

use bulkhead_tests::Bulkhead;
use bulkhead_tests::bulkhead::ROOT;
use figures::quantile;
use load::Connection;
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

const CALLERS: usize = 200;
/// Number of sequential requests of a client, alone and then beside the callers.
const QUESTIONS: usize = 5_000;
/// Time until the callers have used up the burst of their address.
const BEGINNING: Duration = Duration::from_secs(2);
const ROUNDS: usize = 3;
/// Maximum ratio of the client's p99 beside the callers and alone.
const GOAL: f64 = 3.0;

fn main() {
    let [client, callers] = [runtime(1), runtime(2)];
    let (mut shares, mut times, mut rates) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let bulkhead = Bulkhead::start();
        let found = client.block_on(measure(bulkhead.address(), &callers));
        shares.push(found.beside / found.alone);
        times.push((found.alone, found.beside));
        rates.push(found.rate);
    }
    let (share, rate) = (quantile(&mut shares, 0.5), quantile(&mut rates, 0.5));
    let is_held = share <= GOAL;
    for (alone, beside) in times {
        println!(
            "p99 of a client: {:.2} ms alone, {:.2} ms with the callers",
            alone * 1e3,
            beside * 1e3
        );
    }
    println!("{CALLERS} strangers, answered {rate:.0} times a second: {share:.1} times as long");
    println!("  {} (goal: at most {GOAL} times)", if is_held { "held" } else { "MISSED" });
    figures::save("strangers", json!({ "times": share, "goal": GOAL, "held": is_held }));
}

/// The client has a separate runtime, so that it does not wait for the callers' tasks.
fn runtime(threads: usize) -> Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(threads).enable_all().build().expect("a runtime can be built")
}

/// Latencies in seconds, and the callers' answers per second.
struct Found {
    alone: f64,
    beside: f64,
    rate: f64,
}

async fn measure(address: SocketAddr, runtime: &Runtime) -> Found {
    slowest(address).await;
    let alone = slowest(address).await;
    let answered = Arc::new(AtomicU32::new(0));
    let callers: Vec<_> = requests()
        .into_iter()
        .cycle()
        .take(CALLERS)
        .map(|request| runtime.spawn(ask_without_end(address, request, Arc::clone(&answered))))
        .collect();
    tokio::time::sleep(BEGINNING).await;
    let (began, before) = (Instant::now(), answered.load(Ordering::Relaxed));
    let beside = slowest(address).await;
    let answers = f64::from(answered.load(Ordering::Relaxed) - before);
    callers.iter().for_each(tokio::task::JoinHandle::abort);
    Found { alone, beside, rate: answers / began.elapsed().as_secs_f64() }
}

/// Returns the p99 of a client's requests, in seconds.
async fn slowest(address: SocketAddr) -> f64 {
    let mut connection = Connection::open(address).await;
    let request = load::get("sys/policies/acl/default", ROOT);
    let mut times = Vec::with_capacity(QUESTIONS);
    for _ in 0..QUESTIONS {
        let start = Instant::now();
        connection.exchange(&request).await;
        times.push(start.elapsed().as_secs_f64());
    }
    quantile(&mut times, 0.99)
}

/// Builds the callers' requests: small and large, flat and deep, with a wrong token and without.
fn requests() -> Vec<Vec<u8>> {
    let objects = |count: usize| format!("[{}0]", "{\"a\":0},".repeat(count));
    let wide: String = (0..5_000).map(|number| format!("\"{number}\":0,")).collect();
    let bodies = [
        "{}".to_owned(),
        format!("{{\"a\":{}}}", objects(7_000)),
        format!("{{\"generic_mount_paths\":{}}}", objects(7_000)),
        format!("{{\"a\":{}}}", objects(99_000)),
        format!("{{{wide}\"key\":[{}0]}}", "[".repeat(100)),
        format!("{{\"a\":\"{}\"}}", "x".repeat(4 << 20)),
    ];
    let paths = ["nowhere", "sys/policies/acl/x", "sys/internal/specs/openapi"];
    let tokens = ["", "x-vault-token: bhs.none-of-ours\r\n"];
    let mut requests = Vec::new();
    for (number, body) in bodies.iter().enumerate() {
        for path in paths {
            let (token, length) = (tokens[number % 2], body.len());
            let head = format!("POST /v1/{path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n");
            let head = format!("{head}{token}content-length: {length}\r\n\r\n");
            requests.push([head.as_bytes(), body.as_bytes()].concat());
        }
    }
    requests
}

/// Repeats a request, each time over a new connection. The server may close the connection before
/// it has read the whole request.
async fn ask_without_end(address: SocketAddr, request: Vec<u8>, answered: Arc<AtomicU32>) {
    loop {
        let Ok(mut stream) = TcpStream::connect(address).await else { continue };
        let _ = stream.write_all(&request).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        answered.fetch_add(1, Ordering::Relaxed);
    }
}

//! The death of a node under a steady load of reads and writes through HAProxy: failed requests,
//! the time in which requests fail, and acknowledged writes that are gone.

use crate::figures::{micros, quantile};
use crate::load;
use crate::steady::{ConnectionUse, SteadyLoad};
use crate::{rate, verdict};
use bulkhead_tests::NodeDeployment;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

/// Requests per second of all clients, and number of clients, each with a secret of its own.
const RATE: u32 = 500;
const CLIENTS: u32 = 50;
/// Number of kills, each of another node, which then returns.
const KILLS: usize = 3;
/// Time of the load before and after a kill.
const BEFORE: Duration = Duration::from_secs(2);
const AFTER: Duration = Duration::from_secs(5);
/// Maximum time from the kill to the last failed answer.
const WINDOW_GOAL: Duration = Duration::from_secs(1);
/// Time after which a number that no node shows counts as lost.
const PATIENCE: Duration = Duration::from_secs(5);

/// The requests of one client.
struct ClientRecord {
    /// Numbers of the last write that was acknowledged and of the last that was sent.
    acknowledged: u64,
    sent: u64,
    times: Vec<Duration>,
    /// Moments of failed answers, with the reasons.
    failures: Vec<(Instant, String)>,
}

/// Kills each node once, and prints and returns the failures.
pub fn measure(runtime: &Runtime, mut nodes: NodeDeployment) -> Value {
    let client = nodes.client();
    client.write("sys/mounts/kv", &json!({ "type": "kv" })).expect(204);
    println!(
        "a node of {} is killed under {RATE} requests/s through HAProxy, half of them writes",
        nodes.nodes.len()
    );
    let rows = (0..KILLS).map(|round| {
        let place = round % nodes.nodes.len();
        let row = kill(runtime, &mut nodes, place);
        nodes.nodes[place].start_again();
        nodes.wait_until_used(place);
        row
    });
    Value::Array(rows.collect())
}

fn kill(runtime: &Runtime, nodes: &mut NodeDeployment, place: usize) -> Value {
    let (address, root) = (nodes.proxy.plain_address, nodes.root.clone());
    let is_over = Arc::new(AtomicBool::new(false));
    let (killed, mut records) = runtime.block_on(async {
        let began = Instant::now();
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let first = began + Duration::from_secs(1) * number / RATE;
                let (root, is_over) = (root.clone(), Arc::clone(&is_over));
                tokio::spawn(async move { ask(address, &root, (number, first), &is_over).await })
            })
            .collect();
        tokio::time::sleep(BEFORE).await;
        let killed = Instant::now();
        tokio::task::block_in_place(|| nodes.nodes[place].kill());
        tokio::time::sleep(AFTER).await;
        is_over.store(true, Ordering::Relaxed);
        let mut records = Vec::new();
        for client in clients {
            records.push(client.await.expect("no client panicked"));
        }
        (killed, records)
    });
    let lost =
        records.iter().enumerate().filter(|(number, record)| is_lost(nodes, *number, record));
    let lost = lost.count();
    report(killed, &mut records, lost)
}

/// Sends the requests of one client: a write of the next number, then a read.
async fn ask(
    address: SocketAddr,
    root: &str,
    (number, first): (u32, Instant),
    is_over: &AtomicBool,
) -> ClientRecord {
    let path = path_of(number);
    let mut record =
        ClientRecord { acknowledged: 0, sent: 0, times: Vec::new(), failures: Vec::new() };
    let (mut open, mut due, mut is_write): (Option<TcpStream>, _, _) = (None, first, true);
    while !is_over.load(Ordering::Relaxed) {
        tokio::time::sleep_until(due.into()).await;
        let request = if is_write {
            record.sent += 1;
            load::post(&path, root, &json!({ "number": record.sent }).to_string())
        } else {
            load::get(&path, root)
        };
        let connections = ConnectionUse::Kept;
        let load = SteadyLoad { address, request, clients: 1, per_second: 1, connections };
        match load.exchange(&mut open).await {
            Ok(_) if is_write => record.acknowledged = record.sent,
            Ok(_) => {}
            Err(why) => record.failures.push((Instant::now(), why)),
        }
        record.times.push(due.elapsed());
        is_write = !is_write;
        due += Duration::from_secs(1) * CLIENTS / RATE;
    }
    record
}

fn path_of(number: u32) -> String {
    format!("kv/client-{number}")
}

/// Returns whether the stored number is none of the numbers after the last acknowledged write. A
/// node may answer with an earlier number for a moment.
fn is_lost(nodes: &NodeDeployment, number: usize, record: &ClientRecord) -> bool {
    let path = path_of(u32::try_from(number).expect("few clients"));
    let (client, began) = (nodes.client(), Instant::now());
    if record.acknowledged == 0 {
        return false;
    }
    loop {
        let stored = client.read(&path).body["data"]["number"].as_u64().unwrap_or_default();
        if (record.acknowledged..=record.sent).contains(&stored) {
            return false;
        }
        if began.elapsed() > PATIENCE {
            return true;
        }
    }
}

fn report(killed: Instant, records: &mut [ClientRecord], lost: usize) -> Value {
    let mut times: Vec<_> = records.iter().flat_map(|record| record.times.clone()).collect();
    let failures: Vec<_> = records.iter().flat_map(|record| &record.failures).collect();
    let last = failures.iter().map(|(moment, _)| moment.duration_since(killed)).max();
    let window = last.unwrap_or_default();
    let [p99, longest] = [0.99, 1.0].map(|share| micros(quantile(&mut times, share)));
    let is_held = window <= WINDOW_GOAL && lost == 0;
    let per_second = rate(times.len(), BEFORE + AFTER);
    println!(
        "  {per_second:.0} requests/s, {} failed, the last {window:?} after the kill \
         ({WINDOW_GOAL:?}); {lost} acknowledged writes lost (0); p99 {p99} us, longest {longest} \
         us: {}",
        failures.len(),
        verdict(is_held)
    );
    failures.iter().take(3).for_each(|(_, why)| println!("    {why}"));
    json!({
        "per_second": per_second, "failed": failures.len(), "window_us": micros(window),
        "lost_writes": lost, "p99_us": p99, "longest_us": longest, "held": is_held,
    })
}

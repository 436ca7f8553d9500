//! Requests of a mount during version swaps, and many mounts.
//!
//! A steady load runs during a hundred swaps. Most of them swap one mount between two versions with
//! the same schema. The others migrate, each on a separate mount, because a migration cannot be
//! reversed. A stall is the longest answer: sixteen connections ask in turns, so that requests are
//! always under way. The same load without a swap runs first, for comparison. Then 64 clients
//! enable mounts, and the server starts with these mounts, which shows the cost of an idle mount.
//! Each mount is then used once, and the metrics of all mounts are scraped.

mod figures;
mod load;
mod scrape;

use bulkhead_tests::Bulkhead;
use bulkhead_tests::bulkhead::ROOT;
use bulkhead_tests::paths::{guest, in_version, target, with_text};
use figures::{micros, quantile};
use load::Connection;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Requests per second.
const RATE: u32 = 2_000;
const CONNECTIONS: u32 = 16;
const EXCHANGES: usize = 80;
const MIGRATIONS: usize = 20;
/// Interval between swaps, and before the first and after the last swap of a load.
const PAUSE: Duration = Duration::from_millis(200);
/// Maximum latency of a request.
const STALL_GOAL: Duration = Duration::from_millis(50);

const MOUNTS: u32 = 5_000;
const CLIENTS: u32 = 64;
/// Minimum number of mounts enabled per second.
const ENABLED_GOAL: f64 = 500.0;
/// Maximum duration of a start with all mounts.
const START_GOAL: Duration = Duration::from_secs(2);
/// Maximum resident memory of an idle mount, in bytes.
const RESIDENT_GOAL: u64 = 16 << 10;

const HOSTILE: &str = "sys/plugins/catalog/secret/hostile";
const PROBE: &str = "sys/plugins/catalog/secret/probe";
const VERSIONS: [&str; 2] = ["1.0.0", "2.0.0"];

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime can be built");
    let mut server = Bulkhead::start_in(target().join("bench-versions"));
    configure(&server);
    let address = server.address();
    // The first requests compile the component and fill caches.
    runtime.block_on(loaded(address, "exchanged/note/visits", async || wait(5 * PAUSE).await));
    let quiet = runtime.block_on(loaded(address, "exchanged/note/visits", async || {
        wait(PAUSE * u32::try_from(EXCHANGES).expect("few")).await;
    }));
    let exchanged = runtime.block_on(exchanges(address));
    let migrated = runtime.block_on(migrations(address));
    println!("a mount under {RATE} requests a second that read a record");
    let swaps = json!({
        "quiet": report("without a swap", quiet),
        "exchanged": report(&format!("{EXCHANGES} swaps within one schema"), exchanged),
        "migrated": report(&format!("{MIGRATIONS} swaps with a migration"), migrated),
        "stall_goal_us": micros(STALL_GOAL),
    });
    let mounts = many_mounts(&runtime, &mut server);
    figures::save("versions", json!({ "swaps": swaps, "mounts": mounts }));
}

/// Uploads two versions of the probe with one schema, and two versions of the hostile guest with
/// two schemas. Enables one mount of the probe, and several of the hostile guest.
fn configure(server: &Bulkhead) {
    let root = server.root();
    let hostile = |version: &str, schema: u32| {
        let text = format!("\"version\":\"{version}\",\"schema\":{schema}");
        with_text(guest("hostile"), "\"version\":\"1.0.0\",\"schema\":2", &text)
    };
    root.upload(PROBE, &guest("probe")).expect(204);
    root.upload(PROBE, &in_version("probe", VERSIONS[1])).expect(204);
    root.upload(HOSTILE, &hostile(VERSIONS[0], 2)).expect(204);
    root.upload(HOSTILE, &hostile(VERSIONS[1], 3)).expect(204);
    let enable = |path: &str, kind: &str| {
        let fields = json!({ "type": kind, "config": { "plugin_version": VERSIONS[0] } });
        root.write(&format!("sys/mounts/{path}"), &fields).expect(204);
    };
    enable("exchanged", "probe");
    root.write("exchanged/count/visits", &json!({})).expect(204);
    (0..MIGRATIONS).for_each(|number| enable(&format!("migrated-{number}"), "hostile"));
}

async fn wait(time: Duration) {
    tokio::time::sleep(time).await;
}

#[derive(Default)]
struct Outcome {
    times: Vec<Duration>,
    failed: u32,
    reasons: Vec<String>,
    swaps: Vec<Duration>,
    lasted: Duration,
}

impl Outcome {
    fn add(&mut self, other: Self) {
        self.times.extend(other.times);
        self.failed += other.failed;
        self.reasons.extend(other.reasons);
        self.swaps.extend(other.swaps);
        self.lasted += other.lasted;
    }
}

async fn exchanges(address: SocketAddr) -> Outcome {
    let mut swaps = Vec::new();
    let mut outcome = loaded(address, "exchanged/note/visits", async || {
        wait(PAUSE).await;
        for round in 0..EXCHANGES {
            swaps.push(swap(address, "exchanged", VERSIONS[(round + 1) % 2]).await);
            wait(PAUSE).await;
        }
    })
    .await;
    outcome.swaps = swaps;
    outcome
}

/// Swaps each mount in turn to the version that migrates, under the load.
async fn migrations(address: SocketAddr) -> Outcome {
    let mut all = Outcome::default();
    for number in 0..MIGRATIONS {
        let path = format!("migrated-{number}");
        let mut took = Duration::ZERO;
        let mut one = loaded(address, &format!("{path}/acts"), async || {
            wait(PAUSE).await;
            took = swap(address, &path, VERSIONS[1]).await;
            wait(PAUSE).await;
        })
        .await;
        one.swaps.push(took);
        all.add(one);
    }
    all
}

async fn swap(address: SocketAddr, path: &str, version: &str) -> Duration {
    let mut connection = Connection::open(address).await;
    let body = json!({ "plugin_version": version }).to_string();
    let request = load::post(&format!("sys/mounts/{path}/tune"), ROOT, &body);
    let began = Instant::now();
    connection.exchange(&request).await;
    began.elapsed()
}

/// Requests the path at [`RATE`] while `other` runs.
async fn loaded(address: SocketAddr, path: &str, other: impl AsyncFnOnce()) -> Outcome {
    let is_over = Arc::new(AtomicBool::new(false));
    let request = load::get(path, ROOT);
    let began = Instant::now();
    let asking: Vec<_> = (0..CONNECTIONS)
        .map(|place| {
            let first = began + Duration::from_secs(1) * place / RATE;
            tokio::spawn(ask(address, request.clone(), first, Arc::clone(&is_over)))
        })
        .collect();
    other().await;
    is_over.store(true, Ordering::Relaxed);
    let mut outcome = Outcome::default();
    for one in asking {
        outcome.add(one.await.expect("no client failed"));
    }
    outcome.lasted = began.elapsed();
    outcome
}

/// Sends one connection's share of the load.
async fn ask(
    address: SocketAddr,
    request: Vec<u8>,
    first: Instant,
    is_over: Arc<AtomicBool>,
) -> Outcome {
    let (mut connection, mut outcome) = (Connection::open(address).await, Outcome::default());
    let mut due = first;
    while !is_over.load(Ordering::Relaxed) {
        tokio::time::sleep_until(due.into()).await;
        let began = Instant::now();
        let answer = connection.attempt(&request).await;
        if !answer.starts_with("HTTP/1.1 200 ") {
            outcome.failed += 1;
            outcome.reasons.push(answer.to_owned());
        }
        outcome.times.push(began.elapsed());
        due += Duration::from_secs(1) * CONNECTIONS / RATE;
    }
    outcome
}

fn report(name: &str, mut outcome: Outcome) -> Value {
    #[allow(clippy::cast_precision_loss, reason = "a few thousand requests")]
    let per_second = outcome.times.len() as f64 / outcome.lasted.as_secs_f64();
    let [p50, p99, longest] =
        [0.5, 0.99, 1.0].map(|share| micros(quantile(&mut outcome.times, share)));
    let verdict = match outcome.failed == 0 && longest <= micros(STALL_GOAL) {
        true => "held",
        false => "MISSED",
    };
    let swap = (!outcome.swaps.is_empty())
        .then(|| [0.5, 1.0].map(|share| micros(quantile(&mut outcome.swaps, share))));
    println!(
        "  {name:32} {per_second:>6.0} requests/s, {} failed (0); p50 {p50} us, p99 {p99} us, \
         longest {longest} us (50 ms): {verdict}",
        outcome.failed
    );
    if let Some([p50, longest]) = swap {
        println!("  {:32} a swap took p50 {p50} us, at most {longest} us", "");
    }
    outcome.reasons.iter().take(3).for_each(|reason| println!("    {reason}"));
    json!({
        "requests": outcome.times.len(), "per_second": per_second, "failed": outcome.failed,
        "p50_us": p50, "p99_us": p99, "longest_us": longest, "swap_us": swap,
    })
}

/// Enables many mounts, and restarts the server.
fn many_mounts(runtime: &tokio::runtime::Runtime, server: &mut Bulkhead) -> Value {
    let before = started(server);
    let resident_before = server.memory();
    let address = server.address();
    let enable =
        |path: &str| load::post(&format!("sys/mounts/{path}"), ROOT, r#"{"type":"probe"}"#);
    let took = runtime.block_on(on_each_mount(address, enable));
    let per_second = f64::from(MOUNTS) / took.as_secs_f64();
    let after = started(server);
    let resident = server.memory().saturating_sub(resident_before) / u64::from(MOUNTS);
    let verdict = |is_held| if is_held { "held" } else { "MISSED" };
    println!(
        "{CLIENTS} clients enable {MOUNTS} mounts: {per_second:.0} a second (500): {}",
        verdict(per_second >= ENABLED_GOAL)
    );
    println!(
        "a start with these mounts {after:?} (2 s): {}; before {before:?}",
        verdict(after <= START_GOAL)
    );
    println!(
        "an idle mount has {resident} bytes resident ({RESIDENT_GOAL}): {}",
        verdict(resident <= RESIDENT_GOAL)
    );
    let address = server.address();
    let write = |path: &str| load::post(&format!("{path}/count/visits"), ROOT, "{}");
    runtime.block_on(on_each_mount(address, write));
    let scrape = scrape::report(server);
    json!({
        "scrape": scrape, "mounts": MOUNTS, "clients": CLIENTS, "enabled_per_second": per_second,
        "start_us": micros(after), "start_before_us": micros(before),
        "resident_bytes": resident,
    })
}

/// Returns the time in which the clients send a request for each mount.
async fn on_each_mount(address: SocketAddr, request: fn(&str) -> Vec<u8>) -> Duration {
    let next = Arc::new(AtomicU32::new(0));
    let began = Instant::now();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| tokio::spawn(send_for_mounts(address, request, Arc::clone(&next))))
        .collect();
    for client in clients {
        client.await.expect("no client failed");
    }
    began.elapsed()
}

async fn send_for_mounts(address: SocketAddr, request: fn(&str) -> Vec<u8>, next: Arc<AtomicU32>) {
    let mut connection = Connection::open(address).await;
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= MOUNTS {
            return;
        }
        connection.exchange(&request(&format!("many-{number}"))).await;
    }
}

/// Returns the time from the start of the process until it listens.
fn started(server: &mut Bulkhead) -> Duration {
    assert!(server.stop(), "{}", server.printed());
    let began = Instant::now();
    server.start_again();
    began.elapsed()
}

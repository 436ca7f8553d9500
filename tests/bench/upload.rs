//! The p99 of other requests during the compilation of an uploaded component, against the p99
//! before.
//!
//! A few kept connections send sequential requests before and during an upload, in turns. The
//! component is the probe with an added core module that is never instantiated and takes a while to
//! compile.

mod figures;
mod load;

use bulkhead_tests::Bulkhead;
use bulkhead_tests::bulkhead::ROOT;
use bulkhead_tests::encoding::{MODULE, number, section};
use bulkhead_tests::paths::{Folder, guest, target};
use figures::{micros, quantile};
use load::Connection;
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const ROUNDS: usize = 5;
const CONNECTIONS: usize = 4;
/// Duration of the measurement before an upload.
const TIME: Duration = Duration::from_secs(2);
const WARM_UP: Duration = Duration::from_secs(1);
/// Number of functions of the module, and of additions in each.
const FUNCTIONS: usize = 4_000;
const ADDITIONS: usize = 32;

const PROBE: &str = "sys/plugins/catalog/secret/probe";

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime can be built");
    let folder = Folder::at(target().join("bench-upload"));
    let bulkhead = Bulkhead::start_in(folder.path().join("bulkhead"));
    let address = bulkhead.url().trim_start_matches("http://").parse().expect("an address");
    let component = large();
    runtime.block_on(measured(address, async || tokio::time::sleep(WARM_UP).await));
    let (mut before, mut beside, mut compiling) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        before.extend(runtime.block_on(measured(address, async || tokio::time::sleep(TIME).await)));
        let (client, component) = (bulkhead.root(), component.clone());
        let began = Instant::now();
        let upload = async move || {
            let uploaded =
                tokio::task::spawn_blocking(move || client.upload(PROBE, &component).expect(204))
                    .await;
            drop(uploaded.expect("the component is registered"));
        };
        beside.extend(runtime.block_on(measured(address, upload)));
        compiling.push(began.elapsed());
        bulkhead.root().delete(PROBE).expect(204);
    }
    report(component.len(), (&mut before, &mut beside), quantile(&mut compiling, 0.5));
}

/// Returns the durations of the requests that were answered while `other` ran.
async fn measured(address: SocketAddr, other: impl AsyncFnOnce()) -> Vec<Duration> {
    let over = Arc::new(AtomicBool::new(false));
    let asking: Vec<_> =
        (0..CONNECTIONS).map(|_| tokio::spawn(ask(address, Arc::clone(&over)))).collect();
    other().await;
    over.store(true, Ordering::Relaxed);
    let mut times = Vec::new();
    for one in asking {
        times.extend(one.await.expect("no client failed"));
    }
    times
}

async fn ask(address: SocketAddr, over: Arc<AtomicBool>) -> Vec<Duration> {
    let (mut connection, mut times) = (Connection::open(address).await, Vec::new());
    let request = load::get("sys/mounts", ROOT);
    while !over.load(Ordering::Relaxed) {
        let began = Instant::now();
        connection.exchange(&request).await;
        times.push(began.elapsed());
    }
    times
}

fn report(bytes: usize, (before, beside): (&mut [Duration], &mut [Duration]), compiling: Duration) {
    let [alone, crowded] =
        [before, beside].map(|times| (quantile(times, 0.5), quantile(times, 0.99)));
    let ratio = crowded.1.as_secs_f64() / alone.1.as_secs_f64();
    println!(
        "GET sys/mounts during the compilation of a component of {bytes} bytes, which takes \
         {compiling:?}"
    );
    println!("  before   p50 {:>7} us   p99 {:>7} us", micros(alone.0), micros(alone.1));
    println!(
        "  beside   p50 {:>7} us   p99 {:>7} us   {ratio:.2} times",
        micros(crowded.0),
        micros(crowded.1)
    );
    figures::save(
        "upload",
        json!({
            "component_bytes": bytes, "compiling_us": micros(compiling), "p99_ratio": ratio,
            "before": { "p50_us": micros(alone.0), "p99_us": micros(alone.1) },
            "beside": { "p50_us": micros(crowded.0), "p99_us": micros(crowded.1) },
        }),
    );
}

/// Appends a large module to the probe.
fn large() -> Vec<u8> {
    let mut body = vec![0, 0x20, 0];
    for _ in 0..ADDITIONS {
        // One addition: `local.get 0`, `i32.const 7`, `i32.mul`, `i32.add`.
        body.extend([0x20, 0, 0x41, 7, 0x6c, 0x6a]);
    }
    body.push(0x0b);
    let one = [number(body.len()), body].concat();
    let types = section(1, &[1, 0x60, 1, 0x7f, 1, 0x7f]);
    let declared = section(3, &[number(FUNCTIONS), vec![0; FUNCTIONS]].concat());
    let code = section(10, &[number(FUNCTIONS), one.repeat(FUNCTIONS)].concat());
    let module = [&MODULE, types.as_slice(), &declared, &code].concat();
    [guest("probe"), section(1, &module)].concat()
}

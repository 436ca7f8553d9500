//! Measures a plugin call: a read of a role by the official database engine, in a fresh instance
//! and in a reused instance (decision T4).
//!
//! Includes store, instance, the call with its host calls, and the drop. The role is in the buffer
//! of the unit of work, so that no disk access is measured. Prints results to the terminal and
//! writes JSON to `target/bench.json`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a benchmark stops by panicking and reports by printing"
)]

#[path = "bed/sandbox.rs"]
mod bed;
#[path = "../../benches/figures.rs"]
mod figures;

use bed::{Bed, call};
use bulkhead_sandbox::contract::{AnswerPayload, Call};
use bulkhead_sandbox::{InstanceReuse, MountLimits, ReuseBounds};
use bulkhead_store::{Address, IndexColumns, Space, Unit};
use std::sync::Arc;
use std::time::{Duration, Instant};

const WARM_UP: usize = 5_000;
const CALLS: usize = 50_000;

fn main() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let target = figures::target();
    let directory = target.join(format!("bench-store-{}", std::process::id()));
    let component = target.join("plugins/database.wasm");
    let bed = runtime.block_on(Bed::prepare(&component, &directory, MountLimits::default()));
    let fields = serde_json::json!({ "name": "reader" });
    let bench = Arc::new(Bench { bed, call: call("read", "roles/{name}", "reader", &fields) });
    let bounded = bench.bed.engine.reuse("mount", ReuseBounds::default());
    let figures = [InstanceReuse::Fresh, bounded].map(|reuse| {
        runtime.block_on(calls(Arc::clone(&bench), reuse.clone(), WARM_UP));
        let mut times = runtime.block_on(calls(Arc::clone(&bench), reuse, CALLS));
        times.sort_unstable();
        [50, 99].map(|share: usize| times[times.len() * share / 100].as_secs_f64() * 1e6)
    });
    let [[p50, p99], [reused_p50, reused_p99]] = figures;
    // Interleaved, because the machine is shared: first, second, first, second …
    let (mut one, mut two) = (0.0_f64, 0.0_f64);
    for _ in 0..3 {
        one = one.max(throughput(&runtime, &bench, 1));
        two = two.max(throughput(&runtime, &bench, 2));
    }
    println!("fresh instance, role read: p50 {p50:.1} µs (target 25), p99 {p99:.1} µs (target 60)");
    println!("reused instance, role read: p50 {reused_p50:.1} µs, p99 {reused_p99:.1} µs");
    println!("throughput: {one:.0} calls/s on one thread, {two:.0} on two: {:.2} times", two / one);
    figures::write(
        "fresh_instance",
        serde_json::json!({
            "p50_us": p50, "p99_us": p99, "reused_p50_us": reused_p50, "reused_p99_us": reused_p99,
            "one_thread_per_s": one, "two_threads_per_s": two,
        }),
    );
    drop(bench);
    std::fs::remove_dir_all(directory).unwrap();
}

fn throughput(runtime: &tokio::runtime::Runtime, bench: &Arc<Bench>, tasks: usize) -> f64 {
    let began = Instant::now();
    runtime.block_on(async {
        let running: Vec<_> = (0..tasks)
            .map(|_| tokio::spawn(calls(Arc::clone(bench), InstanceReuse::Fresh, CALLS / 2)))
            .collect();
        for task in running {
            task.await.unwrap();
        }
    });
    (tasks * (CALLS / 2)) as f64 / began.elapsed().as_secs_f64()
}

async fn calls(bench: Arc<Bench>, reuse: InstanceReuse, count: usize) -> Vec<Duration> {
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        let (scope, unit) = (bench.bed.scope(&reuse), bench.unit());
        let began = Instant::now();
        let done = bench.bed.engine.handle(scope, unit, &bench.call).await;
        times.push(began.elapsed());
        assert!(matches!(done.result.unwrap().outcome, AnswerPayload::Data(_)));
    }
    times
}

struct Bench {
    bed: Bed,
    call: Call,
}

impl Bench {
    fn unit(&self) -> Unit {
        let role = serde_json::json!({
            "db_name": "orders",
            "creation_statements": [
                "CREATE ROLE \"{{name}}\" LOGIN PASSWORD '{{password}}' VALID UNTIL \
                 '{{expiration}}'",
            ],
            "revocation_statements": [], "renew_statements": [], "rollback_statements": [],
            "default_ttl": 3600, "max_ttl": 86400,
            "credential_type": "password", "credential_config": {},
        });
        let mut unit = self.bed.store.begin();
        unit.put(
            Address::new(Space::Data, "mount/role/reader"),
            role.to_string().into_bytes(),
            IndexColumns::default(),
        );
        unit
    }
}

//! The scheduler's plain HTTP: `GET /v1/acl/role/:id` against `GET database/roles/:name` of the
//! same server, in turns, and the delay from a write to the answer of the blocking read that waits
//! for it.

mod figures;
mod load;

use bulkhead_tests::bulkhead::ROOT;
use bulkhead_tests::metrics;
use bulkhead_tests::scheduler::{PlainAnswer, PlainRequest, Scheduler};
use figures::{micros, quantile};
use load::{AnswerLengths, Target};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const CONNECTIONS: usize = 64;
const ROUNDS: usize = 7;
const TIME: Duration = Duration::from_millis(1_500);
const WARM_UP: Duration = Duration::from_secs(3);
/// Minimum share of the database engine's rate. Both rates are equal except for noise.
const GOAL: f64 = 0.9;

const WAKE_UPS: usize = 500;
/// Maximum p99 of the wake-up delay.
const WAKE_UP_GOAL: Duration = Duration::from_millis(50);
/// Longer than any wake-up may take.
const PATIENCE: Duration = Duration::from_secs(30);

const STATEMENT: &str =
    r#"CREATE ROLE "{{name}}" LOGIN PASSWORD '{{password}}' VALID UNTIL '{{expiration}}'"#;

fn main() {
    let scheduler = Scheduler::start();
    let record = role(&scheduler);
    let path = format!("/v1/acl/role/{}", record["ID"].as_str().expect("an identifier"));
    let rates = rates(&scheduler, &path);
    let wake_ups = wake_ups(&scheduler, &path, record);
    figures::save("scheduler", json!({ "role_reads": rates, "wake_ups": wake_ups }));
}

fn role(scheduler: &Scheduler) -> Value {
    let policy = json!({ "Name": "readonly", "Rules": "" });
    scheduler.manage("PUT", "/v1/acl/policy/readonly", &policy);
    let role = json!({ "Name": "reader", "Policies": [{ "Name": "readonly" }] });
    scheduler.manage("PUT", "/v1/acl/role", &role).json()
}

/// Returns the rates of both role reads, and the median of their ratios.
fn rates(scheduler: &Scheduler, path: &str) -> Value {
    let server = &scheduler.server;
    let role = json!({ "db_name": "orders", "creation_statements": [STATEMENT] });
    assert!(server.root().write("database/roles/reader", &role).status < 300);
    let (pid, management) = (server.pid(), &scheduler.management);
    let request = load::get("database/roles/reader", ROOT);
    let lengths = AnswerLengths::Equal;
    let database = Target { address: server.address(), pid, request, lengths };
    let head = format!("GET {path} HTTP/1.1\r\nHost: bench\r\nX-Nomad-Token: {management}\r\n\r\n");
    let plain = Target { address: scheduler.address(), pid, request: head.into_bytes(), lengths };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let rounds: Vec<[f64; 2]> = runtime.expect("a runtime").block_on(async {
        for target in [&database, &plain] {
            target.load(CONNECTIONS, WARM_UP).await;
        }
        let mut rounds = Vec::new();
        for _ in 0..ROUNDS {
            let database = database.load(CONNECTIONS, TIME).await.per_second;
            rounds.push([database, plain.load(CONNECTIONS, TIME).await.per_second]);
        }
        rounds
    });
    let median = |says: fn(&[f64; 2]) -> f64| {
        quantile(&mut rounds.iter().map(says).collect::<Vec<_>>(), 0.5)
    };
    let (database, plain) = (median(|round| round[0]), median(|round| round[1]));
    let share = median(|round| round[1] / round[0]);
    println!("role reads over {CONNECTIONS} connections, {ROUNDS} rounds, requests/s");
    println!("  database engine {database:>10.0}");
    println!(
        "  scheduler       {plain:>10.0}   {:.0} % (at least {:.0} %)",
        share * 1e2,
        GOAL * 1e2
    );
    println!("  {}", if share >= GOAL { "held" } else { "MISSED" });
    json!({
        "connections": CONNECTIONS, "database_per_s": database.round(),
        "scheduler_per_s": plain.round(), "share": share, "goal": GOAL, "held": share >= GOAL,
    })
}

/// Returns the delays from a write to the answer of the waiting read.
fn wake_ups(scheduler: &Scheduler, path: &str, mut record: Value) -> Value {
    let mut times: Vec<Duration> = (0..WAKE_UPS)
        .map(|round| {
            let index = record["ModifyIndex"].as_u64().expect("an index");
            let query_path = format!("{path}?index={index}&wait=60s");
            let read = PlainRequest::new("GET", &query_path).with_token(&scheduler.management);
            let waiting = read.begin(scheduler.address());
            bulkhead_tests::wait::until_true("the read is parked", PATIENCE, || {
                is_parked(scheduler)
            });
            record["Description"] = format!("round {round}").into();
            let began = Instant::now();
            let mut write = PlainRequest::new("PUT", path).with_token(&scheduler.management);
            write.body = record.to_string().into_bytes();
            let written = write.begin(scheduler.address());
            let answer = PlainAnswer::receive(waiting);
            let took = began.elapsed();
            assert_eq!((answer.status, PlainAnswer::receive(written).status), (200, 200));
            record = answer.json();
            took
        })
        .collect();
    let [half, most] = [0.5, 0.99].map(|share| quantile(&mut times, share));
    let is_held = most <= WAKE_UP_GOAL;
    println!(
        "wake-ups of a blocked read, {WAKE_UPS} rounds, from the write that ends the wait, us"
    );
    println!("  median {}   p99 {}", micros(half), micros(most));
    println!("  {}", if is_held { "held" } else { "MISSED" });
    json!({
        "rounds": WAKE_UPS, "median_us": micros(half), "p99_us": micros(most),
        "goal_us": micros(WAKE_UP_GOAL), "held": is_held,
    })
}

fn is_parked(scheduler: &Scheduler) -> bool {
    metrics::count(&metrics::scrape(&scheduler.server), "bulkhead_core_parked_requests{}") == 1
}

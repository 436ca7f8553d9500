//! The cost of a hostile component for others: the delay until an endless loop is stopped, and the
//! latency of another mount while four of the guest's calls loop, flood the host or fill their
//! memory.
//!
//! One client calls the other mount sequentially, before and during each attack. The figure is the
//! ratio within one round, so that a busy machine slows both alike. For comparison, the benchmark
//! also runs one busy process beside the server: an attack that occupies one processor costs at
//! least as much.

mod figures;
mod load;

use bulkhead_tests::Bulkhead;
use bulkhead_tests::bulkhead::ROOT;
use bulkhead_tests::paths::{guest, target};
use figures::{micros, quantile};
use load::Connection;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::process::{Child, Command};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Number of concurrent calls of the guest.
const ATTACKERS: usize = 4;
const ROUNDS: usize = 5;
const QUIET: Duration = Duration::from_secs(3);
/// Duration of a round. Five rounds of 4 attackers for 10 seconds make 200 loops.
const ATTACK: Duration = Duration::from_secs(10);
/// Deadline of the guest's endless loop, as in its route.
const DEADLINE: Duration = Duration::from_secs(1);

/// Maximum ratio of the other mount's p99 during an attack and before.
const RATIO_GOAL: f64 = 2.0;
/// Maximum delay after the deadline until a loop is stopped.
const OVERRUN_GOAL: Duration = Duration::from_millis(20);

/// In place of an act: another process occupies a processor, and no client calls the guest.
const PROCESS: &str = "";

const ATTACKS: [(&str, &str); 5] = [
    ("nobody, and a busy process", PROCESS),
    ("endless loops", "endless-loop"),
    ("floods of host calls", "storm-of-host-calls"),
    ("host calls that wait for the disk", "waits-in-host-calls"),
    ("memory bombs", "memory-bomb"),
];

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime can be built");
    let server = Bulkhead::start_in(target().join("bench-containment"));
    let token = configure(&server);
    let neighbour = Neighbour {
        address: server.url().trim_start_matches("http://").parse().expect("an address"),
        token,
    };
    runtime.block_on(neighbour.call_durations(&|began| began.elapsed() < QUIET));
    println!(
        "another mount during {ATTACKERS} calls at a time     quiet p50      p99   beside \
         p50      p99   p99 ratio"
    );
    let mut overruns = Vec::new();
    let results: Vec<Value> = ATTACKS
        .map(|(name, act)| {
            let rounds: Vec<Round> =
                (0..ROUNDS).map(|_| round(&runtime, &neighbour, act)).collect();
            if act == "endless-loop" {
                overruns = rounds
                    .iter()
                    .flat_map(|round| &round.attacks)
                    .map(|took| took.saturating_sub(DEADLINE))
                    .collect();
            }
            report(name, rounds)
        })
        .into();
    let [p50, most] = [0.5, 1.0].map(|share| quantile(&mut overruns, share));
    let verdict = if most <= OVERRUN_GOAL { "held" } else { "MISSED" };
    println!(
        "{} endless loops ended after their deadline by: p50 {p50:?}, at most {most:?} (20 ms): \
         {verdict}",
        overruns.len()
    );
    let overrun = json!({
        "loops": overruns.len(), "deadline_overrun_p50_us": micros(p50),
        "deadline_overrun_us": micros(most),
        "goal_us": micros(OVERRUN_GOAL),
    });
    figures::save(
        "containment",
        json!({ "overrun": overrun, "beside": results, "ratio_goal": RATIO_GOAL }),
    );
}

/// Mounts the guest at `hostile/`, and returns a token that may read a role of `database/`.
fn configure(server: &Bulkhead) -> String {
    let root = server.root();
    root.upload("sys/plugins/catalog/secret/hostile", &guest("hostile")).expect(204);
    root.write("sys/mounts/hostile", &json!({ "type": "hostile" })).expect(204);
    let role = json!({ "db_name": "orders", "creation_statements": ["CREATE ROLE \"{{name}}\""] });
    assert!(root.write("database/roles/reader", &role).status < 300);
    let rules = r#"path "database/roles/*" { capabilities = ["read"] }"#;
    root.write("sys/policies/acl/reader", &json!({ "policy": rules })).expect(204);
    let answer = root
        .write("auth/token/create", &json!({ "policies": ["reader"], "ttl": "1h" }))
        .expect(200);
    answer.body["auth"]["client_token"].as_str().expect("a token").to_owned()
}

/// A client of another mount.
struct Neighbour {
    address: SocketAddr,
    token: String,
}

impl Neighbour {
    /// Returns the durations of sequential calls. `more` decides by start time if another call
    /// follows.
    async fn call_durations(&self, more: &dyn Fn(Instant) -> bool) -> Vec<Duration> {
        let mut connection = Connection::open(self.address).await;
        let request = load::get("database/roles/reader", &self.token);
        let (mut times, began) = (Vec::new(), Instant::now());
        while more(began) {
            let start = Instant::now();
            connection.exchange(&request).await;
            times.push(start.elapsed());
        }
        times
    }
}

struct Round {
    quiet: Vec<Duration>,
    beside: Vec<Duration>,
    /// Durations of the guest's calls.
    attacks: Vec<Duration>,
}

fn round(runtime: &tokio::runtime::Runtime, neighbour: &Neighbour, act: &str) -> Round {
    let quiet = runtime.block_on(neighbour.call_durations(&|began| began.elapsed() < QUIET));
    let (attacks, is_over) = (Mutex::new(Vec::new()), AtomicBool::new(false));
    let beside = thread::scope(|scope| {
        let _busy = (act == PROCESS).then(Busy::start);
        for _ in 0..if act == PROCESS { 0 } else { ATTACKERS } {
            scope.spawn(|| attack(neighbour.address, act, &is_over, &attacks));
        }
        let beside = runtime.block_on(neighbour.call_durations(&|began| began.elapsed() < ATTACK));
        is_over.store(true, Ordering::Relaxed);
        beside
    });
    Round { quiet, beside, attacks: attacks.into_inner().expect("no attacker panicked") }
}

/// A process that computes until dropped.
struct Busy(Child);

impl Busy {
    fn start() -> Self {
        Self(
            Command::new("sh")
                .args(["-c", "while :; do :; done"])
                .spawn()
                .expect("a shell can be started"),
        )
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.kill().expect("a process of ours can be ended");
        self.0.wait().expect("it ends");
    }
}

/// Repeats the act. An answered call in between prevents the host from suspending the mount.
fn attack(address: SocketAddr, act: &str, is_over: &AtomicBool, attacks: &Mutex<Vec<Duration>>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime can be built");
    let [act, acts] = [act, "acts"].map(|path| load::get(&format!("hostile/{path}"), ROOT));
    runtime.block_on(async {
        let mut connection = Connection::open(address).await;
        while !is_over.load(Ordering::Relaxed) {
            let began = Instant::now();
            let answer = connection.attempt(&act).await;
            let took = began.elapsed();
            assert!(
                ["HTTP/1.1 500", "HTTP/1.1 502"].iter().any(|status| answer.starts_with(status)),
                "{answer}"
            );
            attacks.lock().expect("no attacker panicked").push(took);
            connection.exchange(&acts).await;
        }
    });
}

fn report(name: &str, rounds: Vec<Round>) -> Value {
    let mut ratios = Vec::new();
    let (mut quiet, mut beside) = (Vec::new(), Vec::new());
    for mut round in rounds {
        let [before, during] =
            [&mut round.quiet, &mut round.beside].map(|times| quantile(times, 0.99).as_secs_f64());
        ratios.push(during / before);
        quiet.extend(round.quiet);
        beside.extend(round.beside);
    }
    let ratio = quantile(&mut ratios, 0.5);
    let [quiet, beside] = [quiet, beside]
        .map(|mut times| [0.5, 0.99].map(|share| micros(quantile(&mut times, share))));
    let verdict = if ratio <= RATIO_GOAL { "held" } else { "MISSED" };
    println!(
        "  {name:40} {:>9} {:>8} {:>12} {:>8} {ratio:>11.2} (2): {verdict}",
        quiet[0], quiet[1], beside[0], beside[1]
    );
    json!({
        "attack": name, "p99_ratio": ratio, "quiet": { "p50_us": quiet[0], "p99_us": quiet[1] },
        "beside": { "p50_us": beside[0], "p99_us": beside[1] },
    })
}

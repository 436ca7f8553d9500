//! Starts of a server with a static seal.
//!
//! First, the server is stopped by SIGTERM and started again under a steady load, with a listening
//! socket that this program keeps and hands over, as a service manager does. Then the process is
//! killed and started, without and with many leases: the time counts from the start of the process
//! to the first answered read, of a client that has sent its request before. Before each kill, the
//! server writes, so that the start recovers the log of the database. `BENCH_LEASES` sets another
//! number of leases.

mod figures;
mod first_answer;
mod load;
mod steady;

use bulkhead_tests::Bulkhead;
use bulkhead_tests::paths::{Folder, binary, target};
use bulkhead_tests::static_seal;
use figures::{micros, quantile};
use load::Connection;
use serde_json::{Value, json};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use steady::{ConnectionUse, SteadyLoad};
use tokio::runtime::Runtime;

/// Requests per second of all clients, and number of clients.
const RATE: u32 = 1_000;
const CLIENTS: u32 = 64;
/// Number of stops and starts under the load, and the pause around each.
const RESTARTS: usize = 5;
const PAUSE: Duration = Duration::from_millis(1_500);
/// Maximum time of an answer across a restart.
const ANSWER_GOAL: Duration = Duration::from_secs(1);

/// Number of leases of the second store. Each is a token, which is its own lease.
const LEASES: u32 = 200_000;
const STARTS: usize = 7;
/// Number of tokens created before each kill.
const WRITES: u32 = 500;
/// Maximum time from the start of the process to the first answered read.
const START_GOAL: Duration = Duration::from_millis(300);

const SECRET: &str = "kv/orders";

/// A server that opens by a static seal, with a secret and a socket of this program.
struct SelfOpeningServer {
    server: Bulkhead,
    address: SocketAddr,
    token: String,
    _socket: TcpListener,
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime can be built");
    let mut sealed = SelfOpeningServer::start();
    println!("a server under {RATE} requests/s of {CLIENTS} clients, stopped and started");
    let loads: Vec<Value> = [
        (ConnectionUse::Kept, "kept connections"),
        (ConnectionUse::Fresh, "a connection for each request"),
    ]
    .map(|(connections, name)| sealed.restart_under_load(&runtime, connections, name))
    .into();
    println!("killed and started, from exec to the first answered read");
    let (empty, mut empty_row) = sealed.kill_and_start(&runtime, "an empty store");
    let leases =
        std::env::var("BENCH_LEASES").map_or(LEASES, |text| text.parse().expect("a number"));
    let took = runtime.block_on(sealed.create_tokens(leases));
    println!("  {leases} leases created in {:.0} s", took.as_secs_f64());
    let (filled, filled_row) = sealed.kill_and_start(&runtime, &format!("{leases} leases"));
    let ratio = filled.as_secs_f64() / empty.as_secs_f64();
    println!("  a start with the leases takes {ratio:.2} times as long as without");
    empty_row["leases"] = filled_row;
    figures::save(
        "restarts",
        json!({ "under_load": loads, "first_read": empty_row, "leases_times": ratio }),
    );
}

impl SelfOpeningServer {
    fn start() -> Self {
        let data = Folder::at(target().join("bench-restarts"));
        let file = data.path().join("bulkhead.hcl");
        let text = format!(
            "listener \"tcp\" {{ address = \"127.0.0.1:0\" }}\n\
             storage \"sqlite\" {{ path = {path:?} }}\n\
             audit \"file\" \"main\" {{ path = {log:?} }}\n{seal}",
            path = data.path(),
            log = data.path().join("audit.log"),
            seal = static_seal::block(data.path(), &["key"]),
        );
        std::fs::write(&file, text).expect("a file can be written");
        let socket = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = socket.local_addr().expect("a bound socket");
        let mut server = Bulkhead::prepared(binary(), data).configured(file).activated_by(&socket);
        server.start_again();
        let body = json!({ "recovery_shares": 1, "recovery_threshold": 1 });
        let answer = server.client(None).write("sys/init", &body).expect(200);
        let token = answer.body["root_token"].as_str().expect("a token").to_owned();
        let root = server.client(Some(&token));
        root.write("sys/mounts/kv", &json!({ "type": "kv" })).expect(204);
        root.write(SECRET, &json!({ "password": "correct horse" })).expect(204);
        root.read(SECRET).expect(200);
        Self { server, address, token, _socket: socket }
    }

    /// Stops and starts the server under the load, and prints a row beside the same load without a
    /// restart.
    fn restart_under_load(
        &mut self,
        runtime: &Runtime,
        connections: ConnectionUse,
        name: &str,
    ) -> Value {
        let load = SteadyLoad {
            address: self.address,
            request: load::get(SECRET, &self.token),
            clients: CLIENTS,
            per_second: RATE,
            connections,
        };
        runtime.block_on(load.during(wait(PAUSE)));
        let (mut quiet, ()) = runtime.block_on(load.during(wait(2 * PAUSE)));
        let restarts = async {
            tokio::time::sleep(PAUSE).await;
            let mut times = Vec::new();
            for _ in 0..RESTARTS {
                times.push(tokio::task::block_in_place(|| self.restart()));
                tokio::time::sleep(PAUSE).await;
            }
            times
        };
        let (mut restarted, times) = runtime.block_on(load.during(restarts));
        let quiet_row = quiet.report(&format!("{name}, no restart"));
        let mut row = restarted.report(&format!("{name}, {RESTARTS} restarts"));
        let (mut stops, mut starts): (Vec<_>, Vec<_>) = times.into_iter().unzip();
        let is_held = restarted.failures.is_empty() && restarted.longest() <= ANSWER_GOAL;
        println!(
            "    {} repeated on a new connection; a stop took {:?}, a start {:?}; goal 0 failed, \
             longest {ANSWER_GOAL:?}: {}",
            restarted.repeated,
            quantile(&mut stops, 0.5),
            quantile(&mut starts, 0.5),
            verdict(is_held)
        );
        row["held"] = is_held.into();
        json!({ "connections": name, "quiet": quiet_row, "restarted": row })
    }

    /// Returns the time from SIGTERM to the end of the process, and from its start until the server
    /// says that it listens.
    fn restart(&mut self) -> (Duration, Duration) {
        let began = Instant::now();
        assert!(self.server.stop(), "{}", self.server.printed());
        let stopped = began.elapsed();
        self.server.start_again();
        (stopped, began.elapsed() - stopped)
    }

    /// Kills and starts the server several times. Returns the median time to the first answered
    /// read.
    fn kill_and_start(&mut self, runtime: &Runtime, name: &str) -> (Duration, Value) {
        let mut times = Vec::new();
        for _ in 0..STARTS {
            runtime.block_on(self.create_tokens(WRITES));
            let request = load::get(SECRET, &self.token);
            times.push(first_answer::after_kill(&mut self.server, self.address, &request));
        }
        let [median, longest] = [0.5, 1.0].map(|share| quantile(&mut times, share));
        let is_held = longest <= START_GOAL;
        println!(
            "  {name:16} median {median:?}, longest {longest:?} of {STARTS} starts \
             (goal {START_GOAL:?}): {}",
            verdict(is_held)
        );
        let row = json!({
            "median_us": micros(median), "longest_us": micros(longest), "held": is_held,
        });
        (median, row)
    }

    /// Creates tokens by all clients together, and returns the time taken.
    async fn create_tokens(&self, count: u32) -> Duration {
        let body = r#"{"policies":["default"],"ttl":"24h"}"#;
        let request = Arc::new(load::post("auth/token/create", &self.token, body));
        let (next, began) = (Arc::new(AtomicU32::new(0)), Instant::now());
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                let (request, next, address) =
                    (Arc::clone(&request), Arc::clone(&next), self.address);
                tokio::spawn(async move {
                    let mut connection = Connection::open(address).await;
                    while next.fetch_add(1, Ordering::Relaxed) < count {
                        connection.exchange(&request).await;
                    }
                })
            })
            .collect();
        for client in clients {
            client.await.expect("no client failed");
        }
        began.elapsed()
    }
}

fn verdict(is_held: bool) -> &'static str {
    if is_held { "held" } else { "MISSED" }
}

/// Waits. A timer needs the runtime in which its future runs.
async fn wait(time: Duration) {
    tokio::time::sleep(time).await;
}

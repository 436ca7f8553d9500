//! The cost of a million leases at the start: the time until the first authenticated answer, and
//! the resident memory at that time. Due leases are found by index, so neither figure may grow with
//! the number of leases.
//!
//! The leases are written through the store, because a million real credentials would take hours;
//! their bodies have the size that real ones have. The server is the release binary, in dev mode,
//! on that directory.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a benchmark stops by panicking and reports by printing"
)]

#[path = "../../benches/figures.rs"]
mod figures;

use bulkhead_store::{Address, DataDirectory, IndexColumns, Space, Store, StoreOptions, dev_key};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const LEASES: u32 = 1_000_000;
const LEASES_A_UNIT: u32 = 2_000;
const STARTS: usize = 5;
const DAY: u64 = 24 * 60 * 60 * 1_000;
/// Bytes of a lease of the database engine, without the id.
const BODY_BYTES: usize = 520;
const TOKEN: &str = "bhs.the-root-token-of-the-benchmark";

const START_GOAL: Duration = Duration::from_secs(1);
const MEMORY_GOAL_MB: f64 = 100.0;

fn main() {
    let target = figures::target();
    let directory = target.join(format!("bench-leases-{}", std::process::id()));
    start(&directory).stop();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(fill(&directory));
    drop(runtime);
    let mut starts: Vec<(Duration, f64)> = (0..STARTS)
        .map(|_| {
            let server = start(&directory);
            let measured = (server.answered, server.resident_mb());
            server.stop();
            measured
        })
        .collect();
    std::fs::remove_dir_all(&directory).unwrap();
    starts.sort_by_key(|(answered, _)| *answered);
    let time = starts[STARTS / 2].0;
    let memory = starts.iter().map(|(_, memory)| *memory).fold(0.0, f64::max);
    let word = |met: bool| if met { "met" } else { "MISSED" };
    println!(
        "{LEASES} leases: first answer {:.0} ms after the start (goal 1000): {}; \
         resident {memory:.0} MB (goal 100): {}",
        time.as_secs_f64() * 1e3,
        word(time <= START_GOAL),
        word(memory <= MEMORY_GOAL_MB),
    );
    let figures =
        serde_json::json!({ "first_answer_ms": time.as_secs_f64() * 1e3, "resident_mb": memory });
    figures::write("many_leases", figures);
}

/// Writes the leases, due over the next month, of a hundred tokens, in ten lanes.
async fn fill(directory: &Path) {
    let data = DataDirectory::hold(StoreOptions::at(directory)).await.unwrap();
    let store = data.open(dev_key(&data).unwrap()).await.unwrap();
    let mount = "00000000-0000-4000-8000-000000000000";
    for first in (0..LEASES).step_by(LEASES_A_UNIT as usize) {
        let mut unit = store.begin();
        for number in first..first + LEASES_A_UNIT {
            let id = store.keyed_hash("lease", &number.to_be_bytes());
            let due = store.now() + DAY + u64::from(number) * (29 * DAY / u64::from(LEASES));
            let index = IndexColumns {
                due: Some(due),
                lane: format!("{mount}/connection-{}", number % 10),
                owner: store.keyed_hash("token", &(number % 100).to_be_bytes()),
            };
            let key = format!("{mount}/creds/readonly/{id}");
            unit.put(Address::new(Space::Lease, key), vec![b'x'; BODY_BYTES], index);
        }
        unit.commit().await.unwrap();
    }
    Store::close(&store).await;
}

struct Server {
    process: Child,
    answered: Duration,
}

/// Starts the server, and asks it an authenticated question as soon as it listens.
fn start(directory: &Path) -> Server {
    let began = Instant::now();
    // `target/dist/deps/many_leases-…` → `target/dist/bulkhead`
    let this = std::env::current_exe().unwrap();
    let binary = this.ancestors().nth(2).unwrap().join("bulkhead");
    let mut process = Command::new(binary)
        .args([
            "server",
            "--dev",
            "--dev-root-token-id",
            TOKEN,
            "--dev-listen-address",
            "127.0.0.1:0",
            "--data-dir",
        ])
        .arg(directory)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("run `make build` first");
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let address = loop {
        let line = lines.next().expect("the server ended").unwrap();
        if let Some(address) = line.strip_prefix("listening on http://") {
            break address.to_owned();
        }
    };
    let answer = ask(&address);
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let answered = began.elapsed();
    // The server must not be stopped by a pipe that is not read.
    std::thread::spawn(move || lines.for_each(drop));
    Server { process, answered }
}

fn ask(address: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "GET /v1/sys/mounts HTTP/1.1\r\nhost: x\r\nx-vault-token: {TOKEN}\r\n\
         connection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

impl Server {
    fn resident_mb(&self) -> f64 {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        let kilobytes: f64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        kilobytes / 1e3
    }

    fn stop(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

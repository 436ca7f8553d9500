//! A snapshot of a million records under a steady load of reads, beside the load alone and beside
//! two copies by SQLite of the same file: `.backup` and `VACUUM INTO`.
//!
//! The copies are taken in turns under the same load, and flushed to the disk before the clock
//! stops. The load shares the cores with server and copies. Then the last snapshot is checked with
//! the key, compared with the database record by record, restored into another directory, and
//! compared with the restored database.
//!
//! The records are written by 64 clients in a few minutes; `BENCH_RECORDS` sets another number.

mod figures;
mod load;
mod rows;
mod steady;

use bulkhead_tests::Bulkhead;
use bulkhead_tests::bulkhead::ROOT;
use bulkhead_tests::paths::{Folder, target};
use figures::{micros, quantile};
use load::Connection;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use steady::{ConnectionUse, SteadyLoad, SteadyOutcome};
use tokio::runtime::Runtime;

const RECORDS: u32 = 1_000_000;
const WRITERS: u32 = 64;

/// Reads per second of all clients, and number of clients.
const RATE: u32 = 1_000;
const CLIENTS: u32 = 16;
/// Time of the load without a copy.
const QUIET: Duration = Duration::from_secs(8);
const ROUNDS: usize = 3;
/// Maximum ratio of the 99th percentile during a snapshot and without.
const GOAL: f64 = 2.0;

/// A way to copy the data of a running server.
#[derive(Clone, Copy)]
enum CopyKind {
    Snapshot,
    Backup,
    Vacuum,
}

/// The copies in the order of the report.
const COPIES: [(CopyKind, &str); 3] = [
    (CopyKind::Snapshot, "snapshot"),
    (CopyKind::Backup, "sqlite3 .backup"),
    (CopyKind::Vacuum, "sqlite3 VACUUM INTO"),
];

/// The measurements of a copy in all rounds.
#[derive(Default)]
struct CopyFigures {
    outcome: SteadyOutcome,
    /// Ratio of the 99th percentiles with and without the copy, of each round.
    ratios: Vec<f64>,
    times: Vec<Duration>,
    bytes: u64,
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime can be built");
    let records =
        std::env::var("BENCH_RECORDS").map_or(RECORDS, |text| text.parse().expect("a number"));
    let mut server = Bulkhead::start_in(target().join("bench-snapshots"));
    let copies = Folder::at(target().join("bench-snapshots-copies"));
    server.root().write("sys/mounts/kv", &json!({ "type": "kv" })).expect(204);
    let filled = runtime.block_on(fill(&server, records));
    println!("{records} records written by {WRITERS} clients in {:.0} s", filled.as_secs_f64());
    let load = SteadyLoad {
        address: server.address(),
        request: load::get("kv/record-7", ROOT),
        clients: CLIENTS,
        per_second: RATE,
        connections: ConnectionUse::Kept,
    };
    runtime.block_on(load.during(wait(QUIET / 4)));
    let (mut quiet, mut figures) =
        (SteadyOutcome::default(), COPIES.map(|_| CopyFigures::default()));
    for _ in 0..ROUNDS {
        let (mut alone, ()) = runtime.block_on(load.during(wait(QUIET)));
        for ((kind, name), figures) in COPIES.iter().zip(&mut figures) {
            let file = copies.path().join(name.replace(' ', "-"));
            figures.measure(&runtime, &load, alone.p99(), || kind.copy(&server, &file));
            figures.bytes = std::fs::metadata(&file).expect("the copy is there").len();
        }
        quiet.add(alone);
    }
    let mut result = report(&mut quiet, &mut figures);
    let key = server.data().join("dev-seal.key");
    let snapshot = copies.path().join(COPIES[0].1);
    result["check"] = check(&server, &key, &snapshot);
    assert!(server.stop(), "{}", server.printed());
    let compared = runtime.block_on(rows::compare(&snapshot, server.data()));
    println!(
        "  compared with the database: {} records equal, {} different",
        compared.equal, compared.different
    );
    result["equal"] = compared.equal.into();
    result["different"] = compared.different.into();
    result["restore"] = restore(&runtime, &server, &snapshot);
    figures::save("snapshots", result);
}

/// Writes the records, and returns the time taken.
async fn fill(server: &Bulkhead, records: u32) -> Duration {
    let (next, began) = (Arc::new(AtomicU32::new(0)), Instant::now());
    let writers: Vec<_> = (0..WRITERS)
        .map(|_| {
            let (next, address) = (Arc::clone(&next), server.address());
            tokio::spawn(async move {
                let mut connection = Connection::open(address).await;
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= records {
                        return;
                    }
                    let body = json!({ "user": "orders", "password": format!("{number:0100}") });
                    let path = format!("kv/record-{number}");
                    connection.exchange(&load::post(&path, ROOT, &body.to_string())).await;
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.expect("no writer failed");
    }
    began.elapsed()
}

impl CopyKind {
    /// Makes the copy in place of an earlier copy.
    fn copy(self, server: &Bulkhead, file: &Path) {
        // VACUUM INTO does not replace a file.
        drop(std::fs::remove_file(file));
        let database = server.data().join("bulkhead.db");
        let sqlite = |statement: String| {
            let mut command = Command::new("sqlite3");
            command.arg(&database).arg(statement);
            command
        };
        let mut command = match self {
            Self::Snapshot => {
                let mut command = Command::new("curl");
                let url = format!("{}/v1/sys/storage/snapshot", server.url());
                let header = format!("X-Vault-Token: {ROOT}");
                command.args(["-sSf", "-H", &header, &url, "-o"]).arg(file);
                command
            }
            Self::Backup => sqlite(format!(".backup '{}'", file.display())),
            Self::Vacuum => sqlite(format!("VACUUM INTO '{}'", file.display())),
        };
        let status = command.status().expect("install curl and sqlite3");
        assert!(status.success(), "{command:?} failed");
        let copy = std::fs::File::open(file).expect("the copy is there");
        copy.sync_all().expect("the copy can be flushed");
    }
}

impl CopyFigures {
    /// Makes the copy under the load.
    fn measure(
        &mut self,
        runtime: &Runtime,
        load: &SteadyLoad,
        alone: Duration,
        copy: impl FnOnce(),
    ) {
        let timed = async {
            let began = Instant::now();
            tokio::task::block_in_place(copy);
            began.elapsed()
        };
        let (mut outcome, took) = runtime.block_on(load.during(timed));
        self.ratios.push(outcome.p99().as_secs_f64() / alone.as_secs_f64());
        self.times.push(took);
        self.outcome.add(outcome);
    }
}

fn report(quiet: &mut SteadyOutcome, figures: &mut [CopyFigures]) -> Value {
    println!("{RATE} reads/s of {CLIENTS} clients, {ROUNDS} rounds in turns");
    let mut result = json!({ "alone": quiet.report("no copy") });
    let of_snapshot = quantile(&mut figures[0].times, 0.5);
    for ((_, name), figures) in COPIES.iter().zip(figures) {
        let mut row = figures.outcome.report(name);
        let (ratio, took) = (quantile(&mut figures.ratios, 0.5), quantile(&mut figures.times, 0.5));
        let share = of_snapshot.as_secs_f64() / took.as_secs_f64();
        println!(
            "    p99 {ratio:.2} times as long as without a copy; took {took:?}, {} MiB; the \
             snapshot took {share:.2} of the time",
            figures.bytes >> 20
        );
        row["p99_times"] = ratio.into();
        row["took_us"] = micros(took).into();
        row["bytes"] = figures.bytes.into();
        result[*name] = row;
    }
    let ratio = &result["snapshot"]["p99_times"];
    let is_held = ratio.as_f64().is_some_and(|ratio| ratio <= GOAL);
    println!(
        "  p99 during a snapshot (goal {GOAL} times): {}",
        if is_held { "held" } else { "MISSED" }
    );
    result["held"] = is_held.into();
    result
}

/// Opens every record of the snapshot with `bulkhead operator check`.
fn check(server: &Bulkhead, key: &Path, snapshot: &Path) -> Value {
    let began = Instant::now();
    let (key, file) = (key.display().to_string(), snapshot.display().to_string());
    let words = ["operator", "check", "-format=json", "-key-file", &key, &file];
    let output = server.command(&words).output().expect("the command can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("-format=json prints JSON");
    println!("  operator check: {} opened in {:?}", report["opened"], began.elapsed());
    report
}

/// Restores the snapshot into an empty directory, and compares every restored record with the
/// snapshot.
fn restore(runtime: &Runtime, server: &Bulkhead, snapshot: &Path) -> Value {
    let data = Folder::at(target().join("bench-snapshots-restored"));
    let (option, file) =
        (format!("-data={}", data.path().display()), snapshot.display().to_string());
    let began = Instant::now();
    let words = ["operator", "snapshot", "restore", &option, &file];
    let output = server.command(&words).output().expect("the command can be started");
    let took = began.elapsed();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let compared = runtime.block_on(rows::compare(snapshot, data.path()));
    println!(
        "  operator snapshot restore: {took:?}; compared with the snapshot: {} records equal, {} \
         different",
        compared.equal, compared.different
    );
    json!({
        "took_us": micros(took), "equal": compared.equal, "different": compared.different,
    })
}

/// Waits. A timer needs the runtime in which its future runs.
async fn wait(time: Duration) {
    tokio::time::sleep(time).await;
}

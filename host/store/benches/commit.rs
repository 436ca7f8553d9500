//! The cost of a commit, in addition to the flush.
//!
//! Four figures, the first three measured in turns because the machine is shared: 64 clients that
//! write 600-byte records, flushed and not flushed; how many of their commits share a flush; one
//! client alone against a bare `fdatasync`; and how long a commit that checks and writes all that
//! one may keeps the next one waiting. Each client looks whether the record exists before it writes
//! it, as every request does, and keys are as scattered as those of leases and tokens. Results go
//! to the terminal and, as JSON, to `target/bench.json`.
//!
//! `BULKHEAD_BENCH_POSTGRES=postgresql://…` measures PostgreSQL in place of SQLite. The database
//! has two empty schemas, `flushed` and `unflushed`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    reason = "a benchmark stops by panicking and reports by printing"
)]

#[path = "../../benches/figures.rs"]
mod figures;

use bulkhead_store::{
    Address, DatabaseChoice, FlushPolicy, IndexColumns, PostgresPlace, SealKey, Space, Store,
    StoreOptions,
};
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

const CLIENTS: usize = 64;
/// Commits of each client in a round.
const EACH: usize = 100;
const ROUNDS: usize = 7;
const RECORD: usize = 600;
/// Commits of the client that is alone, each beside a bare flush.
const ALONE: usize = 300;
/// Number of listed keys that the largest commit checks.
const LISTED: usize = 24_000;
/// Number of records that the largest commit writes: 3 MiB together.
const WRITTEN: usize = 2_048;
const WRITTEN_BYTES: usize = 1_400;
/// Commits of that size.
const LARGEST: usize = 15;

/// The figures, and what each is to be.
struct Figures {
    /// Commits a second when flushed and when not.
    flushed: f64,
    unflushed: f64,
    /// Units of work that share a flush.
    a_flush: f64,
    /// Median of a bare flush of 4 KiB, and of a commit of one client alone.
    bare: Duration,
    alone: Duration,
    /// `true` if that client got exactly one flush for each write.
    one_each: bool,
    /// Median of a commit that is as large as one may be, not flushed.
    largest: Duration,
}

fn main() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let target = figures::target();
    let directory = target.join(format!("bench-commit-{}", std::process::id()));
    let figures = runtime.block_on(measure(&directory));
    fs::remove_dir_all(directory).unwrap();
    report(&figures);
    figures::write("commit", json(&figures));
}

async fn measure(directory: &Path) -> Figures {
    let flushed = open(directory.join("flushed"), FlushPolicy::EveryCommit).await;
    let unflushed = open(directory.join("unflushed"), FlushPolicy::Never).await;
    let mut rates = [Vec::new(), Vec::new()];
    let (mut commits, mut flushes) = (0, 0);
    for round in 0..=ROUNDS {
        let before = (flushed.commits(), flushed.flushes());
        let with = many(&flushed, round).await;
        let without = many(&unflushed, round).await;
        // The first round warms up.
        if round > 0 {
            commits += flushed.commits() - before.0;
            flushes += flushed.flushes() - before.1;
            rates[0].push(with);
            rates[1].push(without);
        }
    }
    let (alone, bare, one_each) = alone(&flushed, directory).await;
    let largest = largest(&unflushed).await;
    flushed.close().await;
    unflushed.close().await;
    Figures {
        flushed: median(&mut rates[0]),
        unflushed: median(&mut rates[1]),
        a_flush: commits as f64 / flushes as f64,
        bare,
        alone,
        one_each,
        largest,
    }
}

/// Returns SQLite, or the schema of the server with the name of the directory.
fn database(directory: &Path) -> DatabaseChoice {
    let Ok(connection_url) = std::env::var("BULKHEAD_BENCH_POSTGRES") else {
        return DatabaseChoice::SqliteFile;
    };
    let schema = directory.file_name().unwrap().to_str().unwrap().to_owned();
    let place = PostgresPlace::from_url(&connection_url).expect("a connection URL");
    DatabaseChoice::Postgres(Box::new(PostgresPlace { schema, ..place }))
}

async fn open(directory: PathBuf, flushing: FlushPolicy) -> Arc<Store> {
    Store::open(
        StoreOptions { flushing, database: database(&directory), ..StoreOptions::at(directory) },
        SealKey::generate().unwrap(),
    )
    .await
    .unwrap()
}

/// Commits a second of all clients together, each a new record.
async fn many(store: &Arc<Store>, round: usize) -> f64 {
    let began = Instant::now();
    let clients = (0..CLIENTS).map(|client| {
        let store = Arc::clone(store);
        tokio::spawn(async move {
            for number in 0..EACH {
                commit(&store, &format!("{client}/{round}/{number}")).await;
            }
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.unwrap();
    }
    (CLIENTS * EACH) as f64 / began.elapsed().as_secs_f64()
}

async fn commit(store: &Arc<Store>, name: &str) {
    let address = Address::new(Space::Data, store.keyed_hash("bench", name.as_bytes()));
    let mut unit = store.begin();
    assert!(unit.get(&address).await.unwrap().is_none());
    unit.put(address, vec![b'x'; RECORD], IndexColumns::default());
    unit.commit().await.unwrap();
}

/// The median of one client's commits and that of as many bare flushes, in turns; and whether each
/// commit was one flush.
async fn alone(store: &Arc<Store>, directory: &Path) -> (Duration, Duration, bool) {
    let file = File::create(directory.join("bare")).unwrap();
    let (mut commits, mut bare) = (Vec::new(), Vec::new());
    let before = store.flushes();
    for number in 0..ALONE {
        let began = Instant::now();
        commit(store, &format!("alone/{number}")).await;
        commits.push(began.elapsed());
        let began = Instant::now();
        file.write_all_at(&[7; 4096], 4096 * number as u64).unwrap();
        file.sync_data().unwrap();
        bare.push(began.elapsed());
    }
    (median(&mut commits), median(&mut bare), store.flushes() - before == ALONE as u64)
}

/// The median of commits that check and write all that one may.
async fn largest(store: &Arc<Store>) -> Duration {
    let listed = |row: usize| Address::new(Space::Data, format!("listed/{row:05}"));
    for first in (0..LISTED).step_by(1_000) {
        let mut unit = store.begin();
        (first..first + 1_000)
            .for_each(|row| unit.put(listed(row), vec![], IndexColumns::default()));
        unit.commit().await.unwrap();
    }
    let mut times = Vec::new();
    for _ in 0..LARGEST {
        let mut unit = store.begin();
        let names = unit.names(Space::Data, "listed/", "", usize::MAX).await.unwrap();
        assert_eq!(names.len(), LISTED);
        for row in 0..WRITTEN {
            let address = Address::new(Space::Data, format!("written/{row:05}"));
            unit.put(address, vec![b'x'; WRITTEN_BYTES], IndexColumns::default());
        }
        let began = Instant::now();
        unit.commit().await.unwrap();
        times.push(began.elapsed());
    }
    median(&mut times)
}

fn median<T: PartialOrd + Copy>(values: &mut [T]) -> T {
    values.sort_by(|one, other| one.partial_cmp(other).unwrap());
    values[values.len() / 2]
}

fn report(figures: &Figures) {
    let said = |met: bool| if met { "met" } else { "missed" };
    let Figures { flushed, unflushed, a_flush, one_each, .. } = *figures;
    let (bare, alone) = (figures.bare.as_secs_f64() * 1e3, figures.alone.as_secs_f64() * 1e3);
    let share = flushed / unflushed * 100.0;
    println!("a bare flush of 4 KiB: p50 {bare:.2} ms");
    println!(
        "{CLIENTS} clients: {flushed:.0} commits/s flushed, {unflushed:.0} not: {share:.0} % \
         (target 70: {})",
        said(share >= 70.0)
    );
    let slow = figures.bare >= Duration::from_millis(1);
    println!(
        "{CLIENTS} clients: {a_flush:.1} commits a flush (target 16 where a flush takes 1 ms: {})",
        said(!slow || a_flush >= 16.0)
    );
    println!("one client: one flush a write (target: {})", said(one_each));
    println!("one client: p50 {alone:.2} ms, {:.2} times a bare flush", alone / bare);
    let largest = figures.largest.as_secs_f64() * 1e3;
    println!("the largest commit: {largest:.1} ms (target 50: {})", said(largest <= 50.0));
}

/// As the file of all figures keeps them.
fn json(figures: &Figures) -> serde_json::Value {
    serde_json::json!({
        "flushed_per_s": figures.flushed, "unflushed_per_s": figures.unflushed,
        "commits_a_flush": figures.a_flush, "one_flush_a_write": figures.one_each,
        "alone_p50_us": figures.alone.as_secs_f64() * 1e6,
        "largest_p50_us": figures.largest.as_secs_f64() * 1e6,
        "bare_flush_p50_us": figures.bare.as_secs_f64() * 1e6,
    })
}

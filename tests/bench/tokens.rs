//! Creation and revocation of tokens by 1, 16 and 64 concurrent clients.
//!
//! Each operation is a commit, so the disk decides. Bare flushes of the same disk are measured in
//! turns. The portable figure is the number of operations in the time of one flush.

mod disk;
mod figures;
mod load;

use bulkhead_tests::Bulkhead;
use bulkhead_tests::bulkhead::ROOT;
use bulkhead_tests::paths::{Folder, target};
use disk::Disk;
use figures::{micros, quantile};
use load::Connection;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

const CLIENTS: [usize; 3] = [1, 16, 64];
const ROUNDS: usize = 3;
const TIME: Duration = Duration::from_secs(3);
const FLUSHES: u32 = 100;

#[derive(Default)]
struct Times {
    creations: Vec<Duration>,
    revocations: Vec<Duration>,
    flushes: Vec<Duration>,
    per_second: Vec<f64>,
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime can be built");
    let folder = Folder::at(target().join("bench-tokens"));
    let bulkhead = Bulkhead::start_in(folder.path().join("bulkhead"));
    let address = bulkhead.url().trim_start_matches("http://").parse().expect("an address");
    let measured = runtime.block_on(async {
        let mut disk = Disk::open(&folder).await;
        round(address, 16, &mut Times::default()).await;
        let mut measured = CLIENTS.map(|clients| (clients, Times::default()));
        for _ in 0..ROUNDS {
            for (clients, times) in &mut measured {
                round(address, *clients, times).await;
                times.flushes.push(disk.flushes(FLUSHES).await / FLUSHES);
            }
        }
        measured
    });
    println!(
        "tokens, in microseconds      creation p50      p99   revocation \
         p50      p99   operations/s   a flush"
    );
    let results: Vec<Value> = measured.map(|(clients, times)| report(clients, times)).into();
    figures::save("tokens", json!(results));
}

/// Runs one round: each client repeatedly creates and revokes a token.
async fn round(address: SocketAddr, clients: usize, times: &mut Times) {
    let began = Instant::now();
    let running: Vec<_> = (0..clients).map(|_| tokio::spawn(client(address, began))).collect();
    let mut operations = 0_u32;
    for one in running {
        let (creations, revocations) = one.await.expect("no client failed");
        operations += u32::try_from(creations.len() + revocations.len()).expect("few");
        times.creations.extend(creations);
        times.revocations.extend(revocations);
    }
    times.per_second.push(f64::from(operations) / began.elapsed().as_secs_f64());
}

async fn client(address: SocketAddr, began: Instant) -> (Vec<Duration>, Vec<Duration>) {
    let mut connection = Connection::open(address).await;
    let create = load::post("auth/token/create", ROOT, r#"{"policies":["default"],"ttl":"1h"}"#);
    let (mut creations, mut revocations) = (Vec::new(), Vec::new());
    while began.elapsed() < TIME {
        let start = Instant::now();
        let answer = connection.exchange(&create).await;
        creations.push(start.elapsed());
        let token = between(answer, "\"client_token\":\"", "\"").to_owned();
        let revoke = load::post("auth/token/revoke", ROOT, &json!({ "token": token }).to_string());
        let start = Instant::now();
        connection.exchange(&revoke).await;
        revocations.push(start.elapsed());
    }
    (creations, revocations)
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> &'a str {
    let (_, rest) = text.split_once(before).unwrap_or_else(|| panic!("no {before} in {text}"));
    rest.split_once(after).unwrap_or_else(|| panic!("no {after} in {text}")).0
}

fn report(clients: usize, mut times: Times) -> Value {
    let of = |times: &mut Vec<Duration>| [0.5, 0.99].map(|share| micros(quantile(times, share)));
    let ([creation, creation_p99], [revoked, revoked_p99]) =
        (of(&mut times.creations), of(&mut times.revocations));
    let (rate, flush) = (quantile(&mut times.per_second, 0.5), quantile(&mut times.flushes, 0.5));
    let in_a_flush = rate * flush.as_secs_f64();
    let flush = micros(flush);
    println!(
        "  {clients:>2} clients                 {creation:>12} {creation_p99:>8} \
         {revoked:>16} {revoked_p99:>8} {rate:>14.0} {flush:>9}"
    );
    println!("             operations in the time of one bare flush: {in_a_flush:.2}");
    json!({
        "clients": clients, "operations_per_s": rate.round(), "flush_us": flush,
        "operations_a_flush": in_a_flush,
        "creation": { "p50_us": creation, "p99_us": creation_p99 },
        "revocation": { "p50_us": revoked, "p99_us": revoked_p99 },
    })
}

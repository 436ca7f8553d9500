//! The scrape of the metrics of many mounts, each of which was used.

use crate::figures::{micros, quantile};
use bulkhead_tests::bulkhead::ROOT;
use bulkhead_tests::{Bulkhead, Socket};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const SCRAPES: usize = 21;
/// Maximum time of a scrape.
const TIME_GOAL: Duration = Duration::from_millis(100);
/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// Maximum length of the text, in bytes.
const BYTES_GOAL: usize = 5_000_000;

/// Scrapes the server several times, and reports time and length.
pub fn report(server: &Bulkhead) -> Value {
    let request = format!(
        "GET /v1/sys/metrics?format=prometheus HTTP/1.1\r\nHost: {}\r\nX-Vault-Token: {ROOT}\r\n\
         Connection: close\r\n\r\n",
        server.address()
    );
    let (mut times, mut bytes) = (Vec::new(), 0);
    for _ in 0..SCRAPES {
        let mut socket = Socket::open(server);
        let began = Instant::now();
        socket.send(&request);
        let answer = socket.until_closed(PATIENCE).expect("an answer");
        times.push(began.elapsed());
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer:.200}");
        bytes = answer.len();
    }
    let [p50, longest] = [0.5, 1.0].map(|share| quantile(&mut times, share));
    let verdict = match p50 <= TIME_GOAL && bytes <= BYTES_GOAL {
        true => "held",
        false => "MISSED",
    };
    println!("a scrape of their metrics {p50:?} (100 ms), at most {longest:?}");
    println!("  {bytes} bytes ({BYTES_GOAL}): {verdict}");
    json!({ "p50_us": micros(p50), "longest_us": micros(longest), "bytes": bytes })
}

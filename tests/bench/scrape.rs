//! The scrape of the metrics of many mounts, each of which was used.

use crate::figures::{micros, quantile};
use bulkhead_tests::{Bulkhead, metrics};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const SCRAPES: usize = 21;
/// Maximum time of a scrape.
const TIME_GOAL: Duration = Duration::from_millis(100);
/// Maximum length of the text, in bytes.
const BYTES_GOAL: usize = 5_000_000;

/// Scrapes the server several times, and reports time and length.
pub fn report(server: &Bulkhead) -> Value {
    let (mut times, mut bytes) = (Vec::new(), 0);
    for _ in 0..SCRAPES {
        let began = Instant::now();
        let answer = metrics::scrape(server);
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

//! Quantiles, and the result file of all benchmarks.
#![allow(dead_code, reason = "each benchmark includes it and uses its part")]

use bulkhead_tests::paths::target;
use serde_json::{Value, json};
use std::time::Duration;

/// Returns the value below which `share` of the values lie. Sorts the values.
pub fn quantile<T: Copy + PartialOrd>(values: &mut [T], share: f64) -> T {
    values.sort_unstable_by(|one, other| one.partial_cmp(other).expect("figures compare"));
    let last = values.len() - 1;
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "few figures"
    )]
    let place = (last as f64 * share).round() as usize;
    values[place]
}

pub fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).expect("a round takes less than an age")
}

/// Adds the result of the benchmark `name` to `target/bench.json`, which all benchmarks share.
pub fn save(name: &str, result: Value) {
    let path = target().join("bench.json");
    let saved_results =
        std::fs::read_to_string(&path).ok().and_then(|text| serde_json::from_str(&text).ok());
    let mut all: Value = saved_results.unwrap_or_else(|| json!({}));
    all[name] = result;
    std::fs::write(&path, format!("{all:#}\n")).expect("target/bench.json can be written");
    println!("also in {}", path.display());
}

//! `sys/metrics` on the built server: a slow target is found by metrics alone, in the text format
//! of Prometheus.

use crate::world::World;
use bulkhead_tests::Bulkhead;
use bulkhead_tests::bulkhead::ROOT;
use bulkhead_tests::socket::Socket;
use serde_json::json;
use std::time::Duration;

/// Longest wait for the metrics.
const PATIENCE: Duration = Duration::from_secs(60);

/// Statements that take two seconds in the database.
const SLOW: &str = "SELECT pg_sleep(2); CREATE ROLE \"{{name}}\" LOGIN PASSWORD '{{password}}' \
    VALID UNTIL '{{expiration}}'";

pub(crate) fn exposed(server: &Bulkhead) -> String {
    let mut socket = Socket::open(server);
    socket.send(format!(
        "GET /v1/sys/metrics?format=prometheus HTTP/1.1\r\nHost: {}\r\nX-Vault-Token: {ROOT}\r\n\
         Connection: close\r\n\r\n",
        server.address()
    ));
    socket.until_closed(PATIENCE).expect("an answer")
}

/// Returns the value of the series `series`, with its labels; 0 for an absent series.
fn value(text: &str, series: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.map_or(0.0, |value| value.parse().expect(series))
}

#[test]
fn slow_database_is_found_by_metrics_alone() {
    let world = World::new();
    world.role("slow", json!({ "creation_statements": [SLOW] }));
    let before = exposed(&world.bulkhead);
    world.credential("slow");
    let after = exposed(&world.bulkhead);
    let grown = |series: &str| value(&after, series) - value(&before, series);
    let mount = "mount=\"database/\"";
    let calls = format!("{{{mount},interface=\"sql\",outcome=\"answered\"}}");
    assert!(grown(&format!("bulkhead_target_calls_total{calls}")) >= 1.0, "{after}");
    let sql = format!("bulkhead_target_call_seconds_total{{{mount},interface=\"sql\"}}");
    assert!(grown(&sql) >= 2.0, "{after}");
    assert!(grown(&format!("bulkhead_request_seconds_total{{{mount}}}")) >= 2.0, "{after}");
    let read = format!("{{{mount},operation=\"read\",outcome=\"served\"}}");
    assert_eq!(grown(&format!("bulkhead_requests_total{read}")), 1.0, "{after}");
    // The call stands in no bucket below two seconds: the distribution shows the delay, too.
    let bucket = |bound: &str| {
        let labels = format!("{{interface=\"sql\",le=\"{bound}\"}}");
        grown(&format!("bulkhead_target_call_duration_seconds_bucket{labels}"))
    };
    assert!(bucket("+Inf") > bucket("1"), "{after}");
}

#[test]
fn metrics_of_process_and_store_are_exposed() {
    let server = Bulkhead::start();
    let text = exposed(&server);
    for series in [
        "process_resident_memory_bytes{}",
        "process_open_fds{}",
        "process_cpu_seconds_total{}",
        "bulkhead_store_commits_total{}",
        "bulkhead_store_flush_duration_seconds_count{}",
        "bulkhead_store_rows_written_total{}",
        "bulkhead_store_cache_reads_total{outcome=\"hit\"}",
        "bulkhead_store_cache_bytes{}",
        "bulkhead_store_size_bytes{}",
        "bulkhead_store_disk_free_bytes{}",
    ] {
        assert!(value(&text, series) > 0.0, "{series}: {text}");
    }
    assert!(text.contains("bulkhead_build_info{version=\""), "{text}");
}

//! `sys/metrics` on the built server: a slow target is found by metrics alone, in the text format
//! of Prometheus.

use crate::world::{SLOW_CREATION, World};
use bulkhead_tests::Bulkhead;
use bulkhead_tests::bulkhead::ROOT;
use bulkhead_tests::metrics::value;
use bulkhead_tests::operators::Operators;
use bulkhead_tests::paths::{Folder, binary};
use bulkhead_tests::socket::Socket;
use bulkhead_tests::storage;
use bulkhead_tests::wait::until_true;
use serde_json::json;
use std::fs;
use std::time::Duration;

/// Longest wait for the metrics.
const PATIENCE: Duration = Duration::from_secs(60);

/// Header of a collector.
const ACCEPT: &str = "Accept: application/openmetrics-text;version=1.0.0;q=0.6,*/*;q=0.2\r\n";

pub(crate) fn exposed(server: &Bulkhead) -> String {
    asked(server, "GET", &format!("{ACCEPT}X-Vault-Token: {ROOT}\r\n"))
}

/// Returns the answer to a request for metrics with these headers.
fn asked(server: &Bulkhead, method: &str, headers: &str) -> String {
    let mut socket = Socket::open(server);
    socket.send(format!(
        "{method} /v1/sys/metrics HTTP/1.1\r\nHost: {}\r\n{headers}Connection: close\r\n\r\n",
        server.address()
    ));
    socket.until_closed(PATIENCE).expect("an answer")
}

/// Starts a server that is not initialised, and answers `sys/metrics` without a token.
pub(crate) fn with_open_metrics() -> Bulkhead {
    let data = Folder::new("open-metrics");
    let file = data.path().join("bulkhead.hcl");
    let text = format!(
        "listener \"tcp\" {{\n  address = \"127.0.0.1:0\"\n  \
         telemetry {{ unauthenticated_metrics_access = true }}\n}}\n\
         {storage}\n\
         audit \"file\" \"main\" {{ path = {log:?} }}\n",
        storage = storage::block(data.path()),
        log = data.path().join("audit.log"),
    );
    fs::write(&file, text).expect("a file can be written");
    let mut server = Bulkhead::prepared(binary(), data).configured(file);
    server.start_again();
    server
}

#[test]
fn slow_database_is_found_by_metrics_alone() {
    let world = World::new();
    world.role("slow", json!({ "creation_statements": [SLOW_CREATION] }));
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

#[test]
fn open_listener_shows_metrics_in_every_state() {
    let server = with_open_metrics();
    let scrape = || asked(&server, "GET", ACCEPT);
    let unsealed = |text: &str| value(text, "bulkhead_core_unsealed{}");
    let text = scrape();
    assert!(text.starts_with("HTTP/1.1 200 ") && text.contains("text/plain"), "{text}");
    assert_eq!(unsealed(&text), 0.0, "not initialised: {text}");
    assert!(text.contains("bulkhead_seal_info{type=\"shamir\"} 1\n"), "{text}");
    let operators = Operators::initialise(&server, 1, 1);
    operators.unseal(&server);
    let recorded = || fs::read_to_string(server.data().join("audit.log")).expect("a log");
    let before = recorded();
    let token = format!("{ACCEPT}X-Vault-Token: bhs.none-of-ours\r\n");
    let text = asked(&server, "GET", &token);
    assert_eq!(unsealed(&text), 1.0, "{text}");
    assert!(text.contains("bulkhead_audit_lines_total{device=\"main\"} "), "{text}");
    let head = asked(&server, "HEAD", ACCEPT);
    assert!(head.starts_with("HTTP/1.1 200 ") && head.ends_with("\r\n\r\n"), "{head}");
    assert!(asked(&server, "GET", "").contains("\"Gauges\":["), "JSON without the header");
    assert_eq!(recorded(), before, "a scrape without a token is not recorded");
    server.client(None).read("sys/mounts").expect(403);
    operators.root(&server).send("PUT", "sys/seal", b"").expect(204);
    assert_eq!(unsealed(&scrape()), 0.0);
}

#[test]
fn connections_and_log_lines_are_counted() {
    let server = Bulkhead::start();
    let listener = format!("listener=\"{}\"", server.address());
    let _idle = Socket::open(&server);
    let open = format!("bulkhead_connections_open{{{listener}}}");
    until_true("two open connections", PATIENCE, || value(&exposed(&server), &open) >= 2.0);
    let text = exposed(&server);
    let accepted = format!("bulkhead_connections_total{{{listener},outcome=\"accepted\"}}");
    assert!(value(&text, &accepted) >= 2.0, "{text}");
    assert!(value(&text, "bulkhead_log_lines_total{level=\"info\"}") >= 1.0, "{text}");
    let started = value(&text, "process_start_time_seconds{}");
    let file = fs::metadata(server.data()).expect("a data directory");
    let written = file.modified().expect("a time of the file");
    let written = written.duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    assert!((written.as_secs_f64() - started).abs() < 600.0, "{written:?} {started}");
}

#[test]
fn lease_and_token_lives_are_exposed() {
    let world = World::new();
    let before = exposed(&world.bulkhead);
    let lease = world.credential("reader").lease;
    world.revoke(&lease);
    let token = json!({ "policies": ["default"], "ttl": "1h" });
    world.root.write("auth/token/create", &token).expect(200);
    let after = exposed(&world.bulkhead);
    let grown = |series: &str| value(&after, series) - value(&before, series);
    let mount = "mount=\"database/\"";
    assert_eq!(grown(&format!("bulkhead_leases_created_total{{{mount}}}")), 1.0, "{after}");
    let ended = format!("bulkhead_leases_ended_total{{{mount},cause=\"revoked\"}}");
    assert_eq!(grown(&ended), 1.0, "{after}");
    assert_eq!(grown("bulkhead_tokens_created_total{type=\"service\"}"), 1.0, "{after}");
    assert_eq!(grown("bulkhead_tokens{type=\"service\"}"), 1.0, "{after}");
    for series in [
        "bulkhead_due_work_oldest_seconds{}",
        "bulkhead_component_calls_waiting{}",
        "bulkhead_lease_end_delay_seconds_bucket{le=\"86400\"}",
    ] {
        assert!(after.contains(series), "{series}: {after}");
    }
}

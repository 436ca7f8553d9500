//! The files of `packaging/` beside real programs: Prometheus scrapes the server and evaluates the
//! alerts, and `promtool` accepts rules and exposition.

use crate::metrics::{exposed, with_open_metrics};
use crate::world::World;
use bulkhead_tests::bulkhead::ROOT;
use bulkhead_tests::prometheus::{Prometheus, promtool};
use bulkhead_tests::wait::until_true;
use bulkhead_tests::{Bulkhead, Operators};
use serde_json::json;
use std::process::Output;
use std::time::Duration;

/// Longest wait for an evaluation of the rules.
const PATIENCE: Duration = Duration::from_secs(60);

#[track_caller]
fn assert_accepted(output: &Output) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (printed, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{printed}\n{errors}");
}

#[test]
fn prometheus_scrapes_server_and_loads_alerts() {
    let server = Bulkhead::start();
    let prometheus = Prometheus::scraping(&server.address().to_string(), ROOT);
    prometheus.await_value("up", 1.0);
    prometheus.await_value("bulkhead_core_unsealed", 1.0);
    let rules = || prometheus.data("rules")["groups"][0]["rules"].clone();
    until_true("all rules are evaluated without an error", PATIENCE, || {
        let rules = rules();
        let rules = rules.as_array().expect("a list of rules");
        rules.len() >= 19 && rules.iter().all(|rule| rule["health"] == "ok")
    });
    let firing = prometheus.value("ALERTS{alertstate=%22firing%22}");
    assert_eq!(firing, None, "a fresh server raises no alert: {}", rules());
}

#[test]
fn sealed_server_raises_its_alert() {
    let server = with_open_metrics();
    let operators = Operators::initialise(&server, 1, 1);
    operators.unseal(&server);
    let prometheus = Prometheus::scraping(&server.address().to_string(), "");
    prometheus.await_value("bulkhead_core_unsealed", 1.0);
    operators.root(&server).send("PUT", "sys/seal", b"").expect(204);
    prometheus.await_value("bulkhead_core_unsealed", 0.0);
    // The alert waits a minute before it fires.
    prometheus.await_value("ALERTS{alertname=%22BulkheadSealed%22,alertstate=%22pending%22}", 1.0);
}

#[test]
fn promtool_accepts_rules_and_their_cases() {
    assert_accepted(&promtool(&["check", "rules", "alerts.yaml"], ""));
    assert_accepted(&promtool(&["test", "rules", "alerts_test.yaml"], ""));
}

#[test]
fn promtool_accepts_exposition_of_used_server() {
    let world = World::new();
    world.role("short", json!({ "default_ttl": "1h" }));
    world.credential("short");
    assert_accepted(&promtool(&["check", "metrics"], &body(&exposed(&world.bulkhead))));
}

/// Returns the body of an answer.
fn body(answer: &str) -> String {
    answer.split_once("\r\n\r\n").expect("a head and a body").1.to_owned()
}

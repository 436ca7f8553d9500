//! `sys/metrics`: the age of passwords, and the results of rotations and check-outs.

use super::DirectoryStage;
use bulkhead_tests::bulkhead::ROOT;
use bulkhead_tests::socket::Socket;
use bulkhead_tests::wait::until_true;
use bulkhead_tests::{Bulkhead, DirectoryKind};
use serde_json::json;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(15);

/// The metrics in Prometheus format, with the response head.
fn exposed(server: &Bulkhead) -> String {
    let mut socket = Socket::open(server);
    socket.send(format!(
        "GET /v1/sys/metrics?format=prometheus HTTP/1.1\r\nHost: {}\r\nX-Vault-Token: {ROOT}\r\n\
         Connection: close\r\n\r\n",
        server.address()
    ));
    socket.until_closed(SOON).expect("an answer")
}

#[test]
fn metrics_show_password_age_without_account_names() {
    let stage = DirectoryStage::new(DirectoryKind::OpenLdap);
    stage.role("build", "svc1");
    stage.role("idle", "svc3");
    let password = stage.creds("build").text("current_password").to_owned();
    stage.set("team", &["svc2"], json!({}));
    stage.root.write("directory/library/team/check-out", &json!({})).expect(200);
    let none = stage.root.write("directory/library/team/check-out", &json!({}));
    none.refused(400, "no service account of the set is available");
    // A configuration change updates the metrics at once.
    stage.configure(json!({})).expect(204);
    let lines = [
        "content-type: text/plain; version=0.0.4",
        "# TYPE bulkhead_directory_passwords gauge",
        "bulkhead_directory_passwords{mount=\"directory/\",age=\"day\"} 2",
        "bulkhead_directory_passwords{mount=\"directory/\",age=\"never\"} 1",
        "# TYPE bulkhead_directory_oldest_password_timestamp_seconds gauge",
        "bulkhead_directory_check_outs_total{mount=\"directory/\",outcome=\"lent\"} 1",
        "bulkhead_directory_check_outs_total{mount=\"directory/\",outcome=\"none\"} 1",
        "bulkhead_directory_rotations_total{mount=\"directory/\",outcome=\"done\"} 2",
    ];
    until_true("the accounts were looked at", SOON, || {
        let shown = exposed(&stage.bulkhead);
        lines.iter().all(|line| shown.contains(line))
    });
    let shown = exposed(&stage.bulkhead);
    for name in ["svc1", "svc2", "svc3", &password] {
        assert!(!shown.contains(name), "{shown}");
    }
}

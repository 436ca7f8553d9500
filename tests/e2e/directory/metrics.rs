//! `sys/metrics`: the age of passwords, and the results of rotations and check-outs.

use super::DirectoryStage;
use bulkhead_tests::DirectoryKind;
use bulkhead_tests::metrics::scrape;
use bulkhead_tests::wait::until_true;
use serde_json::json;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(15);

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
        let shown = scrape(&stage.bulkhead);
        lines.iter().all(|line| shown.contains(line))
    });
    let shown = scrape(&stage.bulkhead);
    for name in ["svc1", "svc2", "svc3", &password] {
        assert!(!shown.contains(name), "{shown}");
    }
}

//! Metrics of audit devices, quotas and snapshots, and metrics for callers without a token.

use crate::audit::{device, folder, lines, only};
use crate::bed::{Bed, PATIENCE, request};
use bulkhead_core::snapshots::{ScheduledSnapshot, SnapshotName, SnapshotSchedule};
use bulkhead_wire::description::Verb;
use bulkhead_wire::request::{MetricsTerms, Request};
use serde_json::{Value, json};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

impl Bed {
    /// Metrics in the text format, as a caller with a token reads them.
    async fn exposed(&self) -> String {
        let request = request("root", Verb::Read, "sys/metrics", json!({ "format": "prometheus" }));
        let (status, content_type, body) = self.service.handle(request).await.into_bytes();
        assert_eq!((status, content_type.as_str()), (200, TEXT));
        String::from_utf8(body).unwrap()
    }

    /// The answer at a listener that needs no token.
    async fn scraped(&self, fields: Value) -> (u16, String) {
        let (status, _, body) = self.service.handle(open_request(fields)).await.into_bytes();
        (status, String::from_utf8(body).unwrap())
    }
}

/// A request with an unknown token at a listener that needs no token.
fn open_request(fields: Value) -> Request {
    let metrics = MetricsTerms { needs_no_token: true, prefers_text: true };
    Request { metrics, ..request("bhs.none-of-ours", Verb::Read, "sys/metrics", fields) }
}

/// Returns the value of the series `series`, with its labels.
fn value(text: &str, series: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.map(|value| value.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn sealed_service_shows_metrics_only_at_open_listener() {
    let bed = Bed::sealed(folder("open-metrics-sealed")).await;
    assert_eq!(bed.read("sys/metrics").await.0, 503);
    let (status, text) = bed.scraped(json!({})).await;
    assert_eq!(status, 200, "{text}");
    assert_eq!(value(&text, "bulkhead_core_unsealed{}"), Some(0.0), "{text}");
    assert_eq!(value(&text, "bulkhead_seal_info{type=\"shamir\"}"), Some(1.0), "{text}");
    assert!(value(&text, "process_threads{}").unwrap() >= 1.0, "{text}");
    assert_eq!(value(&text, "bulkhead_log_diverted{}"), Some(0.0), "{text}");
    assert!(!text.contains("bulkhead_requests_total"), "{text}");
    let metrics = MetricsTerms { needs_no_token: true, prefers_text: false };
    for path in ["sys/mounts", "sys/internal/counters/activity"] {
        let other = Request { metrics, ..request("", Verb::Read, path, json!({})) };
        assert_ne!(bed.service.handle(other).await.status, 200, "{path}");
    }
    let write = Request { metrics, ..request("", Verb::Write, "sys/metrics", json!({})) };
    assert_ne!(bed.service.handle(write).await.status, 200);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn open_listener_checks_and_records_no_token() {
    let path = folder("open-metrics");
    let file = path.join("audit.log");
    let bed = Bed::audited(path, only(device("main", file.clone()))).await.unwrap();
    let recorded = lines(&file).len();
    let (status, text) = bed.scraped(json!({})).await;
    assert_eq!(status, 200, "{text}");
    assert_eq!(value(&text, "bulkhead_core_unsealed{}"), Some(1.0), "{text}");
    let (status, refused) = bed.scraped(json!({ "format": "xml" })).await;
    assert!(status == 400 && refused.contains("prometheus"), "{refused}");
    let (_, shown) = bed.scraped(json!({ "format": "json" })).await;
    assert!(serde_json::from_str::<Value>(&shown).unwrap()["Gauges"].is_array(), "{shown}");
    assert_eq!(lines(&file).len(), recorded, "no line");
    let text = bed.exposed().await;
    let requests = |outcome: &str| {
        let labels = format!("{{mount=\"sys/\",operation=\"read\",outcome=\"{outcome}\"}}");
        value(&text, &format!("bulkhead_requests_total{labels}")).unwrap_or_default()
    };
    assert!(requests("served") >= 2.0 && requests("refused") >= 1.0, "{text}");
    assert!(value(&text, "bulkhead_audit_lines_total{device=\"main\"}").unwrap() >= 1.0, "{text}");
    assert_eq!(value(&text, "bulkhead_audit_failures_total{device=\"main\"}"), Some(0.0));
    let count = "bulkhead_audit_write_duration_seconds_count{device=\"main\"}";
    assert!(value(&text, count).unwrap() >= 1.0, "{text}");
    bed.service.stop().await;
    let (_, text) = bed.scraped(json!({})).await;
    assert_eq!(value(&text, "bulkhead_core_unsealed{}"), Some(0.0), "no answer from before");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn simultaneous_open_scrapes_share_one_result() {
    let bed = Bed::new("open-metrics-flood").await;
    let mut tasks = JoinSet::new();
    for _ in 0..40 {
        let service = bed.service.clone();
        tasks.spawn(async move { service.handle(open_request(json!({}))).await.into_bytes() });
    }
    let mut bodies = std::collections::BTreeSet::new();
    for (status, _, body) in tasks.join_all().await {
        assert_eq!(status, 200);
        bodies.insert(body);
    }
    // A busy machine may take longer than the time of a result.
    assert!(bodies.len() < 40, "each request was scraped");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn accept_header_chooses_format_unless_field_does() {
    let bed = Bed::new("metrics-accept").await;
    let metrics = MetricsTerms { needs_no_token: false, prefers_text: true };
    for (fields, content_type) in
        [(json!({}), TEXT), (json!({ "format": "json" }), "application/json")]
    {
        let request = Request { metrics, ..request("root", Verb::Read, "sys/metrics", fields) };
        let (status, found, _) = bed.service.handle(request).await.into_bytes();
        assert_eq!((status, found.as_str()), (200, content_type));
    }
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn quota_refusals_count_by_quota() {
    let bed = Bed::new("metrics-quotas").await;
    let few = json!({ "path": "probe", "max_leases": 1 });
    assert_eq!(bed.write("sys/quotas/lease-count/few", few).await.0, 204);
    let slow = json!({ "path": "probe/count", "rate": 1, "interval": "1h" });
    assert_eq!(bed.write("sys/quotas/rate-limit/slow", slow).await.0, 204);
    let lease = json!({ "ttl": 3_600 });
    assert_eq!(bed.write("probe/lease/x", lease.clone()).await.0, 200);
    for _ in 0..2 {
        assert_eq!(bed.write("probe/lease/x", lease.clone()).await.0, 429);
    }
    bed.write("probe/count/x", json!({})).await;
    assert_eq!(bed.write("probe/count/x", json!({})).await.0, 429);
    // A change of a quota keeps its number.
    let more = json!({ "path": "probe", "max_leases": 5 });
    assert_eq!(bed.write("sys/quotas/lease-count/few", more).await.0, 204);
    let text = bed.exposed().await;
    for (series, expected) in [
        ("bulkhead_quota_lease_count_violations_total{name=\"few\"}", 2.0),
        ("bulkhead_quota_rate_limit_violations_total{name=\"slow\"}", 1.0),
        ("bulkhead_lockouts_locked_users{}", 0.0),
        ("bulkhead_strangers_refused_total{}", 0.0),
    ] {
        assert_eq!(value(&text, series), Some(expected), "{series}: {text}");
    }
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn snapshots_show_last_success_and_failures() {
    let saved = folder("metrics-snapshots-saved");
    fs::create_dir_all(&saved).unwrap();
    fs::set_permissions(&saved, Permissions::from_mode(0o700)).unwrap();
    let plan = |name: &str, directory| ScheduledSnapshot {
        name: SnapshotName::parse(name).unwrap(),
        schedule: SnapshotSchedule::parse("every 1h").unwrap(),
        directory,
        retain: 2,
    };
    let plans = vec![plan("good", saved.clone()), plan("bad", saved.join("missing"))];
    let bed = Bed::scheduled(folder("metrics-snapshots"), plans).await;
    let began = Instant::now();
    let text = loop {
        let text = bed.exposed().await;
        let failures = value(&text, "bulkhead_snapshot_failures_total{name=\"bad\"}");
        let last = "bulkhead_snapshot_last_success_timestamp_seconds{name=\"good\"}";
        if failures >= Some(1.0) && value(&text, last).is_some_and(|last| last > 1e9) {
            break text;
        }
        assert!(began.elapsed() < PATIENCE, "{text}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    assert_eq!(value(&text, "bulkhead_snapshot_failures_total{name=\"good\"}"), Some(0.0));
    assert!(!text.contains("last_success_timestamp_seconds{name=\"bad\"}"), "{text}");
    bed.end().await;
    fs::remove_dir_all(saved).unwrap();
}

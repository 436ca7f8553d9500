//! `sys/metrics`: a component's value is shown if the description names the value, and not
//! otherwise.

use crate::bed::Bed;
use bulkhead_wire::description::Verb;
use serde_json::{Value, json};

impl Bed {
    async fn give(&self, mount: &str, figure: Value) {
        let (status, answer) = self.write(&format!("{mount}/figure/x"), figure).await;
        assert_eq!(status, 204, "{answer}");
    }

    /// All that is shown.
    async fn all_metrics(&self) -> Value {
        let (status, shown) = self.call_as("root", Verb::Read, "sys/metrics", json!({})).await;
        assert_eq!(status, 200, "{shown}");
        shown
    }

    /// The figures that components give.
    async fn metrics(&self) -> Value {
        let mut shown = self.all_metrics().await;
        for kind in ["Gauges", "Counters", "Samples"] {
            let is_of_component = |name: &Value| {
                name.as_str().is_some_and(|name| name.starts_with("bulkhead_probe_"))
            };
            let series = shown[kind].as_array_mut().unwrap();
            series.retain(|series| is_of_component(&series["Name"]));
        }
        shown
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn metric_is_labelled_with_mount_per_description() {
    let bed = Bed::new("figures").await;
    bed.write("sys/mounts/other", json!({ "type": "probe" })).await;
    for (mount, figure) in [
        ("probe", json!({ "metric": "tries_total", "label": "good", "value": 2 })),
        ("probe", json!({ "metric": "tries_total", "label": "good", "value": 1 })),
        ("other", json!({ "metric": "tries_total", "label": "bad", "value": 1 })),
        ("probe", json!({ "metric": "depth_meters", "value": 7 })),
        ("probe", json!({ "metric": "depth_meters", "value": 5 })),
        ("probe", json!({ "metric": "wait_seconds", "value": 3 })),
        ("probe", json!({ "metric": "wait_seconds", "value": 4 })),
        // A value of a running system, which no description names.
        ("probe", json!({ "metric": "tries_total", "label": "hunter2", "value": 1 })),
    ] {
        bed.give(mount, figure).await;
    }
    let shown = bed.metrics().await;
    let of = |mount: &str| json!({ "mount": mount });
    assert_eq!(
        shown["Counters"],
        json!([
            { "Name": "bulkhead_probe_tries_total", "Count": 1,
              "Labels": { "mount": "other/", "outcome": "bad" } },
            { "Name": "bulkhead_probe_tries_total", "Count": 3,
              "Labels": { "mount": "probe/", "outcome": "good" } },
        ])
    );
    assert_eq!(
        shown["Gauges"],
        json!([{ "Name": "bulkhead_probe_depth_meters", "Value": 5.0, "Labels": of("probe/") }])
    );
    assert_eq!(
        shown["Samples"],
        json!([{ "Name": "bulkhead_probe_wait_seconds", "Count": 2, "Sum": 7.0,
                 "Labels": of("probe/") }])
    );
    assert!(!shown.to_string().contains("hunter2"), "{shown}");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn host_metrics_show_mounts_leases_and_quota_usage() {
    let bed = Bed::new("figures-own").await;
    let quota = json!({ "path": "probe", "max_leases": 9 });
    assert_eq!(bed.write("sys/quotas/lease-count/few", quota).await.0, 204);
    for _ in 0..2 {
        assert_eq!(bed.write("probe/lease/x", json!({ "ttl": 3_600 })).await.0, 200);
    }
    let shown = bed.all_metrics().await;
    let gauge_value = |name: &str, label: &str| {
        let gauges = shown["Gauges"].as_array().unwrap().iter();
        let mut found = gauges.filter(|gauge| {
            let labels = gauge["Labels"].as_object().unwrap();
            gauge["Name"] == name && labels.values().all(|value| value == label)
        });
        found.next().map(|gauge| gauge["Value"].as_f64().unwrap())
    };
    for (name, label, value) in [
        ("bulkhead_core_unsealed", "", 1.0),
        ("bulkhead_core_mount_table_num_entries", "logical", 1.0),
        ("bulkhead_core_mount_table_num_entries", "auth", 0.0),
        ("bulkhead_expire_num_leases", "", 2.0),
        ("bulkhead_expire_num_irrevocable_leases", "", 0.0),
        ("bulkhead_quota_lease_count_max", "few", 9.0),
        ("bulkhead_quota_lease_count_counter", "few", 2.0),
    ] {
        assert_eq!(gauge_value(name, label), Some(value), "{name}: {shown}");
    }
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn removed_mount_shows_no_metrics_also_after_reenabling() {
    let bed = Bed::new("figures-gone").await;
    let mount = json!({ "type": "probe" });
    bed.write("sys/mounts/other", mount.clone()).await;
    bed.give("other", json!({ "metric": "depth_meters", "value": 7 })).await;
    assert_eq!(bed.metrics().await["Gauges"].as_array().unwrap().len(), 1);
    bed.call_as("root", Verb::Delete, "sys/mounts/other", json!({})).await;
    assert_eq!(bed.metrics().await["Gauges"], json!([]));
    bed.write("sys/mounts/other", mount).await;
    assert_eq!(bed.metrics().await["Gauges"], json!([]));
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_require_policy() {
    let bed = Bed::new("figures-policy").await;
    let fields = json!({ "policies": "default" });
    let (_, answer) = bed.write("auth/token/create", fields).await;
    let token = answer["auth"]["client_token"].as_str().unwrap();
    for token in [token, "", "bhs.none-of-ours"] {
        assert_eq!(bed.call_as(token, Verb::Read, "sys/metrics", json!({})).await.0, 403);
    }
    let (status, refused) =
        bed.call_as("root", Verb::Read, "sys/metrics", json!({ "format": "xml" })).await;
    assert!(status == 400 && refused.to_string().contains("prometheus"), "{refused}");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_count_by_mount_operation_and_outcome() {
    let bed = Bed::new("figures-traffic").await;
    let lease = json!({ "ttl": 3_600 });
    for _ in 0..3 {
        assert_eq!(bed.write("probe/lease/hunter2", lease.clone()).await.0, 200);
    }
    let refused = bed.call_as("bhs.none-of-ours", Verb::Write, "probe/lease/x", lease).await;
    assert_eq!(refused.0, 403);
    bed.call_as("root", Verb::Read, "sys/mounts", json!({})).await;
    let shown = bed.all_metrics().await;
    let count = |labels: Value| {
        let counters = shown["Counters"].as_array().unwrap().iter();
        let mut found = counters.filter(|counter| {
            counter["Name"] == "bulkhead_requests_total" && counter["Labels"] == labels
        });
        found.next().map_or(0, |counter| counter["Count"].as_u64().unwrap())
    };
    let of = traffic_labels;
    assert_eq!(count(of("probe/", "write", "served")), 3, "{shown}");
    assert_eq!(count(of("probe/", "write", "denied")), 1, "{shown}");
    assert!(count(of("sys/", "read", "served")) >= 1, "{shown}");
    let samples = shown["Samples"].as_array().unwrap().iter();
    let durations: Vec<&Value> = samples
        .filter(|sample| sample["Name"] == "bulkhead_request_duration_seconds")
        .filter(|sample| sample["Labels"]["operation"] == "write")
        .collect();
    assert!(durations[0]["Count"].as_u64().unwrap() >= 4, "{shown}");
    assert!(!shown.to_string().contains("hunter2"), "no label shows a path: {shown}");
    bed.call_as("root", Verb::Delete, "sys/mounts/probe", json!({})).await;
    let shown = bed.all_metrics().await;
    assert!(!shown.to_string().contains("\"probe/\""), "a removed mount has no series: {shown}");
    bed.end().await;
}

fn traffic_labels(mount: &str, operation: &str, outcome: &str) -> Value {
    json!({ "mount": mount, "operation": operation, "outcome": outcome })
}

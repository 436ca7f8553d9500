//! Metrics of tokens, leases, due work and components: an act is counted once, where an operator
//! looks for the act.

use crate::bed::{Bed, PATIENCE};
use crate::unavailable::newer;
use crate::uploads::{PROBE, counted, upload};
use bulkhead_wire::description::Verb;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

impl Bed {
    /// Returns the value of a series; for a histogram, the number of durations. 0 for an absent
    /// series.
    pub(crate) async fn figure(&self, name: &str, labels: Value) -> f64 {
        let (status, shown) = self.call_as("root", Verb::Read, "sys/metrics", json!({})).await;
        assert_eq!(status, 200, "{shown}");
        let kinds = ["Gauges", "Counters", "Samples"].map(|kind| shown[kind].as_array().unwrap());
        let is_meant = |series: &&Value| series["Name"] == name && series["Labels"] == labels;
        let series = kinds.into_iter().flatten().find(is_meant);
        let value = series.map(|series| series.get("Value").unwrap_or(&series["Count"]));
        value.map_or(0.0, |value| value.as_f64().unwrap())
    }

    /// Waits until the value of a series is at least `least`.
    async fn figure_reaches(&self, name: &str, labels: Value, least: f64) {
        let began = Instant::now();
        while self.figure(name, labels.clone()).await < least {
            let (_, shown) = self.call_as("root", Verb::Read, "sys/metrics", json!({})).await;
            assert!(began.elapsed() < PATIENCE, "{name} stays below {least}: {shown}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn figure_is(&self, name: &str, labels: Value, expected: f64) {
        assert_eq!(self.figure(name, labels).await, expected, "{name}");
    }

    /// Creates a token and returns the token's text.
    async fn new_token(&self, fields: Value) -> String {
        let (status, answer) = self.write("auth/token/create", fields).await;
        assert_eq!(status, 200, "{answer}");
        answer["auth"]["client_token"].as_str().unwrap().to_owned()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn token_ends_are_counted_by_cause() {
    let bed = Bed::new("figures-tokens").await;
    bed.figure_is("bulkhead_tokens", json!({ "type": "service" }), 1.0).await;
    let revoked = bed.new_token(json!({ "policies": "default", "ttl": "1h" })).await;
    bed.new_token(json!({ "policies": "default", "ttl": "1s" })).await;
    let counted = json!({ "policies": "default", "ttl": "1h", "num_uses": 1 });
    let used_up = bed.new_token(counted).await;
    bed.new_token(json!({ "policies": "default", "ttl": "1h", "type": "batch" })).await;
    let token = json!({ "token": revoked });
    assert_eq!(bed.write("auth/token/renew", token.clone()).await.0, 200);
    assert_eq!(bed.write("auth/token/revoke", token).await.0, 204);
    let own = bed.call_as(&used_up, Verb::Read, "auth/token/lookup-self", json!({})).await;
    assert_eq!(own.0, 200, "{}", own.1);
    for cause in ["revoked", "expired", "used-up"] {
        let cause = json!({ "cause": cause });
        bed.figure_reaches("bulkhead_tokens_ended_total", cause.clone(), 1.0).await;
        bed.figure_is("bulkhead_tokens_ended_total", cause, 1.0).await;
    }
    let created = "bulkhead_tokens_created_total";
    bed.figure_is(created, json!({ "type": "service" }), 3.0).await;
    bed.figure_is(created, json!({ "type": "batch" }), 1.0).await;
    bed.figure_is("bulkhead_tokens_renewed_total", json!({}), 1.0).await;
    bed.figure_is("bulkhead_tokens", json!({ "type": "service" }), 1.0).await;
    bed.figure_reaches(
        "bulkhead_due_work_runs_total",
        json!({ "kind": "token", "outcome": "done" }),
        3.0,
    )
    .await;
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lease_ends_are_counted_by_mount_and_cause() {
    let bed = Bed::new("figures-leases").await;
    let lease = async |name: &str, ttl: u64| {
        let (status, leased) =
            bed.write(&format!("probe/lease/{name}"), json!({ "ttl": ttl })).await;
        assert_eq!(status, 200, "{leased}");
        json!({ "lease_id": leased["lease_id"], "sync": true })
    };
    let revoked = lease("revoked", 3_600).await;
    assert_eq!(bed.write("sys/leases/renew", revoked.clone()).await.0, 200);
    assert_eq!(bed.write("sys/leases/revoke", revoked).await.0, 204);
    lease("expired", 1).await;
    bed.figure_is("bulkhead_leases_overdue", json!({}), 0.0).await;
    let stuck = lease("stuck", 3_600).await;
    assert_eq!(bed.write("sys/leases/revoke", stuck).await.0, 502);
    let of_probe = json!({ "mount": "probe/" });
    let failed = "bulkhead_lease_revocations_failed_total";
    bed.figure_reaches(failed, of_probe.clone(), 1.0).await;
    bed.figure_is("bulkhead_leases_overdue", json!({}), 1.0).await;
    assert_eq!(bed.write("sys/leases/revoke-force/probe/lease/stuck", json!({})).await.0, 204);
    for cause in ["revoked", "expired", "given-up"] {
        let ended = json!({ "mount": "probe/", "cause": cause });
        bed.figure_reaches("bulkhead_leases_ended_total", ended.clone(), 1.0).await;
        bed.figure_is("bulkhead_leases_ended_total", ended, 1.0).await;
    }
    bed.figure_is("bulkhead_leases_overdue", json!({}), 0.0).await;
    bed.figure_is("bulkhead_leases_created_total", of_probe.clone(), 3.0).await;
    bed.figure_is("bulkhead_leases_renewed_total", of_probe, 1.0).await;
    bed.figure_reaches("bulkhead_lease_end_delay_seconds", json!({}), 1.0).await;
    bed.figure_reaches(
        "bulkhead_due_work_runs_total",
        json!({ "kind": "lease", "outcome": "done" }),
        1.0,
    )
    .await;
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hanging_due_work_shows_in_backlog_and_instances() {
    let bed = Bed::new("figures-backlog").await;
    bed.figure_is("bulkhead_due_work_oldest_seconds", json!({}), 0.0).await;
    for number in 0..5 {
        let timer = json!({ "after": 0, "lane": "slow" });
        assert_eq!(bed.write(&format!("probe/timer/hang-{number}"), timer).await.0, 204);
    }
    let of_probe = json!({ "mount": "probe/" });
    bed.figure_reaches("bulkhead_component_instances", json!({ "state": "running" }), 4.0).await;
    bed.figure_is("bulkhead_due_work_backlog", of_probe.clone(), 5.0).await;
    bed.figure_reaches("bulkhead_due_work_oldest_seconds", json!({}), 0.001).await;
    bed.figure_reaches("bulkhead_mount_memory_bytes", of_probe.clone(), 65_536.0).await;
    bed.figure_reaches("bulkhead_component_host_calls_total", of_probe, 5.0).await;
    bed.figure_is("bulkhead_component_calls_waiting", json!({}), 0.0).await;
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_target_shows_as_resting_lane() {
    let bed = Bed::new("figures-lanes").await;
    bed.figure_is("bulkhead_due_lanes_resting", json!({}), 0.0).await;
    for number in 0..3 {
        let timer = json!({ "after": 0, "lane": "away" });
        assert_eq!(bed.write(&format!("probe/timer/down-{number}"), timer).await.0, 204);
    }
    bed.figure_reaches("bulkhead_due_lanes_resting", json!({}), 1.0).await;
    let failed = json!({ "kind": "timer", "outcome": "failed" });
    bed.figure_reaches("bulkhead_due_work_runs_total", failed, 3.0).await;
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn swaps_and_compilations_are_counted() {
    let bed = counted("figures-swaps").await;
    let compiled = json!({ "source": "compiled" });
    bed.figure_is("bulkhead_compiled_code_loads_total", compiled.clone(), 1.0).await;
    let (status, answer) = upload(&bed, PROBE, newer()).await;
    assert_eq!(status, 204, "{answer}");
    bed.figure_is("bulkhead_compiled_code_loads_total", compiled, 2.0).await;
    let newer = json!({ "plugin_version": "2.0.0" });
    assert_eq!(bed.write("sys/mounts/third/tune", newer).await.0, 204);
    bed.figure_is("bulkhead_plugin_swaps_total", json!({ "outcome": "done" }), 1.0).await;
    bed.figure_is("bulkhead_plugin_swaps_total", json!({ "outcome": "refused" }), 0.0).await;
    bed.end().await;
}

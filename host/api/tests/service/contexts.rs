//! The context of a call without a request: the mount and the deadline.

use crate::bed::Bed;
use crate::probe::set_schema;
use serde_json::json;

/// Milliseconds that work in the background has, and a renewal at the longest.
const WORK_TIME: u64 = 90_000;

/// Checks that the component received its mount and a deadline in the future.
async fn assert_context_received(bed: &Bed, name: &str) {
    let noted = bed.noted(name).await;
    let (mount, left) = noted.as_str().and_then(|noted| noted.split_once(' ')).expect("two words");
    assert_eq!(mount, "probe/", "{name}");
    let left: u64 = left.parse().unwrap();
    assert!((1..=WORK_TIME).contains(&left), "{name}: {left} ms");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_component_call_receives_mount_and_deadline() {
    let bed = Bed::new("contexts").await;
    assert_eq!(bed.write("probe/timer/told", json!({"after": 0})).await.0, 204);
    assert_context_received(&bed, "told-wake").await;

    let (status, leased) = bed.write("probe/lease/told", json!({"ttl": 600})).await;
    assert_eq!(status, 200, "{leased}");
    let lease = json!({"lease_id": leased["lease_id"]});
    assert_eq!(bed.write("sys/leases/renew", lease.clone()).await.0, 200);
    assert_context_received(&bed, "told-renew").await;
    assert_eq!(bed.write("sys/leases/revoke", lease).await.0, 204);
    assert_context_received(&bed, "told-revoke").await;

    let directory = bed.stop().await;
    set_schema(&directory, "probe/", 0).await;
    let bed = Bed::open(directory).await;
    assert_context_received(&bed, "told-migrate").await;
    bed.end().await;
}

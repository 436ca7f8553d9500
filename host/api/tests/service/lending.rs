//! Leases ended by another call, and the undo of changes made in several steps.

use crate::bed::Bed;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn lease_ended_by_another_call_is_never_revoked() {
    let bed = Bed::new("end-issued").await;
    let (status, lent) = bed.write("probe/lend/book", json!({})).await;
    assert_eq!(status, 200, "{lent}");
    let id = json!({"lease_id": lent["lease_id"]});
    assert_eq!(bed.write("probe/return/book", json!({"how": "fails"})).await.0, 400);
    assert_eq!(bed.write("sys/leases/lookup", id.clone()).await.0, 200, "nothing was stored");
    for _ in 0..2 {
        let (status, returned) = bed.write("probe/return/book", json!({})).await;
        assert_eq!(status, 204, "{returned}");
        assert_eq!(bed.write("sys/leases/lookup", id.clone()).await.0, 400);
        assert_eq!(bed.write("sys/leases/renew", id.clone()).await.0, 400);
    }
    assert_eq!(bed.write("sys/leases/revoke", id).await.0, 204, "gone is revoked");
    assert_eq!(
        bed.read("probe/note/book").await.0,
        404,
        "the engine was not asked to end the lease"
    );
    assert_eq!(bed.write("probe/return/another", json!({})).await.0, 404);
    bed.end().await;
}

/// A check-in by the end of a lease also ends the lease itself, with the same code as a check-in by
/// a caller.
#[tokio::test(flavor = "multi_thread")]
async fn revocation_may_end_its_own_lease() {
    let bed = Bed::new("end-issued-at-home").await;
    for name in ["returns", "returns-stored"] {
        let lent = bed.write(&format!("probe/lend/{name}"), json!({})).await.1;
        let id = json!({"lease_id": lent["lease_id"]});
        let (status, revoked) = bed.write("sys/leases/revoke", id.clone()).await;
        assert_eq!(status, 204, "{name}: {revoked}");
        assert_eq!(bed.noted(name).await, "Requested", "{name}");
        assert_eq!(bed.write("sys/leases/lookup", id).await.0, 400, "{name} is gone");
    }
    let lines = bed.log.0.lock().unwrap().join("\n");
    assert!(!lines.contains("lease-end-delayed"), "{lines}");
    drop(lines);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn undo_of_stepwise_creation_includes_uncertain_step() {
    let bed = Bed::new("steps").await;
    let (status, refused) = bed.write("probe/steps/grown", json!({})).await;
    assert_eq!(status, 502, "{refused}");
    assert_eq!(bed.noted("grown").await, "Undo");
    assert_eq!(bed.noted("held-grown").await, "one and two");
    bed.end().await;
}

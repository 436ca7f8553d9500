//! The announcement of a stop: `sys/health` answers 503, and every other request is served.

use crate::bed::Bed;
use bulkhead_api::ServiceState;
use bulkhead_wire::description::Verb;
use serde_json::json;
use std::time::Duration;
use tokio::sync::watch;

/// Waits for a change of the state, for at most 30 s.
async fn await_change<T>(changes: &mut watch::Receiver<T>) {
    let changed = tokio::time::timeout(Duration::from_secs(30), changes.changed()).await;
    changed.expect("the state changes in time").unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn health_announces_stop_whatever_codes_are_chosen() {
    let bed = Bed::new("announced-stop").await;
    let mut changes = bed.service.state_changes();
    let (status, health) = bed.read("sys/health").await;
    assert_eq!((status, &health["stopping"]), (200, &json!(false)));
    assert_eq!(bed.service.state().await, ServiceState::Unsealed);
    bed.service.begin_stopping();
    assert!(changes.has_changed().unwrap());
    changes.mark_unchanged();
    assert_eq!(bed.service.state().await, ServiceState::Stopping);
    let codes = json!({
        "activecode": "200", "sealedcode": "299", "uninitcode": "299", "standbycode": "299",
        "standbyok": "true", "perfstandbyok": "",
    });
    for fields in [json!({}), codes] {
        let (status, health) = bed.call(Verb::Read, "sys/health", fields).await;
        assert_eq!((status, &health["stopping"]), (503, &json!(true)), "{health}");
        assert_eq!((&health["sealed"], &health["writes"]), (&json!(false), &json!(true)));
    }
    let wrong = bed.call(Verb::Read, "sys/health", json!({ "activecode": "no" })).await;
    assert_eq!(wrong.0, 400);
    assert_eq!(bed.read("auth/token/lookup-self").await.0, 200);
    let policy = json!({ "policy": "path \"a\" { capabilities = [\"read\"] }" });
    assert_eq!(bed.write("sys/policies/acl/late", policy).await.0, 204);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn state_follows_initialisation_unsealing_and_sealing() {
    let name = format!("bulkhead-core-states-{}", std::process::id());
    let bed = Bed::sealed(std::env::temp_dir().join(name)).await;
    let mut changes = bed.service.state_changes();
    assert_eq!(bed.service.state().await, ServiceState::NotInitialised);
    let (_, keys) =
        bed.write("sys/init", json!({ "secret_shares": 1, "secret_threshold": 1 })).await;
    await_change(&mut changes).await;
    assert_eq!(bed.service.state().await, ServiceState::Sealed);
    let key = &keys["keys"][0];
    assert_eq!(bed.write("sys/unseal", json!({ "key": key })).await.0, 200);
    await_change(&mut changes).await;
    assert_eq!(bed.service.state().await, ServiceState::Unsealed);
    bed.service.stop().await;
    await_change(&mut changes).await;
    assert_eq!(bed.service.state().await, ServiceState::Sealed);
    bed.end().await;
}

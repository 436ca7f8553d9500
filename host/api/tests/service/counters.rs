//! `sys/internal/counters`: numbers of tokens, entities and clients.

use crate::bed::{Bed, error};
use crate::logins;
use bulkhead_wire::description::Verb;
use serde_json::{Value, json};

const PATH: &str = "sys/internal/counters";

impl Bed {
    async fn counter(&self, name: &str) -> Value {
        let (status, answer) = self.read(&format!("{PATH}/{name}")).await;
        assert_eq!(status, 200, "{answer}");
        answer["data"].clone()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_and_entities_are_counted() {
    let bed = logins::open("counters").await;
    let tokens = |data: Value| data["counters"]["service_tokens"]["total"].as_u64().unwrap();
    let before = tokens(bed.counter("tokens").await);
    bed.admit(json!({ "alias": "ada" })).await;
    assert_eq!(tokens(bed.counter("tokens").await), before + 1);
    let entities = bed.counter("entities").await;
    assert_eq!(entities, json!({ "counters": { "entities": { "total": 1 } } }));
    let (status, refused) = bed.read("sys/internal/counters/requests").await;
    assert!(status == 404 && error(&refused).contains("sys/metrics"), "{refused}");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_are_shown_by_mount_after_restart() {
    let bed = logins::open("activity").await;
    let (status, _) = bed.read("sys/internal/counters/activity").await;
    assert_eq!(status, 204, "a root token is not a client");
    for alias in ["ada", "bob", "ada"] {
        let token = bed.admit(json!({ "alias": alias })).await["client_token"].clone();
        let token = token.as_str().unwrap();
        let looked_up = bed.call_as(token, Verb::Read, "auth/token/lookup-self", json!({})).await;
        assert_eq!(looked_up.0, 200, "{}", looked_up.1);
        let denied = bed.call_as(token, Verb::Read, "sys/mounts", json!({})).await;
        assert_eq!(denied.0, 403, "{}", denied.1);
    }
    let (_, created) = bed.write("auth/token/create", json!({ "policies": ["default"] })).await;
    let token = created["auth"]["client_token"].as_str().unwrap().to_owned();
    bed.call_as(&token, Verb::Read, "auth/token/lookup-self", json!({})).await;
    let check = |data: &Value| {
        let total = &data["total"];
        assert_eq!((&total["clients"], &total["entity_clients"]), (&json!(3), &json!(2)), "{data}");
        assert_eq!(total["non_entity_clients"], 1);
        let namespace = &data["by_namespace"][0];
        assert_eq!((&namespace["namespace_id"], &namespace["counts"]), (&json!("root"), total));
        let mounts = namespace["mounts"].as_array().unwrap();
        let of = |path: &str| mounts.iter().find(|mount| mount["mount_path"] == path).unwrap();
        assert_eq!(of("auth/doorman/")["counts"]["clients"], 2, "{data}");
        assert_eq!(of("auth/token/")["counts"]["clients"], 1, "{data}");
        assert_eq!(data["months"][0]["new_clients"]["counts"], *total);
    };
    check(&bed.counter("activity").await);
    let bed = logins::reopen(bed.stop().await).await;
    check(&bed.counter("activity").await);
    let monthly = bed.counter("activity/monthly").await;
    assert_eq!(
        (&monthly["clients"], &monthly["months"][0]["counts"]["clients"]),
        (&json!(3), &json!(3))
    );
    let past = json!({ "start_time": "2001-01-01T00:00:00Z", "end_time": "2001-02-01T00:00:00Z" });
    assert_eq!(bed.call(Verb::Read, "sys/internal/counters/activity", past).await.0, 204);
    let wrong = json!({ "start_time": "yesterday" });
    assert_eq!(bed.call(Verb::Read, "sys/internal/counters/activity", wrong).await.0, 400);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_of_activity_are_checked_and_shown() {
    let bed = Bed::new("activity-settings").await;
    let shown = bed.counter("config").await;
    assert_eq!(
        (&shown["enabled"], &shown["retention_months"]),
        (&json!("default-enabled"), &json!(48))
    );
    let path = "sys/internal/counters/config";
    let settings = json!({ "enabled": "disable", "retention_months": 6 });
    assert_eq!(bed.write(path, settings).await.0, 204);
    for wrong in [
        json!({ "enabled": "yes" }),
        json!({ "retention_months": 0 }),
        json!({ "retention_months": 61 }),
    ] {
        assert_eq!(bed.write(path, wrong.clone()).await.0, 400, "{wrong}");
    }
    let shown = bed.counter("config").await;
    assert_eq!((&shown["enabled"], &shown["retention_months"]), (&json!("disable"), &json!(6)));
    bed.end().await;
}

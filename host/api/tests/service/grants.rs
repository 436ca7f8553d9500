//! Grants as operators write them: how lists are changed and kept, and when they hold.

use crate::bed::{Bed, error};
use serde_json::{Value, json};
use std::sync::Arc;

pub(crate) async fn grants(bed: &Bed, mount: &str) -> Value {
    let (status, info) = bed.read(&format!("sys/mounts/{mount}")).await;
    assert_eq!(status, 200, "{info}");
    let (_, tuned) = bed.read(&format!("sys/mounts/{mount}/tune")).await;
    assert_eq!(info["data"]["config"]["grants"], tuned["data"]["grants"], "shown alike");
    info["data"]["config"]["grants"].clone()
}

/// Default grants of a mount of the probe: all acts that the probe asks for. An act without a
/// target means any target.
const USUAL: [&str; 9] = [
    "http:*",
    "identity:token",
    "ambient:env/PROBE_NAME",
    "ambient:env/PROBE_SECRET",
    "ambient:cloud-token",
    "ambient:pod-identity",
    "crypto:sign",
    "crypto:generate-key",
    "crypto:issue-certificate",
];

#[tokio::test(flavor = "multi_thread")]
async fn grant_list_is_canonical_and_edited_per_line() {
    let bed = Bed::new("grants-list").await;
    assert_eq!(grants(&bed, "probe").await, json!(USUAL));
    let lines =
        json!(["sql:postgres://DB.example.", "address:10.1.2.3/8", "limit:memory=65536KiB"]);
    assert_eq!(
        bed.write("sys/mounts/other", json!({"type": "probe", "grants": lines})).await.0,
        204
    );
    let canonical = ["sql:postgres://db.example:5432", "address:10.0.0.0/8", "limit:memory=64MiB"];
    assert_eq!(grants(&bed, "other").await, json!(canonical));
    let tune =
        json!({"add_grants": "limit:memory=128MiB", "remove_grants": ["address:10.0.0.0/8"]});
    assert_eq!(bed.write("sys/mounts/other/tune", tune).await.0, 204);
    assert_eq!(grants(&bed, "other").await, json!([canonical[0], "limit:memory=128MiB"]));
    assert_eq!(bed.write("sys/mounts/other/tune", json!({"description": "x"})).await.0, 204);
    assert_eq!(
        grants(&bed, "other").await,
        json!([canonical[0], "limit:memory=128MiB"]),
        "absent keeps"
    );
    assert_eq!(bed.write("sys/mounts/other/tune", json!({"grants": []})).await.0, 204);
    assert_eq!(grants(&bed, "other").await, json!([]));
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_grant_is_refused_and_changes_nothing() {
    let bed = Bed::new("grants-refused").await;
    for (fields, says) in [
        (json!({"grants": ["sql"]}), "the target is missing"),
        (json!({"grants": ["limit:memory=1GiB"]}), "the most is memory=256MiB"),
        (json!({"add_grants": ["adress:10.0.0.0/8"]}), "did you mean \"address\"?"),
        (json!({"add_grants": ["address:169.254.169.254"]}), "no grant opens"),
        (json!({"remove_grants": ["database:x"]}), "not among the grants"),
    ] {
        let (status, refused) = bed.write("sys/mounts/probe/tune", fields).await;
        assert_eq!(status, 400, "{refused}");
        assert!(error(&refused).contains(says), "{refused}");
    }
    let (status, _) =
        bed.write("sys/mounts/other", json!({"type": "probe", "config": {"grants": ["x"]}})).await;
    assert_eq!(status, 400);
    let (status, refused) =
        bed.write("sys/mounts/auth/token/tune", json!({"grants": ["database:x"]})).await;
    assert_eq!(status, 400, "{refused}");
    assert_eq!(grants(&bed, "probe").await, json!(USUAL));
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tuned_limit_binds_only_own_mounts_next_call() {
    let bed = Bed::new("grants-limits").await;
    assert_eq!(bed.write("sys/mounts/other", json!({"type": "probe"})).await.0, 204);
    let got = async |mount: &str| {
        bed.read(&format!("{mount}/reserve/16384")).await.1["data"]["got"].clone()
    };
    assert_eq!((got("probe").await, got("other").await), (json!(true), json!(true)));
    let tune = json!({"add_grants": ["limit:memory=8MiB", "limit:host-calls=1"]});
    assert_eq!(bed.write("sys/mounts/probe/tune", tune).await.0, 204);
    assert_eq!((got("probe").await, got("other").await), (json!(false), json!(true)));
    let (status, answer) = bed.write("probe/count/x", json!({})).await;
    assert_eq!(status, 500, "two host calls are one too many: {answer}");
    assert_eq!(bed.write("other/count/x", json!({})).await.0, 204);
    let tune = json!({"remove_grants": ["limit:memory=8MiB", "limit:host-calls=1"]});
    assert_eq!(bed.write("sys/mounts/probe/tune", tune).await.0, 204);
    assert_eq!(got("probe").await, json!(true));
    assert_eq!(bed.write("probe/count/x", json!({})).await.0, 204);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rerun_after_conflict_counts_once_against_rate() {
    let bed = Arc::new(Bed::new("grants-rate").await);
    assert_eq!(
        bed.write("sys/mounts/probe/tune", json!({"add_grants": "limit:rate=8/s"})).await.0,
        204
    );
    let race = |_| {
        let bed = Arc::clone(&bed);
        tokio::spawn(async move { bed.write("probe/count/raced", json!({})).await })
    };
    for counted in (0..8).map(race).collect::<Vec<_>>() {
        // A request that lost too many races is refused with 503.
        let (status, answer) = counted.await.unwrap();
        assert_ne!(status, 429, "{answer}");
    }
    let mut more = 0;
    while bed.read("probe/tally").await.0 != 429 {
        more += 1;
        assert!(more < 10_000, "there is no rate");
    }
    Arc::into_inner(bed).unwrap().end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn grants_outlive_restart_and_end_with_mount() {
    let bed = Bed::new("grants-kept").await;
    let fields = json!({"type": "probe", "grants": ["limit:memory=8MiB"]});
    assert_eq!(bed.write("sys/mounts/other", fields).await.0, 204);
    assert_eq!(bed.write("sys/remount", json!({"from": "other", "to": "there"})).await.0, 200);
    bed.line("mount-moved").await;
    let directory = bed.stop().await;
    let bed = Bed::open(directory).await;
    assert_eq!(grants(&bed, "there").await, json!(["limit:memory=8MiB"]));
    assert_eq!(bed.read("there/reserve/16384").await.1["data"]["got"], false);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn simultaneously_added_grants_are_all_kept() {
    let bed = Bed::new("grants-race").await;
    let add = async |number: u8| {
        let line = format!("database:x{number}");
        bed.write("sys/mounts/probe/tune", json!({"add_grants": [line]})).await
    };
    let (one, two, three) = tokio::join!(add(1), add(2), add(3));
    assert_eq!([one.0, two.0, three.0], [204; 3], "{} {} {}", one.1, two.1, three.1);
    assert_eq!(grants(&bed, "probe").await.as_array().unwrap().len(), USUAL.len() + 3);
    bed.end().await;
}

//! The cache that the calls of a mount share: private to the mount, bounded, filled once for
//! concurrent calls, and emptied when required.

use crate::bed::{Bed, error};
use crate::http::{Server, granted, ok};
use serde_json::{Value, json};
use std::sync::Arc;

async fn keep(bed: &Bed, path: &str, value: &str) {
    let (mount, name) = path.split_once('/').unwrap();
    let (status, answer) =
        bed.write(&format!("{mount}/keep/{name}"), json!({"value": value})).await;
    assert_eq!(status, 204, "{answer}");
}

/// Returns the cached value, or null.
async fn recalled(bed: &Bed, path: &str) -> Value {
    let (mount, name) = path.split_once('/').unwrap();
    let (status, answer) = bed.read(&format!("{mount}/recall/{name}")).await;
    assert!(status == 200 || status == 404, "{answer}");
    answer["data"]["value"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn cached_value_is_read_by_mount_until_removal() {
    let bed = Bed::new("cache-kept").await;
    assert_eq!(bed.write("sys/mounts/other", json!({"type": "probe"})).await.0, 204);
    keep(&bed, "probe/a", "one").await;
    assert_eq!(recalled(&bed, "probe/a").await, "one");
    assert_eq!(recalled(&bed, "other/a").await, Value::Null, "another mount has its own cache");
    keep(&bed, "other/a", "two").await;
    assert_eq!(recalled(&bed, "probe/a").await, "one");
    assert_eq!(bed.write("probe/keep/a", json!({})).await.0, 204);
    assert_eq!(
        (recalled(&bed, "probe/a").await, recalled(&bed, "other/a").await),
        (Value::Null, json!("two"))
    );
    for ttl in [0, 86_401] {
        let (status, refused) = bed.write("probe/keep/a", json!({"value": "x", "ttl": ttl})).await;
        assert_eq!(status, 400, "{refused}");
        assert!(error(&refused).contains("1 to 86400 seconds"), "{refused}");
    }
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cached_value_ends_on_grant_change_or_restart() {
    let bed = Bed::new("cache-gone").await;
    keep(&bed, "probe/a", "one").await;
    assert_eq!(bed.write("sys/mounts/probe/tune", json!({"description": "x"})).await.0, 204);
    assert_eq!(recalled(&bed, "probe/a").await, "one", "what it may do is what it was");
    granted(&bed, &["limit:cache=2KiB".to_owned()]).await;
    assert_eq!(recalled(&bed, "probe/a").await, Value::Null);
    keep(&bed, "probe/a", &"a".repeat(1_000)).await;
    keep(&bed, "probe/b", &"b".repeat(1_000)).await;
    assert_eq!(recalled(&bed, "probe/a").await, Value::Null, "the cache has room for one value");
    assert_eq!(recalled(&bed, "probe/b").await, "b".repeat(1_000));
    let directory = bed.stop().await;
    let bed = Bed::open(directory).await;
    assert_eq!(recalled(&bed, "probe/b").await, Value::Null);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_fetches_of_one_value_run_once() {
    let (bed, mut server) = (Arc::new(Bed::new("cache-single").await), Server::new().await);
    granted(&bed, &[server.grant()]).await;
    let fields = json!({"url": server.url("/")});
    let calls: Vec<_> = (0..100)
        .map(|_| {
            let (bed, fields) = (Arc::clone(&bed), fields.clone());
            tokio::spawn(async move { bed.write("probe/make/token", fields).await })
        })
        .collect();
    server.reply(&ok("made")).await;
    for call in calls {
        let (status, answer) = call.await.unwrap();
        assert_eq!((status, &answer["data"]["value"]), (200, &json!("made")), "{answer}");
    }
    assert_eq!(server.connections(), 1);
    Arc::into_inner(bed).unwrap().end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn crash_of_fetching_call_makes_next_call_fetch() {
    let (bed, mut server) = (Arc::new(Bed::new("cache-crash").await), Server::new().await);
    granted(&bed, &[server.grant()]).await;
    let url = server.url("/");
    let make = |how: &str| {
        let (bed, fields) = (Arc::clone(&bed), json!({"url": url, "how": how}));
        tokio::spawn(async move { bed.write("probe/make/token", fields).await })
    };
    let crashes = make("panics");
    let first = server.next().await;
    let waits = make("ok");
    first.answer.send(ok("lost")).unwrap();
    assert_eq!(crashes.await.unwrap().0, 500);
    server.reply(&ok("made")).await;
    assert_eq!(waits.await.unwrap().1["data"]["value"], "made");
    assert_eq!(server.connections(), 2);
    Arc::into_inner(bed).unwrap().end().await;
}

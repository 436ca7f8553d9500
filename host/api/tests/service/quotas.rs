//! Lease-count quotas: a call that has no place is refused before the component is entered.

use crate::bed::{Bed, error};
use bulkhead_wire::description::Verb;
use serde_json::{Value, json};
use std::sync::Arc;

const QUOTAS: &str = "sys/quotas/lease-count";

impl Bed {
    /// Disables the mount at `endpoint`, and checks that the quota goes with the mount.
    async fn disables_with_quota(&self, endpoint: &str, quota: &str) {
        let (status, answer) = self.call(Verb::Delete, endpoint, json!({})).await;
        assert_eq!(status, 204, "{answer}");
        assert_eq!(self.read(&format!("{QUOTAS}/{quota}")).await.0, 404);
    }

    async fn limit(&self, name: &str, quota: Value) {
        let (status, answer) = self.write(&format!("{QUOTAS}/{name}"), quota).await;
        assert_eq!(status, 204, "{answer}");
    }

    async fn lease(&self, path: &str) -> (u16, Value) {
        self.write(path, json!({"ttl": 3_600})).await
    }

    async fn leases(&self, path: &str, times: usize) -> Vec<String> {
        let mut ids = Vec::new();
        for _ in 0..times {
            let (status, answer) = self.lease(path).await;
            assert_eq!(status, 200, "{answer}");
            ids.push(answer["lease_id"].as_str().unwrap().to_owned());
        }
        ids
    }

    async fn shown(&self, name: &str) -> Value {
        let (status, answer) = self.read(&format!("{QUOTAS}/{name}")).await;
        assert_eq!(status, 200, "{answer}");
        answer["data"].clone()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn longest_path_quota_applies_and_excludes_ended_leases() {
    let bed = Bed::new("quota-paths").await;
    assert_eq!(bed.write("sys/mounts/other", json!({"type": "probe"})).await.0, 204);
    bed.limit("all", json!({"max_leases": 6})).await;
    bed.limit("mount", json!({"path": "probe/", "max_leases": "3"})).await;
    bed.limit("role", json!({"path": "probe/lease/reader", "max_leases": 1})).await;

    let readers = bed.leases("probe/lease/reader", 1).await;
    let (status, answer) = bed.lease("probe/lease/reader").await;
    assert_eq!(status, 429, "{answer}");
    let says = error(&answer);
    for word in ["lease count quota exceeded", "\"role\"", "1 leases", "max_leases"] {
        assert!(says.contains(word), "{says}");
    }
    bed.leases("probe/lease/reader2", 2).await;
    assert!(error(&bed.lease("probe/lease/reader2").await.1).contains("\"mount\""));
    bed.leases("other/lease/reader", 3).await;
    assert!(error(&bed.lease("other/lease/reader").await.1).contains("\"all\""));
    for (name, path, counter) in
        [("all", "", 6), ("mount", "probe/", 3), ("role", "probe/lease/reader", 1)]
    {
        let shown = bed.shown(name).await;
        assert_eq!((&shown["path"], &shown["counter"]), (&json!(path), &json!(counter)), "{shown}");
    }

    let revoked = bed.write("sys/leases/revoke", json!({"lease_id": readers[0]})).await;
    assert_eq!(revoked.0, 204, "{}", revoked.1);
    let renewed = async || bed.lease("probe/lease/reader").await.0 == 200;
    let began = std::time::Instant::now();
    while !renewed().await {
        assert!(began.elapsed() < crate::bed::PATIENCE, "a lease that ended makes no room");
    }
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_lease_requests_stop_exactly_at_quota() {
    let bed = Arc::new(Bed::new("quota-race").await);
    bed.limit("mount", json!({"path": "probe", "max_leases": 7})).await;
    let asking: Vec<_> = (0..32)
        .map(|_| {
            let bed = Arc::clone(&bed);
            tokio::spawn(async move { bed.lease("probe/lease/reader").await.0 })
        })
        .collect();
    let mut successes = 0;
    for one in asking {
        match one.await.unwrap() {
            200 => successes += 1,
            refused => assert_eq!(refused, 429),
        }
    }
    assert_eq!(successes, 7);
    assert_eq!(bed.shown("mount").await["counter"], 7);
}

#[tokio::test(flavor = "multi_thread")]
async fn quota_changes_survive_restart_and_end_with_mount() {
    let bed = Bed::new("quota-life").await;
    bed.limit("mount", json!({"path": "probe", "max_leases": 1})).await;
    bed.leases("probe/lease/reader", 1).await;
    assert_eq!(bed.lease("probe/lease/reader").await.0, 429);
    bed.limit("mount", json!({"max_leases": 2})).await;
    bed.leases("probe/lease/reader", 1).await;
    assert_eq!(bed.lease("probe/lease/reader").await.0, 429);

    let bed = Bed::open(bed.stop().await).await;
    let (status, answer) = bed.lease("probe/lease/reader").await;
    assert_eq!(status, 429, "{answer}");
    assert_eq!(bed.shown("mount").await["path"], "probe/");

    bed.disables_with_quota("sys/mounts/probe", "mount").await;
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn raised_quota_counts_existing_leases() {
    let bed = Bed::new("quota-raised").await;
    bed.leases("probe/lease/reader", 3).await;
    for max_leases in [1, 2, 3] {
        bed.limit("mount", json!({"path": "probe", "max_leases": max_leases})).await;
        let (status, answer) = bed.lease("probe/lease/reader").await;
        assert_eq!(status, 429, "there are 3, {max_leases} are allowed: {answer}");
    }
    bed.limit("mount", json!({"max_leases": 4})).await;
    bed.leases("probe/lease/reader", 1).await;
    assert_eq!(bed.lease("probe/lease/reader").await.0, 429);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_fails_gives_its_place_back() {
    let bed = Bed::new("quota-failing").await;
    bed.limit("mount", json!({"path": "probe", "max_leases": 2})).await;
    let lease_status = async |how: &str| {
        let fields = json!({"ttl": 3_600, "how": how});
        bed.write("probe/lease/reader", fields).await.0
    };
    bed.leases("probe/lease/reader", 1).await;
    // Refused by the target outside, refused before the component is entered, and answered without
    // a lease: no such request leaves anything.
    for _ in 0..8 {
        assert_eq!(lease_status("surely").await, 400);
        let malformed = json!({"ttl": "soon", "how": "ok"});
        assert_eq!(bed.write("probe/lease/reader", malformed).await.0, 400);
        assert_eq!(bed.shown("mount").await["counter"], 1);
    }
    assert_eq!(lease_status("ok").await, 200);
    assert_eq!(lease_status("ok").await, 429);

    // A failed request that may have left an object outside frees the place after the undo.
    bed.limit("mount", json!({"path": "probe", "max_leases": 3})).await;
    for how in ["perhaps", "forget", "perhaps"] {
        let began = std::time::Instant::now();
        while matches!(lease_status(how).await, 429) {
            assert!(
                began.elapsed() < crate::bed::PATIENCE,
                "{how}: a failed request keeps its place"
            );
            tokio::task::yield_now().await;
        }
    }
    let began = std::time::Instant::now();
    while lease_status("ok").await != 200 {
        assert!(
            began.elapsed() < crate::bed::PATIENCE,
            "a failed request keeps its place in the quota"
        );
        tokio::task::yield_now().await;
    }
    assert_eq!(bed.shown("mount").await["counter"], 3);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn auth_mount_quota_counts_tokens_not_failed_logins() {
    let bed = crate::logins::open("quota-logins").await;
    bed.limit("people", json!({"path": "auth/doorman", "max_leases": 2})).await;
    bed.limit("all", json!({"max_leases": 4})).await;
    for _ in 0..6 {
        let (status, answer) = bed.login(json!({"alias": "eve", "refuse": "no"})).await;
        assert_eq!(status, 403, "{answer}");
        // Admitted by the auth method, and refused by the bounds of the login.
        let elsewhere = json!({"alias": "eve", "bound_cidrs": ["192.0.2.0/24"]});
        assert_eq!(bed.login(elsewhere).await.0, 403);
    }
    let amy = bed.admit(json!({"alias": "amy", "ttl": 3_600})).await;
    bed.admit(json!({"alias": "bob", "ttl": 3_600})).await;
    let third = async || bed.login(json!({"alias": "eve", "ttl": 3_600})).await;
    let (status, answer) = third().await;
    assert_eq!(status, 429, "{answer}");
    assert!(error(&answer).contains("\"people\""), "{answer}");
    let (_, entities) = bed.call(Verb::List, "identity/entity-alias/id", json!({})).await;
    assert_eq!(entities["data"]["keys"].as_array().unwrap().len(), 2, "nothing was stored of it");
    bed.admit(json!({"alias": "eve", "token_type": "batch", "ttl": 60})).await;
    assert_eq!(bed.shown("people").await["counter"], 2);
    assert_eq!(bed.shown("people").await["path"], "auth/doorman/");

    // They count among all leases, too, and are counted again after a restart.
    bed.leases("probe/lease/reader", 2).await;
    let bed = crate::logins::reopen(bed.stop().await).await;
    assert_eq!(bed.shown("all").await["counter"], 4);
    assert!(error(&bed.lease("probe/lease/reader").await.1).contains("\"all\""));
    assert_eq!(bed.login(json!({"alias": "eve"})).await.0, 429);

    let accessor = json!({"accessor": amy["accessor"]});
    assert_eq!(bed.write("auth/token/revoke-accessor", accessor).await.0, 204);
    let began = std::time::Instant::now();
    while bed.login(json!({"alias": "eve", "ttl": 3_600})).await.0 != 200 {
        assert!(began.elapsed() < crate::bed::PATIENCE, "a token that ended makes no room");
        tokio::task::yield_now().await;
    }
    assert_eq!(bed.shown("people").await["counter"], 2);
    bed.disables_with_quota("sys/auth/doorman", "people").await;
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_login_quota_is_refused_with_remedy() {
    let bed = crate::logins::open("quota-logins-refused").await;
    for (quota, says) in [
        (json!({"path": "auth/doorman/login", "max_leases": 5}), "give the path auth/doorman/"),
        (json!({"path": "auth/doorman", "role": "x", "max_leases": 5}), "leave role out"),
        (json!({"path": "auth/nothing", "max_leases": 5}), "invalid mount path"),
    ] {
        let (status, answer) = bed.write(&format!("{QUOTAS}/second"), quota).await;
        assert_eq!(status, 400, "{answer}");
        assert!(error(&answer).contains(says), "{says}: {answer}");
    }
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_logins_stop_exactly_at_quota() {
    let bed = Arc::new(crate::logins::open("quota-logins-race").await);
    bed.limit("people", json!({"path": "auth/doorman", "max_leases": 7})).await;
    let asking: Vec<_> = (0..32)
        .map(|number| {
            let (bed, say) = (Arc::clone(&bed), json!({"alias": format!("eve-{number}")}));
            tokio::spawn(async move { bed.login(say).await.0 })
        })
        .collect();
    let mut successes = 0;
    for one in asking {
        match one.await.unwrap() {
            200 => successes += 1,
            refused => assert_eq!(refused, 429),
        }
    }
    assert_eq!((successes, &bed.shown("people").await["counter"]), (7, &json!(7)));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_quota_is_refused_with_the_remedy() {
    let bed = Bed::new("quota-refused").await;
    bed.limit("first", json!({"path": "probe", "max_leases": 1})).await;
    for (quota, says) in [
        (json!({"path": "probe/lease"}), "max_leases is missing"),
        (json!({"path": "probe/lease", "max_leases": 0}), "max_leases is 0"),
        (json!({"path": "probe/lease", "max_leases": -5}), "1 to 10000000"),
        (json!({"path": "probe/lease", "max_leases": "many"}), "many"),
        (json!({"path": "nothing/here", "max_leases": 5}), "nothing/here"),
        (json!({"path": "sys", "max_leases": 5}), "invalid mount path"),
        (json!({"path": "/probe/", "max_leases": 5}), "\"first\""),
        (json!({"path": "probe", "role": "x", "max_leases": 5}), "database/creds/reader"),
        (json!({"inheritable": true, "max_leases": 5}), "namespaces"),
    ] {
        let (status, answer) = bed.write(&format!("{QUOTAS}/second"), quota).await;
        assert_eq!(status, 400, "{answer}");
        assert!(error(&answer).contains(says), "{says}: {answer}");
    }
    let (_, listed) = bed.call(Verb::List, QUOTAS, json!({})).await;
    assert_eq!(listed["data"]["keys"], json!(["first"]));
    for _ in 0..2 {
        let deleted = bed.call(Verb::Delete, &format!("{QUOTAS}/first"), json!({})).await;
        assert_eq!(deleted.0, 204);
    }
    assert_eq!(bed.call(Verb::List, QUOTAS, json!({})).await.0, 404);
    bed.leases("probe/lease/reader", 2).await;
    bed.end().await;
}

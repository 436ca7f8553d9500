//! Names locked after failed logins. The doorman (`tests/guests/doorman`) proves nothing: the
//! doorman refuses on demand, and tells the name of the login.

use crate::bed::{Bed, error, official};
use bulkhead_audit::AuditSettings;
use bulkhead_wire::description::Verb;
use serde_json::{Value, json};
use std::sync::Arc;

/// A service with the probe, and the doorman at `auth/doorman`.
async fn open(name: &str) -> Bed {
    let directory =
        std::env::temp_dir().join(format!("bulkhead-core-{name}-{}", std::process::id()));
    let officials = ["probe", "doorman"].map(official);
    Bed::with(directory, officials.into(), AuditSettings::default()).await.unwrap()
}

impl Bed {
    async fn log_in(&self, name: &str) -> (u16, Value) {
        let say = json!({"alias": name});
        self.call_as("", Verb::Write, "auth/doorman/login", json!({"say": say})).await
    }

    async fn fail(&self, name: &str, times: u32) {
        for _ in 0..times {
            let say = json!({"alias": name, "refuse": "wrong"});
            let body = json!({"say": say});
            let (status, answer) = self.call_as("", Verb::Write, "auth/doorman/login", body).await;
            assert_eq!(status, 403, "{answer}");
        }
    }

    async fn locked(&self) -> Value {
        let (status, answer) = self.call(Verb::Read, "sys/locked-users", json!({})).await;
        assert_eq!(status, 200, "{answer}");
        answer["data"].clone()
    }

    async fn accessor(&self) -> String {
        let auth = self.call(Verb::Read, "sys/auth", json!({})).await.1;
        auth["data"]["doorman/"]["accessor"].as_str().unwrap().to_owned()
    }

    async fn tune(&self, lockout: Value) -> (u16, Value) {
        let body = json!({"user_lockout_config": lockout});
        self.call(Verb::Write, "sys/auth/doorman/tune", body).await
    }
}

#[tokio::test]
async fn five_failures_lock_name_until_operator_unlocks() {
    let bed = open("lockout").await;
    bed.fail("eve", 4).await;
    assert_eq!(bed.log_in("eve").await.0, 200, "a proof ends the count");
    bed.fail("eve", 5).await;
    let (status, answer) = bed.log_in("eve").await;
    assert_eq!(status, 403, "{answer}");
    assert!(error(&answer).contains("sys/locked-users"), "{answer}");
    assert_eq!(bed.log_in("bob").await.0, 200, "another name is not locked");

    let accessor = bed.accessor().await;
    let of_mount = json!([{
        "mount_accessor": accessor, "counts": 1, "alias_identifiers": ["eve"],
    }]);
    let of_root = json!([{
        "namespace_id": "root", "namespace_path": "", "counts": 1, "mount_accessors": of_mount,
    }]);
    assert_eq!(bed.locked().await, json!({"by_namespace": of_root, "total": 1}));

    let path = format!("sys/locked-users/{accessor}/unlock/eve");
    assert_eq!(bed.call(Verb::Write, &path, json!({})).await.0, 204);
    assert_eq!(bed.locked().await["total"], 0);
    assert_eq!(bed.log_in("eve").await.0, 200);
    let (status, answer) =
        bed.call(Verb::Write, "sys/locked-users/nonsense/unlock/eve", json!({})).await;
    assert_eq!(status, 400);
    assert!(error(&answer).contains("\"nonsense\""), "{answer}");
}

#[tokio::test]
async fn a_mount_says_when_its_names_are_locked() {
    let bed = open("lockout-tune").await;
    assert_eq!(bed.tune(json!({"lockout_threshold": "2"})).await.0, 204);
    bed.fail("eve", 2).await;
    assert_eq!(bed.log_in("eve").await.0, 403);
    let shown = bed.call(Verb::Read, "sys/auth/doorman/tune", json!({})).await.1;
    assert_eq!(shown["data"]["user_lockout_config"]["lockout_threshold"], 2, "{shown}");
    assert_eq!(shown["data"]["user_lockout_config"]["lockout_duration"], 900, "{shown}");

    assert_eq!(bed.tune(json!({"lockout_disable": true})).await.0, 204);
    assert_eq!(bed.log_in("eve").await.0, 200, "lockout_disable unlocks the names of the mount");
    bed.fail("eve", 6).await;
    assert_eq!(bed.log_in("eve").await.0, 200);

    let (status, answer) = bed.tune(json!({"lockout_threshold": 0})).await;
    assert_eq!(status, 400);
    assert!(error(&answer).contains("lockout_disable"), "{answer}");
    let body = json!({"user_lockout_config": {"lockout_threshold": 2}});
    let (status, answer) = bed.call(Verb::Write, "sys/mounts/probe/tune", body).await;
    assert_eq!(status, 400, "{answer}");
    assert!(error(&answer).contains("auth methods only"), "{answer}");
}

#[tokio::test]
async fn concurrent_guesses_after_lock_are_all_refused() {
    let bed = open("lockout-race").await;
    assert_eq!(bed.tune(json!({"lockout_threshold": 1})).await.0, 204);
    bed.fail("eve", 1).await;
    let bed = Arc::new(bed);
    let guesses: Vec<_> = (0..32)
        .map(|number| {
            let bed = Arc::clone(&bed);
            tokio::spawn(async move {
                let mut say = json!({"alias": "eve"});
                if number % 2 == 0 {
                    say["refuse"] = json!("wrong");
                }
                bed.call_as("", Verb::Write, "auth/doorman/login", json!({"say": say})).await
            })
        })
        .collect();
    let mut answers = Vec::new();
    for guess in guesses {
        answers.push(guess.await.unwrap());
    }
    let first = &answers[0].1["errors"];
    assert!(first[0].as_str().unwrap().contains("failed"), "{first}");
    assert!(answers.iter().all(|(status, answer)| *status == 403 && answer["errors"] == *first));
}

//! Callers without a token: the parts of their requests that are looked at, and how often the
//! callers are answered.

use crate::bed::{Bed, request};
use bulkhead_api::BodyAdmission;
use bulkhead_audit::{AuditSettings, DeviceSettings};
use bulkhead_wire::description::Verb;
use bulkhead_wire::request::RequestHead;
use bulkhead_wire::secret::Secret;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::task::JoinSet;

impl Bed {
    async fn admitted(&self, token: &str, path: &str) -> BodyAdmission {
        let (token, remote) = (Secret::new(token), "127.0.0.1".parse().unwrap());
        let (token, wrap_ttl) = (Some(&token), None);
        let head = RequestHead { verb: Verb::Write, path, token, remote, wrap_ttl };
        self.service.admit_body(&head).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn request_head_decides_admitted_body_fields() {
    let bed = Bed::new("admitted").await;
    let bound = json!({ "policies": "default", "ttl": "1h" });
    bed.write("auth/token/roles/bound", json!({ "token_bound_cidrs": "192.0.2.0/24" })).await;
    let (status, answer) = bed.write("auth/token/create/bound", bound).await;
    assert_eq!(status, 200, "{answer}");
    let elsewhere = answer["auth"]["client_token"].as_str().unwrap();
    for path in ["probe/count/x", "sys/seal", "nowhere"] {
        assert_eq!(bed.admitted("root", path).await, BodyAdmission::Whole);
        for token in ["", "wrong", "bhs.none-of-ours", elsewhere] {
            assert_eq!(bed.admitted(token, path).await, BodyAdmission::Nothing, "{path}");
        }
    }
    for token in ["", "root"] {
        let names = ["key", "reset", "migrate"].map(str::to_owned).to_vec();
        assert_eq!(bed.admitted(token, "sys/unseal").await, BodyAdmission::Fields(names));
        let names = ["generic_mount_paths", "mount"].map(str::to_owned).to_vec();
        let specs = bed.admitted(token, "sys/internal/specs/openapi").await;
        assert_eq!(specs, BodyAdmission::Fields(names));
    }
    bed.service.stop().await;
    assert_eq!(bed.admitted("root", "probe/count/x").await, BodyAdmission::Nothing);
    assert_ne!(bed.admitted("", "sys/unseal").await, BodyAdmission::Nothing);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn token_admission_check_consumes_no_use() {
    let bed = Bed::new("looked").await;
    let fields = json!({ "policies": "default", "num_uses": 1 });
    let (_, answer) = bed.write("auth/token/create", fields).await;
    let token = answer["auth"]["client_token"].as_str().unwrap();
    for _ in 0..3 {
        assert_eq!(bed.admitted(token, "auth/token/renew-self").await, BodyAdmission::Whole);
    }
    assert_eq!(bed.call_as(token, Verb::Read, "auth/token/lookup-self", json!({})).await.0, 200);
    assert_eq!(bed.admitted(token, "auth/token/renew-self").await, BodyAdmission::Nothing);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn request_with_discarded_body_is_refused_for_everyone() {
    let bed = Bed::new("unread").await;
    for (token, path, status) in [
        ("root", "probe/count/unread", 503),
        ("root", "sys/internal/specs/openapi", 503),
        ("", "probe/count/unread", 403),
    ] {
        let mut call = request(token, Verb::Write, path, json!({}));
        call.is_unread = true;
        assert_eq!(bed.service.handle(call).await.into_bytes().0, status, "{token} {path}");
    }
    assert_eq!(bed.read("probe/note/unread").await.0, 404, "the component was never called");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn openapi_document_follows_visible_mounts() {
    let bed = Bed::new("described").await;
    let path = "sys/internal/specs/openapi";
    let paths = async |token: &str| {
        let answer = bed.call_as(token, Verb::Read, path, json!({})).await.1;
        answer["paths"].as_object().unwrap().keys().cloned().collect::<Vec<String>>()
    };
    let (before, generic) = (paths("root").await, paths("").await);
    assert_eq!(paths("root").await, before);
    assert_eq!(bed.write("sys/mounts/later", json!({ "type": "probe" })).await.0, 204);
    let after = paths("root").await;
    assert!(after.iter().any(|path| path.starts_with("/later/")) && after.len() > before.len());
    assert_eq!(paths("").await, generic, "strangers see no mount");
    bed.end().await;
}

/// Burst of answers for a client without a token.
const BURST: usize = 1_000;

#[tokio::test(flavor = "multi_thread")]
async fn rate_limit_covers_failed_lookups_not_valid_tokens() {
    let directory = std::env::temp_dir().join(format!("bulkhead-core-rate-{}", std::process::id()));
    let file = directory.join("audit.log");
    let audit = AuditSettings {
        devices: vec![DeviceSettings::new("main", file.clone())],
        api_directory: None,
    };
    let bed = Bed::audited(directory, audit).await.unwrap();
    let bed = Arc::new(bed);
    let cases = [("bhs.none-of-ours", "probe/note/x"), ("", "sys/internal/ui/mounts")];
    let mut asking = JoinSet::new();
    for number in 0..3 * BURST {
        let ((token, path), bed) = (cases[number % 2], Arc::clone(&bed));
        asking.spawn(async move { bed.call_as(token, Verb::Read, path, json!({})).await.0 });
    }
    let limited = asking.join_all().await.into_iter().filter(|status| *status == 429).count();
    assert!(limited > BURST, "{limited} of {} were refused", 3 * BURST);
    let lines = std::fs::read_to_string(file).unwrap().lines().count();
    assert_eq!(lines, 2 * (3 * BURST - limited), "refused requests leave no audit line");
    bed.line("unauthenticated-requests-refused").await;
    // Persistent callers take each answer that becomes available.
    let mut flood = JoinSet::new();
    for _ in 0..200 {
        let bed = Arc::clone(&bed);
        flood.spawn(async move {
            loop {
                bed.call_as("", Verb::Read, "probe/note/x", json!({})).await;
            }
        });
    }
    for path in ["probe/note/x", "sys/unseal", "nowhere"] {
        let refused = loop {
            if let BodyAdmission::Refused(refused) = bed.admitted("", path).await {
                break refused;
            }
        };
        assert_eq!(
            refused.retry_after,
            Some(1_000),
            "the request is refused before its body is read"
        );
    }
    let unseal = async || bed.call_as("", Verb::Write, "sys/unseal", json!({ "key": "x" })).await.0;
    while unseal().await != 429 {}
    assert_eq!(bed.admitted("root", "probe/note/x").await, BodyAdmission::Whole);
    assert_eq!(bed.read("sys/mounts").await.0, 200, "a token that holds is served");
    assert_eq!(bed.call_as("", Verb::Read, "sys/health", json!({})).await.0, 200);
    let mut elsewhere = request("", Verb::Read, "probe/note/x", json!({}));
    elsewhere.remote = "192.0.2.7".parse().unwrap();
    assert_eq!(bed.service.handle(elsewhere).await.into_bytes().0, 403);
    flood.shutdown().await;
    Arc::into_inner(bed).unwrap().end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_unseals_are_logged_and_audited_with_address() {
    let directory =
        std::env::temp_dir().join(format!("bulkhead-core-unseals-{}", std::process::id()));
    let file = directory.join("audit.log");
    let audit = AuditSettings {
        devices: vec![DeviceSettings::new("main", file.clone())],
        api_directory: None,
    };
    let bed = Bed::audited(directory, audit).await.unwrap();
    bed.service.stop().await;
    let share = "ab".repeat(32);
    for (number, key) in ["hunter2", &share].into_iter().cycle().take(100).enumerate() {
        let mut call = request("", Verb::Write, "sys/unseal", json!({ "key": key }));
        call.remote = [192, 0, 2, u8::try_from(number).unwrap()].into();
        assert_eq!(bed.service.handle(call).await.into_bytes().0, 400);
    }
    let line = bed.line("unseal-refused").await;
    assert!(line.contains("192.0.2.0") && !line.contains("hunter2"), "{line}");
    bed.service.open_dev(&Secret::new("root")).await.unwrap();
    let text = std::fs::read_to_string(file).unwrap();
    let lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect();
    let unseals: Vec<&Value> =
        lines.iter().filter(|line| line["request"]["path"] == "sys/unseal").collect();
    assert_eq!(unseals.len(), 64);
    assert_eq!(unseals[1]["request"]["remote_address"], "192.0.2.1");
    assert!(unseals[1]["error"].as_str().unwrap().contains("do not open"), "{}", unseals[1]);
    assert_eq!(unseals[63]["others_refused"], 36);
    assert!(!text.contains(&share) && !text.contains("hunter2"));
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bogus_share_does_not_block_same_number_share() {
    let directory =
        std::env::temp_dir().join(format!("bulkhead-core-bogus-{}", std::process::id()));
    let bed = Bed::sealed(directory).await;
    let fields = json!({ "secret_shares": 5, "secret_threshold": 3 });
    let (status, init_answer) = bed.call_as("", Verb::Write, "sys/init", fields).await;
    assert_eq!(status, 200, "{init_answer}");
    let share = |number: usize| init_answer["keys"][number].as_str().unwrap().to_owned();
    let give = async |key: &str| {
        let (status, answer) =
            bed.call_as("", Verb::Write, "sys/unseal", json!({ "key": key })).await;
        assert_eq!(status, 200, "{answer}");
        (answer["progress"].as_u64(), answer["sealed"].as_bool())
    };
    let bogus = |number: usize, filler: &str| format!("{}{:02x}", filler.repeat(32), number + 1);
    assert_eq!(give(&bogus(0, "ab")).await, (Some(1), Some(true)));
    assert_eq!(give(&share(1)).await, (Some(2), Some(true)));
    assert_eq!(
        give(&share(0)).await,
        (Some(2), Some(true)),
        "the right share is kept besides the bogus share"
    );
    assert_eq!(give(&bogus(1, "cd")).await, (Some(2), Some(true)));
    assert_eq!(give(&share(3)).await, (Some(0), Some(false)));
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bogus_share_of_unused_number_keeps_right_shares() {
    let directory =
        std::env::temp_dir().join(format!("bulkhead-core-unused-{}", std::process::id()));
    let bed = Bed::sealed(directory).await;
    let fields = json!({ "secret_shares": 5, "secret_threshold": 3 });
    let (status, init_answer) = bed.call_as("", Verb::Write, "sys/init", fields).await;
    assert_eq!(status, 200, "{init_answer}");
    let give = async |key: &str| {
        let (status, answer) =
            bed.call_as("", Verb::Write, "sys/unseal", json!({ "key": key })).await;
        (status, answer["progress"].as_u64(), answer["sealed"].as_bool())
    };
    let share = |number: usize| init_answer["keys"][number].as_str().unwrap().to_owned();
    let bogus = |filler: &str| format!("{}05", filler.repeat(32));
    assert_eq!(give(&share(0)).await, (200, Some(1), Some(true)));
    assert_eq!(give(&bogus("ab")).await, (200, Some(2), Some(true)));
    assert_eq!(give(&share(1)).await.0, 400, "the attempt is over");
    let (_, status) = bed.call_as("", Verb::Read, "sys/seal-status", json!({})).await;
    assert_eq!((&status["progress"], &status["sealed"]), (&json!(0), &json!(true)), "{status}");
    assert_eq!(give(&bogus("cd")).await, (200, Some(1), Some(true)));
    assert_eq!(give(&share(2)).await, (200, Some(0), Some(false)));
    bed.end().await;
}

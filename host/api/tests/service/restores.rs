//! The restore of a snapshot: who may send a body that goes to a file, and which bodies are
//! refused.

use crate::bed::{Bed, error, request};
use bulkhead_api::BodyAdmission;
use bulkhead_wire::description::Verb;
use bulkhead_wire::request::{Request, RequestHead};
use bulkhead_wire::secret::Secret;
use serde_json::{Value, json};
use std::path::PathBuf;

const PATHS: [&str; 4] = [
    "sys/storage/snapshot",
    "sys/storage/raft/snapshot",
    "sys/storage/snapshot-force",
    "sys/storage/raft/snapshot-force",
];

impl Bed {
    async fn admits_file(&self, token: &str, verb: Verb, path: &str) -> BodyAdmission {
        let (token, remote) = (Secret::new(token), "127.0.0.1".parse().unwrap());
        let head = RequestHead { verb, path, token: Some(&token), remote, wrap_ttl: None };
        self.service.admit_body(&head).await
    }

    /// Creates a token with these capabilities on every path for restores.
    async fn restorer(&self, capabilities: &str, uses: u32) -> String {
        let rules = PATHS.map(|path| format!("path {path:?} {{ capabilities = {capabilities} }}"));
        self.write("sys/policies/acl/restorer", json!({ "policy": rules.join("\n") })).await;
        let fields = json!({ "policies": ["restorer"], "num_uses": uses });
        let (_, created) = self.write("auth/token/create", fields).await;
        created["auth"]["client_token"].as_str().unwrap().to_owned()
    }

    async fn answer(&self, request: Request) -> (u16, Value) {
        let (status, _, body) = self.service.handle(request).await.into_bytes();
        (status, serde_json::from_slice(&body).unwrap_or_default())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn head_decides_whether_body_goes_to_file() {
    let bed = Bed::new("restore-admission").await;
    let token = bed.restorer(r#"["update", "sudo"]"#, 1).await;
    for path in PATHS {
        for _ in 0..2 {
            let admitted = bed.admits_file(&token, Verb::Write, path).await;
            assert!(matches!(admitted, BodyAdmission::File(_)), "{path}: {admitted:?}");
        }
        for token in ["", "wrong"] {
            let admitted = bed.admits_file(token, Verb::Write, path).await;
            assert_eq!(admitted, BodyAdmission::Discarded, "{path}");
        }
    }
    let read = bed.admits_file("root", Verb::Read, PATHS[0]).await;
    assert_eq!(read, BodyAdmission::Whole);
    for capabilities in [r#"["update"]"#, r#"["create", "read", "sudo"]"#, r#"["deny"]"#] {
        let token = bed.restorer(capabilities, 0).await;
        for path in PATHS {
            let admitted = bed.admits_file(&token, Verb::Write, path).await;
            assert_eq!(admitted, BodyAdmission::Discarded, "{path} with {capabilities}");
        }
    }
    bed.service.stop().await;
    let admitted = bed.admits_file("root", Verb::Write, PATHS[0]).await;
    assert_eq!(admitted, BodyAdmission::Discarded);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unread_snapshot_is_refused_by_policy() {
    let bed = Bed::new("restore-refused").await;
    let token = bed.restorer(r#"["update"]"#, 0).await;
    for path in PATHS {
        let unread = |token: &str| Request {
            is_unread: true,
            ..request(token, Verb::Write, path, json!({}))
        };
        let (status, answer) = bed.answer(unread(&token)).await;
        assert!(status == 403 && error(&answer).contains("without sudo"), "{path}: {answer}");
        let (status, answer) = bed.answer(unread("wrong")).await;
        assert_eq!(status, 403, "{path}: {answer}");
        // The rights were granted while the body was discarded.
        let (status, answer) = bed.answer(unread("root")).await;
        assert!(status == 503 && error(&answer).contains("send it again"), "{path}: {answer}");
        let (status, answer) = bed.answer(request("root", Verb::Write, path, json!({}))).await;
        assert!(status == 400 && error(&answer).contains("body is empty"), "{path}: {answer}");
    }
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn empty_server_names_command_for_restoring() {
    let name = format!("bulkhead-api-restore-{}", std::process::id());
    let directory: PathBuf = std::env::temp_dir().join(name);
    let bed = Bed::sealed(directory).await;
    for path in PATHS {
        let (status, answer) = bed.answer(request("root", Verb::Write, path, json!({}))).await;
        assert_eq!(status, 400, "{answer}");
        for way in ["restore -data=DIR FILE", "restore -config=CONFIG FILE"] {
            assert!(error(&answer).contains(way), "{answer}");
        }
    }
    let (status, _) = bed.answer(request("root", Verb::Read, PATHS[0], json!({}))).await;
    assert_eq!(status, 503, "a read of a sealed server");
    bed.end().await;
    let bed = Bed::new("restore-sealed").await;
    bed.service.stop().await;
    let (status, _) = bed.answer(request("root", Verb::Write, PATHS[0], json!({}))).await;
    assert_eq!(status, 503, "the data are sealed");
    bed.end().await;
}

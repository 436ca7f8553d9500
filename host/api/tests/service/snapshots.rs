//! `sys/storage/snapshot`: a streamed answer that is checked by policy and recorded like any other.

use crate::bed::{Bed, error, request};
use bulkhead_store::{KeyShare, check_snapshot, inspect_snapshot, read_key_file};
use bulkhead_wire::description::Verb;
use bulkhead_wire::request::Request;
use bulkhead_wire::response::ResponseBody;
use serde_json::json;
use std::future::poll_fn;
use std::path::PathBuf;

const PATHS: [&str; 2] = ["sys/storage/snapshot", "sys/storage/raft/snapshot"];

impl Bed {
    /// Takes a snapshot as root and returns its file.
    async fn snapshot(&self, path: &str) -> PathBuf {
        let response = self.service.handle(request("root", Verb::Read, path, json!({}))).await;
        let ResponseBody::Streamed { content_type, stream } = response.body else {
            panic!("{response:?}")
        };
        assert_eq!((response.status, content_type.as_str()), (200, "application/gzip"));
        let mut bytes = Vec::new();
        while let Some(piece) = poll_fn(|context| stream.poll_chunk(context)).await {
            bytes.extend(piece.unwrap());
        }
        let file = self.directory.join("a.snap");
        std::fs::write(&file, bytes).unwrap();
        file
    }

    fn shares(&self) -> Vec<KeyShare> {
        read_key_file(&self.directory.join("dev-seal.key")).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn snapshot_streams_every_record_on_both_paths() {
    let bed = Bed::new("snapshots").await;
    for path in PATHS {
        let file = bed.snapshot(path).await;
        let summary = inspect_snapshot(&file).unwrap();
        assert!(summary.manifest.taken_at.ends_with('Z'), "{:?}", summary.manifest);
        let report = check_snapshot(&file, bed.shares(), &mut |_| {}).await.unwrap();
        assert!(report.records > 0 && report.damages.is_empty(), "{report:?}");
        assert_eq!(report.opened, Some(summary.manifest.records));
    }
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn snapshot_needs_sudo_and_is_never_wrapped() {
    let bed = Bed::new("snapshot-rights").await;
    let policy = |capabilities: &str| {
        let rule =
            format!("path \"sys/storage/raft/snapshot\" {{ capabilities = {capabilities} }}");
        json!({ "policy": rule })
    };
    for (capabilities, status) in [("[\"read\"]", 403), ("[\"read\", \"sudo\"]", 200)] {
        bed.write("sys/policies/acl/backup", policy(capabilities)).await;
        let (_, created) = bed.write("auth/token/create", json!({ "policies": ["backup"] })).await;
        let token = created["auth"]["client_token"].as_str().unwrap();
        for path in PATHS {
            let answer = bed.service.handle(request(token, Verb::Read, path, json!({}))).await;
            assert_eq!(answer.status, status, "{path} with {capabilities}");
            if status == 403 {
                let (_, _, body) = answer.into_bytes();
                let refusal = serde_json::from_slice(&body).unwrap();
                assert!(error(&refusal).contains("without sudo; the policy needs"), "{refusal}");
            }
        }
    }
    let wrapped =
        Request { wrap_ttl: Some(60), ..request("root", Verb::Read, PATHS[0], json!({})) };
    let (status, _, body) = bed.service.handle(wrapped).await.into_bytes();
    let answer = serde_json::from_slice(&body).unwrap();
    assert_eq!(status, 400, "{answer}");
    assert!(error(&answer).contains("too large to be wrapped"), "{answer}");
    bed.end().await;
}

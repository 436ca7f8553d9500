//! Callers without a token: what of their requests is looked at, and how often they are answered.

use crate::bed::{Bed, request};
use bulkhead_core::BodyAdmission;
use bulkhead_wire::description::Verb;
use bulkhead_wire::request::Head;
use bulkhead_wire::secret::Secret;
use serde_json::json;

impl Bed {
    async fn admitted(&self, token: &str, path: &str) -> BodyAdmission {
        let (token, remote) = (Secret::new(token), "127.0.0.1".parse().unwrap());
        let head = Head { verb: Verb::Write, path, token: Some(&token), remote };
        self.service.admit_body(&head).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_head_of_a_request_decides_what_of_its_body_is_read() {
    let bed = Bed::new("admitted").await;
    let bound = json!({ "policies": "default", "ttl": "1h" });
    bed.write("auth/token/roles/bound", json!({ "token_bound_cidrs": "192.0.2.0/24" })).await;
    let (status, made) = bed.write("auth/token/create/bound", bound).await;
    assert_eq!(status, 200, "{made}");
    let elsewhere = made["auth"]["client_token"].as_str().unwrap();
    for path in ["probe/count/x", "sys/seal", "nowhere"] {
        assert_eq!(bed.admitted("root", path).await, BodyAdmission::Whole);
        for token in ["", "wrong", "bhs.none-of-ours", elsewhere] {
            assert_eq!(bed.admitted(token, path).await, BodyAdmission::Nothing, "{path}");
        }
    }
    for token in ["", "root"] {
        let names = ["key", "reset", "migrate"].map(str::to_owned).to_vec();
        assert_eq!(bed.admitted(token, "sys/unseal").await, BodyAdmission::Fields(names));
        let names = vec!["generic_mount_paths".to_owned()];
        let specs = bed.admitted(token, "sys/internal/specs/openapi").await;
        assert_eq!(specs, BodyAdmission::Fields(names));
    }
    bed.service.stop().await;
    assert_eq!(bed.admitted("root", "probe/count/x").await, BodyAdmission::Nothing);
    assert_ne!(bed.admitted("", "sys/unseal").await, BodyAdmission::Nothing);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn to_look_at_a_token_takes_none_of_its_uses() {
    let bed = Bed::new("looked").await;
    let asked = json!({ "policies": "default", "num_uses": 1 });
    let (_, made) = bed.write("auth/token/create", asked).await;
    let token = made["auth"]["client_token"].as_str().unwrap();
    for _ in 0..3 {
        assert_eq!(bed.admitted(token, "auth/token/renew-self").await, BodyAdmission::Whole);
    }
    assert_eq!(bed.call_as(token, Verb::Read, "auth/token/lookup-self", json!({})).await.0, 200);
    assert_eq!(bed.admitted(token, "auth/token/renew-self").await, BodyAdmission::Nothing);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_whose_body_was_thrown_away_is_refused_whoever_sends_it() {
    let bed = Bed::new("unread").await;
    for (token, path, status) in [
        ("root", "probe/count/unread", 503),
        ("root", "sys/internal/specs/openapi", 503),
        ("", "probe/count/unread", 403),
    ] {
        let mut asked = request(token, Verb::Write, path, json!({}));
        asked.is_unread = true;
        assert_eq!(bed.service.handle(asked).await.into_bytes().0, status, "{token} {path}");
    }
    assert_eq!(bed.read("probe/note/unread").await.0, 404, "it was never entered");
    bed.end().await;
}

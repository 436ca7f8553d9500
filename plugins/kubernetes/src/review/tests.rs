//! Tests of `review.rs` on the test bed: answers of API servers, honest and not.

use crate::fixture::{
    AUDIENCE, TestMount, UID, answer, changed, confirmed, projected, refusal, reviewed,
};
use bulkhead_sdk::http::Response;
use bulkhead_sdk::{Failure, FailureKind};
use serde_json::{Value, json};

fn refused(fields: &Value, answer: Response) -> Failure {
    let stage = TestMount::with_role(fields);
    stage.answers(answer);
    stage.login(&projected()).err().expect("the login is refused")
}

fn with(pointer: &str, value: Value) -> Response {
    let mut status = confirmed();
    *status.pointer_mut(pointer).expect("a member") = value;
    reviewed(&status)
}

#[test]
fn claims_differing_from_reviewed_account_are_refused() {
    for (pointer, value) in [
        ("/user/username", json!("system:serviceaccount:apps:other")),
        ("/user/username", json!("system:serviceaccount:other:app")),
        ("/user/username", json!("system:serviceaccount:Apps:app")),
        ("/user/username", json!("system:serviceaccount:apps:app:x")),
        ("/user/username", json!("system:node:apps:app")),
        ("/user/username", json!("apps/app")),
        ("/user/username", json!("")),
        ("/user/uid", json!("another")),
        ("/user/uid", json!("")),
        ("/user/uid", json!(UID.to_uppercase())),
        ("/user", json!({})),
        ("/user", Value::Null),
    ] {
        let why = refused(&json!({}), with(pointer, value.clone()));
        assert_eq!(why.kind, FailureKind::PermissionDenied, "{pointer} {value}");
        assert!(why.message.contains("another account"), "{pointer} {value}: {}", why.message);
    }
}

#[test]
fn names_bound_by_claims_alone_admit_nobody() {
    let stage = TestMount::with_role(&json!({}));
    let mut real = confirmed();
    real["user"]["username"] = json!("system:serviceaccount:other:guest");
    stage.answers(reviewed(&real));
    // The signature of `other:guest` below the claims of `apps:app`, for an API server that does
    // not compare both.
    assert!(stage.denied(&projected()).contains("another account"));
}

#[test]
fn a_token_that_is_not_authenticated_is_refused() {
    for status in [
        json!({}),
        json!({"authenticated": false}),
        json!({"authenticated": false, "user": confirmed()["user"], "audiences": [AUDIENCE]}),
        json!({"authenticated": false, "error": "[invalid bearer token]"}),
        json!({"user": confirmed()["user"], "audiences": [AUDIENCE]}),
    ] {
        let why = refused(&json!({}), reviewed(&status));
        assert_eq!(why.kind, FailureKind::PermissionDenied, "{status}");
        assert!(why.message.contains("does not accept the token"), "{status}: {}", why.message);
    }
}

#[test]
fn error_beside_confirmation_is_refused_without_its_text() {
    let mut status = confirmed();
    status["error"] = json!("the service account token has been invalidated\nlevel=error");
    let why = refused(&json!({}), reviewed(&status));
    assert_eq!(why.kind, FailureKind::PermissionDenied);
    assert!(!why.message.contains("invalidated"), "{}", why.message);
}

#[test]
fn answer_without_confirmed_audience_is_refused() {
    for audiences in [
        Value::Null,
        json!([]),
        json!(["other"]),
        json!(["Bulkhead"]),
        json!(["bulkhead2", "bulk"]),
    ] {
        let why = refused(&json!({"audience": AUDIENCE}), with("/audiences", audiences.clone()));
        assert_eq!(why.kind, FailureKind::PermissionDenied, "{audiences}");
        assert!(why.message.contains("audience"), "{audiences}: {}", why.message);
    }
    let mut status = confirmed();
    status.as_object_mut().unwrap().remove("audiences");
    let why = refused(&json!({"audience": AUDIENCE}), reviewed(&status));
    assert!(why.message.contains("audience"), "an old API server: {}", why.message);
    let stage = TestMount::with_role(&json!({"audience": AUDIENCE}));
    stage.answers(with("/audiences", json!(["other", AUDIENCE])));
    assert!(stage.login(&projected()).is_ok());
}

#[test]
fn unreachable_or_broken_api_server_is_502() {
    for answer in [
        answer(500, &json!({})),
        answer(503, &json!({"message": "etcdserver: leader changed"})),
        answer(408, &json!({})),
        answer(302, &json!({})),
        answer(307, &json!({})),
        answer(200, &json!({"status": confirmed()})),
        answer(200, &json!({"kind": "TokenRequest", "status": confirmed()})),
        answer(200, &json!({"kind": "TokenReview"})),
        answer(200, &json!({"kind": "TokenReview", "status": {"authenticated": "true"}})),
        answer(204, &json!([])),
        Response { status: 200, body: b"<html>welcome</html>".to_vec(), ..Response::default() },
        Response { status: 200, ..Response::default() },
    ] {
        let status = answer.status;
        assert_eq!(refused(&json!({}), answer).kind, FailureKind::Unreachable, "{status}");
    }
    let stage = TestMount::with_role(&json!({}));
    assert_eq!(
        stage.login(&projected()).err().unwrap().kind,
        FailureKind::Unreachable,
        "no answer"
    );
    stage.bed.host.refuse("send", Failure::new(FailureKind::TimedOut, "slow"));
    assert_eq!(stage.login(&projected()).err().unwrap().kind, FailureKind::TimedOut);
}

#[test]
fn a_redirect_is_not_followed_with_the_token() {
    let stage = TestMount::with_role(&json!({}));
    let elsewhere = ("location".to_owned(), "https://thief.example/".to_owned());
    stage.answers(Response { status: 307, headers: vec![elsewhere], ..Response::default() });
    assert_eq!(stage.login(&projected()).err().unwrap().kind, FailureKind::Unreachable);
    stage.request();
}

#[test]
fn answer_with_duplicate_member_is_not_read() {
    let user = confirmed()["user"].to_string();
    let twice = r#""authenticated":false,"authenticated":true"#;
    let body = format!(r#"{{"kind":"TokenReview","status":{{{twice},"user":{user}}}}}"#);
    let answer = Response { status: 201, body: body.into_bytes(), ..Response::default() };
    assert_eq!(refused(&json!({}), answer).kind, FailureKind::Unreachable);
}

#[test]
fn refused_reviewer_gets_403_remedy_without_cluster_words() {
    for status in [401, 403] {
        let words = "User \"system:serviceaccount:vault:reviewer\" cannot create tokenreviews";
        let why = refused(&json!({}), refusal(status, words));
        assert_eq!(why.kind, FailureKind::PermissionDenied);
        assert!(why.message.contains("token_reviewer_jwt"), "{}", why.message);
        assert!(!why.message.contains("vault:reviewer"), "{}", why.message);
    }
}

#[test]
fn rate_limited_review_passes_on_retry_delay() {
    let delay = ("retry-after".to_owned(), "3".to_owned());
    let busy = Response { status: 429, headers: vec![delay], ..Response::default() };
    let why = refused(&json!({}), busy);
    assert_eq!((why.kind, why.retry_after), (FailureKind::RateLimited, Some(3_000)));
    let why = refused(&json!({}), refusal(404, "no such path"));
    assert_eq!(why.kind, FailureKind::InvalidRequest);
    assert!(why.message.contains("kubernetes_host"), "{}", why.message);
}

#[test]
fn host_field_names_are_translated_to_method_fields() {
    let stage = TestMount::with_role(&json!({}));
    let why = Failure::invalid("tls.root-certificates has no certificate");
    stage.bed.host.refuse("send", why);
    let said = stage.login(&projected()).err().unwrap().message;
    assert!(said.contains("kubernetes_ca_cert has no certificate"), "{said}");
}

#[test]
fn recreated_account_has_new_alias_except_by_name() {
    let alias = |source: &str, uid: &str| {
        let stage = TestMount::with_role(&json!({"alias_name_source": source}));
        stage.answers(with("/user/uid", json!(uid)));
        let login = stage.login(&changed("/kubernetes.io/serviceaccount/uid", json!(uid)));
        let login = login.unwrap();
        assert_eq!(login.metadata["service_account_uid"], uid);
        login.alias
    };
    let aliases = |source| [alias(source, UID), alias(source, "another")];
    assert_eq!(aliases("serviceaccount_uid"), [UID, "another"]);
    assert_eq!(aliases("serviceaccount_name"), ["apps/app", "apps/app"]);
}

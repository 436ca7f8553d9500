//! Tests of `login.rs` on the test bed.

use crate::fixture::{
    AUDIENCE, REVIEWER, TestMount, UID, changed, claims, confirmed, jwt, legacy_claims, projected,
    reviewed,
};
use bulkhead_sdk::FailureKind;
use serde_json::{Value, json};

fn stage(fields: &Value) -> TestMount {
    let stage = TestMount::with_role(fields);
    stage.answers(reviewed(&confirmed()));
    stage
}

#[test]
fn confirmed_account_logs_in_with_role_settings() {
    let stage = stage(&json!({"token_policies": "dev", "token_ttl": "10m"}));
    let login = stage.login(&projected()).unwrap();
    assert_eq!((login.alias.as_str(), login.display_name.as_str()), (UID, "apps-app"));
    assert_eq!(login.token.token_policies, ["dev"]);
    assert_eq!((login.token.token_ttl, login.renewable), (600, true));
    let metadata = json!({
        "role": "web", "service_account_name": "app", "service_account_namespace": "apps",
        "service_account_secret_name": "", "service_account_uid": UID,
    });
    assert_eq!(json!(login.metadata), metadata);
    assert!(!login.alias_metadata.contains_key("role"), "an account has many roles");
}

#[test]
fn secret_token_logs_in_with_secret_name() {
    let stage = stage(&json!({}));
    let login = stage.login(&jwt(&legacy_claims())).unwrap();
    assert_eq!(login.metadata["service_account_secret_name"], "app-token-x");
}

#[test]
fn review_holds_token_and_audience_hiding_both_tokens() {
    let stage = stage(&json!({"audience": AUDIENCE}));
    let token = projected();
    stage.login(&format!("{token}\n")).unwrap();
    let sent = stage.request();
    let body: Value = serde_json::from_slice(&sent.body).unwrap();
    assert_eq!(body["spec"], json!({"token": token, "audiences": [AUDIENCE]}));
    assert_eq!((&body["kind"], sent.safe), (&json!("TokenReview"), true));
    assert!(sent.headers.contains(&("authorization".to_owned(), format!("Bearer {REVIEWER}"))));
    assert!(sent.secrets.contains(&token) && sent.secrets.contains(&REVIEWER.to_owned()));
}

#[test]
fn review_without_audience_uses_api_server_audience() {
    let stage = stage(&json!({}));
    stage.login(&changed("/aud", json!("https://kubernetes.default.svc"))).unwrap();
    let body: Value = serde_json::from_slice(&stage.request().body).unwrap();
    assert!(body["spec"].get("audiences").is_none(), "{body}");
}

#[test]
fn account_beyond_bounds_is_refused_without_review() {
    let stage = stage(&json!({}));
    for (token, says) in [
        (changed("/kubernetes.io/namespace", json!("other")), "namespace not authorized"),
        (changed("/kubernetes.io/serviceaccount/name", json!("root")), "name not authorized"),
    ] {
        let said = stage.denied(&token);
        assert!(said.contains(says), "{said}");
    }
    stage.assert_nothing_sent();
}

#[test]
fn token_for_other_audience_is_refused_without_review() {
    let stage = stage(&json!({"audience": AUDIENCE}));
    for audience in [json!("other"), json!(["a", "b"]), json!([]), json!("Bulkhead"), json!("bulk")]
    {
        let said = stage.denied(&changed("/aud", audience));
        assert!(said.contains("audience of the role"), "{said}");
    }
    let said = stage.denied(&jwt(&legacy_claims()));
    assert!(said.contains("audience of the role"), "{said}");
    stage.assert_nothing_sent();
}

#[test]
fn expired_or_future_token_is_refused_without_review() {
    let stage = stage(&json!({}));
    stage.bed.host.advance(100_000);
    assert!(stage.denied(&changed("/exp", json!(1_000))).contains("expired"));
    let future = claims()["exp"].clone();
    assert!(stage.denied(&changed("/nbf", future)).contains("not valid yet"));
    stage.assert_nothing_sent();
}

#[test]
fn token_over_limit_is_refused_first() {
    let stage = TestMount::empty();
    let long = format!("{}.{}.c2ln", "a".repeat(8_192), "b".repeat(8_192));
    let refused = stage.login(&long).err().unwrap();
    assert_eq!(refused.kind, FailureKind::InvalidRequest);
    assert!(refused.message.contains("16 KiB"), "before the missing role: {}", refused.message);
}

#[test]
fn unknown_role_and_missing_configuration_are_caller_errors() {
    let stage = stage(&json!({}));
    for role in ["nobody", "a/b", "", "..", "we b"] {
        let body = json!({"role": role, "jwt": projected()});
        let refused = stage.bed.login("login", &body).err().unwrap();
        assert_eq!(refused.kind, FailureKind::InvalidRequest, "{role}");
    }
    let empty = TestMount::empty();
    empty.role("web", &json!({}));
    let refused = empty.login(&projected()).err().unwrap();
    assert!(refused.message.contains("write auth/kubernetes/config first"), "{}", refused.message);
    stage.assert_nothing_sent();
}

#[test]
fn a_login_spells_its_role_in_any_case() {
    let stage = stage(&json!({}));
    let body = json!({"role": "WEB", "jwt": projected()});
    let login = stage.bed.login("login", &body).unwrap();
    assert_eq!(login.metadata["role"], "web", "the role's own name");
}

#[test]
fn networks_are_checked_before_the_question() {
    let mut stage = stage(&json!({"token_bound_cidrs": "10.0.0.0/8"}));
    stage.bed.caller.remote_address = "192.0.2.1".to_owned();
    stage.denied(&projected());
    stage.assert_nothing_sent();
    stage.bed.caller.remote_address = "10.1.2.3".to_owned();
    assert!(stage.login(&projected()).is_ok());
}

#[test]
fn patterns_and_a_lone_star_admit() {
    for (names, namespaces) in [("*", "apps"), ("a*", "*"), ("*", "*"), ("x,app", "ap*,y")] {
        let stage = stage(&json!({
            "bound_service_account_names": names, "bound_service_account_namespaces": namespaces,
        }));
        assert!(stage.login(&projected()).is_ok(), "{names} {namespaces}");
    }
    let stage = stage(&json!({"bound_service_account_names": "App,APP*"}));
    assert!(stage.denied(&projected()).contains("name not authorized"), "case matters");
}

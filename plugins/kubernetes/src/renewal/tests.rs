//! Tests of `renewal.rs` on the test bed.

use crate::fixture::{AUDIENCE, TestMount, confirmed, projected, reviewed};
use bulkhead_sdk::{FailureKind, Login};
use serde_json::json;

fn stage() -> (TestMount, Login) {
    let stage = TestMount::with_role(&json!({"audience": AUDIENCE, "token_ttl": 60}));
    stage.answers(reviewed(&confirmed()));
    let login = stage.login(&projected()).unwrap();
    stage.request();
    (stage, login)
}

#[test]
fn renewal_rereads_role_without_api_server_request() {
    let (stage, login) = stage();
    stage.role("web", &json!({"token_ttl": 30, "alias_name_source": "serviceaccount_name"}));
    let renewed = stage.bed.renew_login(&login, 0).unwrap();
    assert_eq!((renewed.token.token_ttl, renewed.alias), (30, login.alias.clone()));
    assert_eq!(renewed.metadata, login.metadata);
    stage.assert_nothing_sent();
}

#[test]
fn role_no_longer_admitting_account_ends_renewals() {
    let (stage, login) = stage();
    for (field, value) in
        [("bound_service_account_names", "other"), ("bound_service_account_namespaces", "other")]
    {
        stage.role("web", &json!({field: value}));
        let refused = stage.bed.renew_login(&login, 0).err().unwrap();
        assert_eq!(refused.kind, FailureKind::PermissionDenied, "{field}");
    }
    stage.role("web", &json!({}));
    assert!(stage.bed.renew_login(&login, 0).is_ok());
}

#[test]
fn an_audience_that_was_not_proven_ends_renewals() {
    let (stage, login) = stage();
    stage.role("web", &json!({"audience": "another"}));
    let refused = stage.bed.renew_login(&login, 0).err().unwrap();
    assert!(refused.message.contains("another audience"), "{}", refused.message);
    stage.role("web", &json!({"audience": ""}));
    assert!(stage.bed.renew_login(&login, 0).is_ok());
}

#[test]
fn recreated_role_renews_no_login_of_old_role() {
    let (stage, login) = stage();
    stage.bed.delete("role/web").unwrap();
    assert_eq!(stage.bed.renew_login(&login, 0).err().unwrap().kind, FailureKind::InvalidRequest);
    stage.role("web", &json!({"audience": AUDIENCE}));
    let refused = stage.bed.renew_login(&login, 0).err().unwrap();
    assert!(refused.message.contains("does not exist during renewal"), "{}", refused.message);
}

//! Tests of `namespace.rs` on the test bed.

use crate::fixture::{
    REVIEWER, SERVER, TestMount, answer, changed, confirmed, projected, refusal, reviewed,
};
use bulkhead_sdk::FailureKind;
use bulkhead_sdk::http::Response;
use serde_json::{Value, json};

const SELECTOR: &str = "bound_service_account_namespace_selector";

/// A role for the accounts `app` of the namespaces of the team blue.
fn stage() -> TestMount {
    let selector =
        "matchLabels: {team: blue}\nmatchExpressions: [{key: old, operator: DoesNotExist}]";
    let stage = TestMount::with_role(&json!({
        "bound_service_account_namespaces": "", SELECTOR: selector, "token_ttl": 60,
    }));
    stage.answers(reviewed(&confirmed()));
    stage
}

fn namespace(labels: Value) -> Response {
    let body = json!({"kind": "Namespace", "metadata": {"name": "apps", "labels": labels}});
    answer(200, &body)
}

fn script_namespace(stage: &TestMount, answer: Response) {
    stage.bed.host.answer(&format!("GET {SERVER}/api/v1/namespaces/apps"), answer);
}

#[test]
fn account_of_namespace_with_labels_logs_in() {
    let stage = stage();
    script_namespace(&stage, namespace(json!({"team": "blue", "x": "y"})));
    let login = stage.login(&projected()).unwrap();
    assert_eq!(login.metadata["service_account_namespace"], "apps");
    let sent = stage.bed.host.requests();
    let read = sent.last().unwrap();
    assert_eq!(read.url, format!("{SERVER}/api/v1/namespaces/apps"));
    assert!(read.headers.contains(&("authorization".to_owned(), format!("Bearer {REVIEWER}"))));
}

#[test]
fn labels_that_do_not_match_let_nobody_in() {
    for labels in
        [json!({"team": "red"}), json!({}), Value::Null, json!({"team": "blue", "old": ""})]
    {
        let stage = stage();
        script_namespace(&stage, namespace(labels));
        assert!(stage.denied(&projected()).contains("namespace not authorized"));
    }
}

#[test]
fn other_object_or_missing_namespace_admits_nobody() {
    let blue = json!({"team": "blue"});
    for (kind, name) in [("Namespace", "other"), ("Node", "apps")] {
        let stage = stage();
        let body = json!({"kind": kind, "metadata": {"name": name, "labels": blue}});
        script_namespace(&stage, answer(200, &body));
        let refused = stage.login(&projected()).err().unwrap();
        assert_eq!(refused.kind, FailureKind::Unreachable, "{kind} {name}");
    }
    let stage = stage();
    script_namespace(&stage, refusal(404, "namespaces \"apps\" not found"));
    assert!(stage.denied(&projected()).contains("namespace not authorized"));
}

#[test]
fn reviewer_without_namespace_read_right_is_named() {
    let stage = stage();
    script_namespace(&stage, refusal(403, "namespaces is forbidden"));
    let said = stage.denied(&projected());
    assert!(said.contains("token_reviewer_jwt read namespaces: bind"), "{said}");
    assert!(!said.contains("is forbidden"), "{said}");
}

#[test]
fn names_are_checked_before_any_question() {
    let stage = stage();
    let other = changed("/kubernetes.io/serviceaccount/name", json!("root"));
    assert!(stage.denied(&other).contains("name not authorized"));
    stage.assert_nothing_sent();
}

#[test]
fn a_listed_namespace_needs_no_labels() {
    let stage = TestMount::with_role(&json!({SELECTOR: "matchLabels: {team: blue}"}));
    stage.answers(reviewed(&confirmed()));
    stage.login(&projected()).unwrap();
    stage.request();
}

#[test]
fn renewal_needs_selector_of_login_or_list() {
    let stage = stage();
    script_namespace(&stage, namespace(json!({"team": "blue"})));
    let login = stage.login(&projected()).unwrap();
    assert!(stage.bed.renew_login(&login, 0).is_ok());
    let renewed = |fields: Value| {
        stage.bed.write("role/web", &fields).unwrap();
        stage.bed.renew_login(&login, 0).map(drop).map_err(|refused| refused.kind)
    };
    let denied = Err(FailureKind::PermissionDenied);
    assert_eq!(renewed(json!({SELECTOR: "matchLabels: {team: red}"})), denied);
    let listed = json!({SELECTOR: "", "bound_service_account_namespaces": "apps"});
    assert_eq!(renewed(listed), Ok(()));
    assert_eq!(renewed(json!({"bound_service_account_namespaces": "other"})), denied);
}

//! Tests of `api_server.rs` on the test bed: which identity asks which server.

use crate::fixture::{
    REVIEWER, SERVER, TestMount, confirmed, projected, refusal, reviewed, reviews,
};
use bulkhead_sdk::Failure;
use bulkhead_sdk::host::Pod;
use bulkhead_sdk::http::Request;
use serde_json::{Value, json};

/// The API server of the own pod.
const OWN: &str = "https://10.96.0.1:443";

/// A mount with this configuration, on a server that is a pod of the cluster at [`OWN`].
fn in_pod(config: &Value) -> TestMount {
    let stage = TestMount::empty();
    let pod = Pod { host: "10.96.0.1".to_owned(), port: 443, namespace: None };
    stage.bed.host.set_pod(Some(pod));
    stage.bed.write("config", config).unwrap();
    stage.role("web", &json!({}));
    for server in [OWN, SERVER] {
        stage.bed.host.answer(&reviews(server), reviewed(&confirmed()));
    }
    stage
}

fn bearer(sent: &Request) -> Option<&str> {
    let header = sent.headers.iter().find(|(name, _)| name == "authorization");
    header.and_then(|(_, value)| value.strip_prefix("Bearer "))
}

fn login_request(stage: &TestMount) -> Request {
    stage.login(&projected()).unwrap();
    stage.request()
}

#[test]
fn the_configured_reviewer_asks_first() {
    let sent =
        login_request(&in_pod(&json!({"kubernetes_host": OWN, "token_reviewer_jwt": REVIEWER})));
    assert_eq!((bearer(&sent), sent.identity.as_deref()), (Some(REVIEWER), Some("pod")));
}

#[test]
fn pod_asks_own_cluster_by_every_name() {
    for host in [OWN, "https://10.96.0.1", "https://kubernetes.default.svc"] {
        let sent = login_request(&in_pod(&json!({"kubernetes_host": host})));
        assert_eq!((bearer(&sent), sent.identity.as_deref()), (None, Some("pod")), "{host}");
        assert!(sent.url.starts_with(OWN), "{}", sent.url);
    }
}

#[test]
fn the_pods_token_goes_to_no_other_server() {
    let sent = login_request(&in_pod(&json!({"kubernetes_host": SERVER})));
    assert_eq!((bearer(&sent), sent.identity.as_deref()), (Some(projected().as_str()), None));
}

#[test]
fn disabled_pod_token_is_not_used() {
    let config = json!({"kubernetes_host": OWN, "disable_local_ca_jwt": true});
    let stage = in_pod(&config);
    let sent = login_request(&stage);
    assert_eq!((bearer(&sent), sent.identity.as_deref()), (Some(projected().as_str()), None));
    assert!(stage.bed.host.steps().iter().all(|step| !step.contains("find-pod")));
}

#[test]
fn login_without_pod_grant_asks_by_own_token() {
    let stage = in_pod(&json!({"kubernetes_host": OWN}));
    stage.bed.host.refuse("find-pod", Failure::denied("without a grant"));
    let sent = login_request(&stage);
    assert_eq!((bearer(&sent), sent.identity.as_deref()), (Some(projected().as_str()), None));
}

#[test]
fn refusal_names_identity_lacking_right() {
    for (config, says) in [
        (json!({"kubernetes_host": SERVER, "token_reviewer_jwt": REVIEWER}), "token_reviewer_jwt"),
        (json!({"kubernetes_host": OWN}), "the server's pod"),
        (json!({"kubernetes_host": SERVER}), "review itself"),
    ] {
        let stage = TestMount::empty();
        let pod = Pod { host: "10.96.0.1".to_owned(), port: 443, namespace: None };
        stage.bed.host.set_pod(Some(pod));
        stage.bed.write("config", &config).unwrap();
        stage.role("web", &json!({}));
        for server in [OWN, SERVER] {
            stage.bed.host.answer(&reviews(server), refusal(403, "forbidden"));
        }
        let said = stage.denied(&projected());
        assert!(said.contains(says) && said.contains("system:auth-delegator"), "{said}");
    }
}

#[test]
fn the_configured_authority_is_the_only_root() {
    let stage = in_pod(&json!({"kubernetes_host": SERVER}));
    assert!(login_request(&stage).tls.is_none(), "the public roots");
    let authority = include_str!("../../fixtures/authority.pem").to_owned();
    stage.bed.write("config", &json!({"kubernetes_ca_cert": authority})).unwrap();
    let tls = login_request(&stage).tls.unwrap();
    assert_eq!(tls.root_certificates, Some(authority));
    assert!(tls.server_name.is_none());
}

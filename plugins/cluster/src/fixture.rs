//! Fixture shared by the tests: a test bed with a configuration and roles, and an API server with
//! scripted answers.
use crate::Cluster;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bulkhead_sdk::http::Response;
use bulkhead_sdk::testbed::TestBed;
use k8s_openapi::api::authentication::v1::TokenRequestStatus;
use serde_json::{Value, json};

/// The API server of the tests.
pub(crate) const SERVER: &str = "https://api.example:6443";

/// The token of the engine's own service account.
pub(crate) const OWN: &str = "eyJoIjoxfQ.eyJvd24iOjF9.c2lnbmF0dXJl";

const NAMESPACED: &str =
    "https://api.example:6443/apis/rbac.authorization.k8s.io/v1/namespaces/apps";

/// Returns the URL for bindings in the namespace.
pub(crate) fn bindings() -> String {
    format!("{NAMESPACED}/rolebindings")
}

/// Returns the URL for roles in the namespace.
pub(crate) fn roles() -> String {
    format!("{NAMESPACED}/roles")
}

/// Returns the URL for service accounts in the namespace.
pub(crate) fn accounts() -> String {
    format!("{SERVER}/api/v1/namespaces/apps/serviceaccounts")
}

/// Returns the engine on an empty test bed.
pub(crate) fn empty() -> TestBed<Cluster> {
    let mut bed = TestBed::new().unwrap();
    bed.mount.accessor = "cluster_1".to_owned();
    bed
}

/// Returns a bed with the configuration, and `roles/ROLE` with `fields` for the namespace `apps`.
pub(crate) fn ready(role: &str, fields: &Value) -> TestBed<Cluster> {
    let bed = empty();
    bed.write("config", &json!({"cluster_host": SERVER, "service_account_jwt": OWN})).unwrap();
    let mut written = json!({"allowed_cluster_namespaces": "apps"});
    written.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    bed.write(&format!("roles/{role}"), &written).unwrap();
    bed.host.steps();
    bed.host.requests();
    bed
}

/// Returns a bed with a role of mode 2 and predictable names. The API server accepts all requests.
pub(crate) fn bound() -> TestBed<Cluster> {
    bound_but(&[])
}

/// As [`bound`], with other answers to some requests.
pub(crate) fn bound_but(others: &[(String, Response)]) -> TestBed<Cluster> {
    let bed = ready("two", &json!({"cluster_role_name": "pods", "name_template": "v-1"}));
    arrange(&bed, others);
    bed
}

/// Returns a bed with a role of mode 3 and predictable names. The API server accepts all requests.
pub(crate) fn generated() -> TestBed<Cluster> {
    generated_but(&[])
}

/// As [`generated`], with other answers to some requests.
pub(crate) fn generated_but(others: &[(String, Response)]) -> TestBed<Cluster> {
    let rules = "rules: [{apiGroups: [''], resources: [pods], verbs: [list]}]";
    let bed = ready("three", &json!({"generated_role_rules": rules, "name_template": "v-1"}));
    arrange(&bed, others);
    bed
}

/// Scripts an API server that creates and removes everything, except for the answers in `others`.
fn arrange(bed: &TestBed<Cluster>, others: &[(String, Response)]) {
    let mut usual = vec![(format!("POST {}/v-1/token", accounts()), token(3_600))];
    let places = [(roles(), "u-role"), (bindings(), "u-binding"), (accounts(), "u-account")];
    for (path, uid) in places {
        usual.push((format!("POST {path}"), created(uid)));
        usual.push((format!("DELETE {path}/v-1"), answer(200, &json!({"kind": "Status"}))));
    }
    let is_other = |route: &str| others.iter().any(|(other, _)| other == route);
    for (route, usual) in usual.into_iter().filter(|(route, _)| !is_other(route)) {
        bed.host.answer(&route, usual);
    }
    for (route, other) in others {
        bed.host.answer(route, other.clone());
    }
}

/// Returns an answer of the API server.
pub(crate) fn answer(status: u16, body: &Value) -> Response {
    Response { status, body: serde_json::to_vec(body).unwrap(), ..Response::default() }
}

/// Returns the answer about a created object.
pub(crate) fn created(uid: &str) -> Response {
    answer(201, &json!({"metadata": {"name": "v-1", "namespace": "apps", "uid": uid}}))
}

/// Returns a refusal in the API server's format.
pub(crate) fn refusal(status: u16, message: &str) -> Response {
    let reason = if status == 404 { "NotFound" } else { "Other" };
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message,
        "code": status, "reason": reason,
    });
    answer(status, &body)
}

/// Returns the answer with a token that lives for `seconds`.
pub(crate) fn token(seconds: u64) -> Response {
    let status = status_of(&jwt(seconds), seconds);
    answer(201, &json!({"spec": {"audiences": []}, "status": status}))
}

/// Returns a JWT that lives for `seconds`.
pub(crate) fn jwt(seconds: u64) -> String {
    let claims = json!({"iat": 1_000, "exp": 1_000 + seconds, "sub": "x"}).to_string();
    format!("eyJhIjoxfQ.{}.c2ln", BASE64_URL_SAFE_NO_PAD.encode(claims))
}

/// Returns the status with a token, which expires `seconds` after the epoch.
pub(crate) fn status_of(token: &str, seconds: u64) -> TokenRequestStatus {
    let end = format!(
        "1970-01-01T{:02}:{:02}:{:02}Z",
        seconds / 3_600 % 24,
        seconds / 60 % 60,
        seconds % 60
    );
    serde_json::from_value(json!({"token": token, "expirationTimestamp": end})).unwrap()
}

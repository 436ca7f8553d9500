//! Fixture shared by the tests: a mounted method with a role, tokens of service accounts, and an
//! API server with scripted answers.

use crate::Kubernetes;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bulkhead_sdk::http::{Request, Response};
use bulkhead_sdk::testbed::AuthBed;
use bulkhead_sdk::{Failure, FailureKind, Login};
use serde_json::{Value, json};

/// The API server of the tests.
pub(crate) const SERVER: &str = "https://api.example:6443";

/// The configured reviewer's token.
pub(crate) const REVIEWER: &str = "eyJoIjoxfQ.eyJyZXZpZXdlciI6MX0.c2lnbmF0dXJl";

/// The uid of the account `apps/app`.
pub(crate) const UID: &str = "0b9f5a2e-6c0d-4a53-9d2b-1f6f5f3f7a10";

/// An audience of this service.
pub(crate) const AUDIENCE: &str = "bulkhead";

/// Time after the end of all tests, in seconds since 1970.
const LATER: u64 = 4_102_444_800;

/// A method with a configuration and the role `web`.
pub(crate) struct TestMount {
    pub(crate) bed: AuthBed<Kubernetes>,
}

impl TestMount {
    /// Returns a mount without a configuration.
    pub(crate) fn empty() -> Self {
        Self { bed: AuthBed::new().unwrap() }
    }

    /// Returns a mount with a reviewer's token, and the role `web` for `apps/app` with `fields`.
    pub(crate) fn with_role(fields: &Value) -> Self {
        let stage = Self::empty();
        let config = json!({"kubernetes_host": SERVER, "token_reviewer_jwt": REVIEWER});
        stage.bed.write("config", &config).unwrap();
        stage.role("web", fields);
        stage
    }

    /// Writes a role for `apps/app`, with further fields.
    pub(crate) fn role(&self, name: &str, fields: &Value) {
        let mut role = json!({
            "bound_service_account_names": "app", "bound_service_account_namespaces": "apps",
        });
        role.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        self.bed.write(&format!("role/{name}"), &role).unwrap();
    }

    /// Lets the API server answer the next reviews.
    pub(crate) fn answers(&self, answer: Response) -> &Self {
        self.bed.host.answer(&reviews(SERVER), answer);
        self
    }

    /// Logs in by the role `web`.
    pub(crate) fn login(&self, jwt: &str) -> Result<Login, Failure> {
        self.bed.login("login", &json!({"role": "web", "jwt": jwt}))
    }

    /// Logs in, and returns the words of the refusal, which must be 403.
    #[track_caller]
    pub(crate) fn denied(&self, jwt: &str) -> String {
        let refused = self.login(jwt).err().expect("the login is refused");
        assert_eq!(refused.kind, FailureKind::PermissionDenied, "{}", refused.message);
        assert!(refused.message.starts_with("permission denied"), "{}", refused.message);
        refused.message
    }

    /// Returns the only request that was sent.
    #[track_caller]
    pub(crate) fn request(&self) -> Request {
        let mut sent = self.bed.host.requests();
        assert_eq!(sent.len(), 1, "requests");
        sent.remove(0)
    }

    /// Fails if a request was sent.
    #[track_caller]
    pub(crate) fn assert_nothing_sent(&self) {
        assert_eq!(self.bed.host.requests().len(), 0, "requests");
    }
}

/// Returns the script's name of a review at `server`.
pub(crate) fn reviews(server: &str) -> String {
    format!("POST {server}/apis/authentication.k8s.io/v1/tokenreviews")
}

/// Returns a JWT with these claims, and a signature of nothing.
pub(crate) fn jwt(claims: &Value) -> String {
    let part = |part: &Value| BASE64_URL_SAFE_NO_PAD.encode(part.to_string());
    format!("{}.{}.c2ln", part(&json!({"alg": "RS256", "kid": "k"})), part(claims))
}

/// Returns the claims of a projected token of `apps/app`.
pub(crate) fn claims() -> Value {
    json!({
        "aud": [AUDIENCE], "exp": LATER, "iat": 1_000, "nbf": 1_000,
        "iss": "https://kubernetes.default.svc.cluster.local",
        "kubernetes.io": {
            "namespace": "apps", "serviceaccount": {"name": "app", "uid": UID},
            "pod": {"name": "app-1", "uid": "p-1"},
        },
        "sub": "system:serviceaccount:apps:app",
    })
}

/// Returns a projected token of another account or audience: the claims with a change.
pub(crate) fn changed(pointer: &str, value: Value) -> String {
    let mut claims = claims();
    *claims.pointer_mut(pointer).expect("a claim") = value;
    jwt(&claims)
}

/// Returns a projected token of `apps/app`.
pub(crate) fn projected() -> String {
    jwt(&claims())
}

/// Returns the claims of a token in the Secret `app-token-x`.
pub(crate) fn legacy_claims() -> Value {
    json!({
        "iss": "kubernetes/serviceaccount",
        "kubernetes.io/serviceaccount/namespace": "apps",
        "kubernetes.io/serviceaccount/secret.name": "app-token-x",
        "kubernetes.io/serviceaccount/service-account.name": "app",
        "kubernetes.io/serviceaccount/service-account.uid": UID,
        "sub": "system:serviceaccount:apps:app",
    })
}

/// Returns an answer with this JSON body.
pub(crate) fn answer(status: u16, body: &Value) -> Response {
    Response { status, body: body.to_string().into_bytes(), ..Response::default() }
}

/// Returns the status of a review that confirms `apps/app`.
pub(crate) fn confirmed() -> Value {
    json!({
        "authenticated": true, "audiences": [AUDIENCE],
        "user": {
            "username": "system:serviceaccount:apps:app", "uid": UID,
            "groups": ["system:serviceaccounts", "system:serviceaccounts:apps"],
        },
    })
}

/// Returns the answer to a review with this status.
pub(crate) fn reviewed(status: &Value) -> Response {
    let body = json!({
        "kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "status": status,
    });
    answer(201, &body)
}

/// Returns a refusal in the API server's format.
pub(crate) fn refusal(status: u16, message: &str) -> Response {
    answer(status, &json!({"kind": "Status", "status": "Failure", "message": message}))
}

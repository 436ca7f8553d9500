//! The auth method of service accounts. `config` leads to a real API server, `namespace` has the
//! account `app`, and `token` is a token of the account.

use super::{EndpointCall, row};
use serde_json::{Value, json};

pub(super) fn rows(config: &Value, namespace: &str, token: &str) -> Vec<EndpointCall> {
    let shown = json!({
        "kubernetes_host": "https://api.example:6443",
        "token_reviewer_jwt": "eyJhbGciOiJub25lIn0.eyJzdWIiOiJ4In0.c2lnbmF0dXJl",
        "issuer": "https://kubernetes.default.svc",
    });
    let role = |namespaces: &str| {
        json!({
            "bound_service_account_names": "app", "bound_service_account_namespaces": namespaces,
            "audience": "bulkhead", "policies": "dev", "token_ttl": "10m",
        })
    };
    let (bound, own) =
        (role("apps,dev-*"), role(if namespace.is_empty() { "apps" } else { namespace }));
    let login = json!({ "role": "web", "jwt": token });
    let (place, path) = ("auth/kubernetes/config", "auth/kubernetes/role/web");
    vec![
        row("auth-kubernetes-config.write", place, shown, 204),
        row("auth-kubernetes-config.read", place, Value::Null, 200),
        row("auth-kubernetes-role-name.write", path, bound, 204),
        row("auth-kubernetes-role-name.read", path, Value::Null, 200),
        row("auth-kubernetes-role.list", "auth/kubernetes/role", Value::Null, 200),
        row("auth-kubernetes-config.write", place, config.clone(), 204),
        row("auth-kubernetes-role-name.write", path, own, 204),
        row("auth-kubernetes-login.write", "auth/kubernetes/login", login, 200),
        row("auth-kubernetes-role-name.delete", path, Value::Null, 204),
    ]
}

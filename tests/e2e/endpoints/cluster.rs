//! The cluster engine. `config` leads to a real API server, and `namespace` has the account `app`.

use super::{EndpointCall, row};
use serde_json::{Value, json};

pub(super) fn rows(config: &Value, namespace: &str) -> Vec<EndpointCall> {
    let shown = json!({
        "cluster_host": "https://api.example:6443",
        "service_account_jwt": "eyJhbGciOiJub25lIn0.eyJzdWIiOiJ4In0.c2lnbmF0dXJl",
    });
    let two = json!({
        "allowed_cluster_namespaces": "apps", "cluster_role_name": "pods",
        "token_default_ttl": "10m", "extra_labels": { "team": "blue" },
    });
    let one = json!({
        "allowed_cluster_namespaces": namespace, "service_account_name": "app",
        "token_default_ttl": "10m",
    });
    vec![
        row("cluster-check.read", "cluster/check", Value::Null, 400),
        row("cluster-config.write", "cluster/config", shown, 204),
        row("cluster-config.read", "cluster/config", Value::Null, 200),
        row("cluster-roles-name.write", "cluster/roles/one", two, 204),
        row("cluster-roles-name.read", "cluster/roles/one", Value::Null, 200),
        row("cluster-roles.list", "cluster/roles", Value::Null, 200),
        row("cluster-roles-name.delete", "cluster/roles/one", Value::Null, 204),
        row("cluster-config.write", "cluster/config", config.clone(), 204),
        row("cluster-roles-name.write", "cluster/roles/one", one, 204),
        row("cluster-creds-name.write", "cluster/creds/one", json!({}), 200),
        row("cluster-config.delete", "cluster/config", Value::Null, 204),
    ]
}

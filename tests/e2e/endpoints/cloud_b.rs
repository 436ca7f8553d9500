//! The Google auth method without Google: writes, reads and refusals.

use super::{EndpointCall, row};
use serde_json::{Value, json};

pub(super) fn rows() -> Vec<EndpointCall> {
    let config = json!({
        "iam_alias": "unique_id", "gce_alias": "instance_id", "gce_metadata": "role,zone",
        "rotation_period": "24h",
        "custom_endpoint": { "compute": "https://compute.example" },
    });
    let iam = json!({
        "type": "iam", "bound_service_accounts": "app@p1.iam.gserviceaccount.com",
        "bound_projects": "p1", "token_policies": "app", "token_ttl": "20m",
    });
    let gce = json!({
        "type": "gce", "bound_projects": ["p1"], "bound_zones": "us-east1-b",
        "bound_labels": ["team:blue"],
    });
    let accounts = json!({ "add": "web@p1.iam.gserviceaccount.com" });
    let labels = json!({ "add": ["tier:web"], "remove": ["team"] });
    let login = json!({ "role": "dev", "jwt": "e30.e30.e30" });
    let none = Value::Null;
    vec![
        row("auth-cloud-b-config.write", "auth/cloud-b/config", config, 200),
        row("auth-cloud-b-config.read", "auth/cloud-b/config", none.clone(), 200),
        row(
            "auth-cloud-b-config-rotate-root.write",
            "auth/cloud-b/config/rotate-root",
            json!({}),
            400,
        ),
        row("auth-cloud-b-role-name.write", "auth/cloud-b/role/dev", gce, 204),
        row("auth-cloud-b-role-name-labels.write", "auth/cloud-b/role/dev/labels", labels, 204),
        row("auth-cloud-b-role-name.delete", "auth/cloud-b/role/dev", none.clone(), 204),
        row("auth-cloud-b-role-name.write", "auth/cloud-b/role/dev", iam, 204),
        row(
            "auth-cloud-b-role-name-service-accounts.write",
            "auth/cloud-b/role/dev/service-accounts",
            accounts,
            204,
        ),
        row("auth-cloud-b-role-name.read", "auth/cloud-b/role/dev", none.clone(), 200),
        row("auth-cloud-b-role.list", "auth/cloud-b/role", none.clone(), 200),
        row("auth-cloud-b-roles.list", "auth/cloud-b/roles", none.clone(), 200),
        row("auth-cloud-b-login.write", "auth/cloud-b/login", login.clone(), 400),
        row(
            "auth-cloud-b-role-name-explain.write",
            "auth/cloud-b/role/dev/explain",
            json!({ "jwt": login["jwt"] }),
            200,
        ),
        row("auth-cloud-b-role-name.delete", "auth/cloud-b/role/dev", none, 204),
    ]
}

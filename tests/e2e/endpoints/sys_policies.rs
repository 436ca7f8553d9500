//! `sys/policies/acl` and its old spelling `sys/policy`.

use super::{EndpointCall, row};
use serde_json::{Value, json};

pub(super) fn rows() -> Vec<EndpointCall> {
    let policy = json!({ "policy": r#"path "database/creds/reader" { capabilities = ["read"] }"# });
    let rules =
        json!({ "rules": r#"path "database/roles/*" { capabilities = ["create", "update"] }"# });
    vec![
        row("sys-policies-acl-name.write", "sys/policies/acl/readers", policy, 204),
        row("sys-policies-acl-name.read", "sys/policies/acl/readers", Value::Null, 200),
        row("sys-policies-acl.list", "sys/policies/acl", Value::Null, 200),
        row("sys-policies-acl-name.delete", "sys/policies/acl/readers", Value::Null, 204),
        row("sys-policy-name.write", "sys/policy/writers", rules, 204),
        row("sys-policy-name.read", "sys/policy/writers", Value::Null, 200),
        row("sys-policy.read", "sys/policy", Value::Null, 200),
        row("sys-policy.list", "sys/policy", Value::Null, 200),
        row("sys-policy-name.delete", "sys/policy/writers", Value::Null, 204),
    ]
}

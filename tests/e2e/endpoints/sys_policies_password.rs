//! `sys/policies/password`.

use super::{EndpointCall, row};
use serde_json::{Value, json};

/// The default password policy, written as a policy.
const LIKE_THE_DEFAULT: &str = r#"length = 20
rule "charset" { charset = "abcdefghijklmnopqrstuvwxyz" min-chars = 1 }
rule "charset" { charset = "ABCDEFGHIJKLMNOPQRSTUVWXYZ" min-chars = 1 }
rule "charset" { charset = "0123456789" min-chars = 1 }
rule "charset" { charset = "-" min-chars = 1 }
"#;

pub(super) fn rows() -> Vec<EndpointCall> {
    let policy = json!({ "policy": LIKE_THE_DEFAULT });
    let one = "sys/policies/password/letters";
    let generate = "sys/policies/password/letters/generate";
    vec![
        row("sys-policies-password-name.write", one, policy, 204),
        row("sys-policies-password-name.read", one, Value::Null, 200),
        row("sys-policies-password-name-generate.read", generate, Value::Null, 200),
        row("sys-policies-password.list", "sys/policies/password", Value::Null, 200),
        row("sys-policies-password-name.delete", one, Value::Null, 204),
    ]
}

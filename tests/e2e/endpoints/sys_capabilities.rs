//! `sys/capabilities`: a token's rights. The rows about the calling token are in `auth_token.rs`.

use super::{EndpointCall, row};
use serde_json::json;

pub(super) fn rows() -> Vec<EndpointCall> {
    let child = json!({ "policies": ["operator"], "period": "1h" });
    let paths = ["database/creds/reader", "database/roles/reader", "database/roles/", "sys/seal"];
    let one = ["database/creds/reader"];
    vec![
        row("auth-token-create-orphan.write", "auth/token/create-orphan", child, 200),
        row(
            "sys-capabilities.write",
            "sys/capabilities",
            json!({ "token": "{token}", "paths": paths }),
            200,
        ),
        row(
            "sys-capabilities-accessor.write",
            "sys/capabilities-accessor",
            json!({ "accessor": "{accessor}", "paths": one }),
            200,
        ),
    ]
}

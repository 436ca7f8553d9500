//! `sys/wrapping`.

use super::{EndpointCall, row};
use serde_json::{Value, json};

pub(super) fn rows() -> Vec<EndpointCall> {
    let token = json!({ "token": "{wrapping}" });
    let lookup = "sys/wrapping/lookup";
    vec![
        row("sys-wrapping-wrap.write", "sys/wrapping/wrap", json!({ "a": "b", "n": 1 }), 200),
        row("sys-wrapping-lookup.write", lookup, token.clone(), 200),
        row("sys-wrapping-lookup.read", lookup, Value::Null, 400),
        row("sys-wrapping-rewrap.write", "sys/wrapping/rewrap", token.clone(), 200),
        row("sys-wrapping-unwrap.write", "sys/wrapping/unwrap", token, 200),
    ]
}

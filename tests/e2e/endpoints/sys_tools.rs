//! `sys/tools`.

use super::{EndpointCall, row};
use serde_json::json;

pub(super) fn rows() -> Vec<EndpointCall> {
    let (number, source) = ("sys/tools/random/32", "sys/tools/random/platform/32");
    let (input, sha3) = (json!({ "input": "YWJj" }), "sys/tools/hash/sha3-256");
    vec![
        row("sys-tools-random.write", "sys/tools/random", json!({}), 200),
        row("sys-tools-random-urlbytes.write", number, json!({}), 200),
        row("sys-tools-random-urlsource-urlbytes.write", source, json!({}), 200),
        row("sys-tools-hash.write", "sys/tools/hash", input.clone(), 200),
        row("sys-tools-hash-urlalgorithm.write", sha3, input, 200),
    ]
}

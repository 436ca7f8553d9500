//! `sys/audit` and `sys/audit-hash`.

use super::{Row, row};
use serde_json::{Value, json};

pub(super) fn rows() -> Vec<Row> {
    let options = json!({ "file_path": "second.log", "hmac_accessor": "false" });
    let device = json!({ "type": "file", "description": "for the auditors", "options": options });
    vec![
        row("sys-audit-path.write", "sys/audit/second", device, 204),
        row("sys-audit.read", "sys/audit", Value::Null, 200),
        row(
            "sys-audit-hash-path.write",
            "sys/audit-hash/second",
            json!({ "input": "needle" }),
            200,
        ),
        row("sys-audit-path.delete", "sys/audit/second", Value::Null, 204),
    ]
}

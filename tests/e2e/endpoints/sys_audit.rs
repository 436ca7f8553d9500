//! `sys/audit`, `sys/audit-hash` and `sys/config/auditing`.

use super::{EndpointCall, row};
use serde_json::{Value, json};

pub(super) fn rows() -> Vec<EndpointCall> {
    let options = json!({ "file_path": "second.log", "hmac_accessor": "false" });
    let device = json!({ "type": "file", "description": "for the auditors", "options": options });
    let headers = "sys/config/auditing/request-headers";
    let header = "sys/config/auditing/request-headers/X-Trace";
    vec![
        row("sys-audit-path.write", "sys/audit/second", device, 204),
        row("sys-audit.read", "sys/audit", Value::Null, 200),
        row(
            "sys-audit-hash-path.write",
            "sys/audit-hash/second",
            json!({ "input": "needle" }),
            200,
        ),
        row(
            "sys-config-auditing-request-headers-header.write",
            header,
            json!({ "hmac": true }),
            204,
        ),
        row("sys-config-auditing-request-headers-header.read", header, Value::Null, 200),
        row("sys-config-auditing-request-headers.read", headers, Value::Null, 200),
        row("sys-config-auditing-request-headers-header.delete", header, Value::Null, 204),
        row("sys-audit-path.delete", "sys/audit/second", Value::Null, 204),
    ]
}

//! `sys/config/auditing/request-headers`: the request headers that the audit log records.
//!
//! This file prevents a header with a token from being written to the audit log.

use super::after_commit::AfterCommit;
use super::call::PermittedCall;
use super::reply::{Reply, ReplyBody};
use super::row::{self, Endpoint, field};
use bulkhead_audit::{AuditChange, LONGEST_HEADER_NAME, MOST_HEADERS, RecordedHeader};
use bulkhead_wire::description::FieldKind;
use bulkhead_wire::failure::{Failure, quoted};
use serde_json::{Map, Value, json};

const BASE: &str = "sys/config/auditing/request-headers";
/// Headers that bear a token or a password. They may not be recorded, not even as a hash.
const SECRET_HEADERS: [&str; 6] = [
    "authorization",
    "cookie",
    "proxy-authorization",
    "x-bulkhead-token",
    "x-secrets-token",
    "x-vault-token",
];

/// Returns the rows of this file. All rows need `sudo`, as those of audit devices (decision H12).
pub(super) fn rows() -> Vec<Endpoint> {
    let one = format!("{BASE}/{{header}}");
    let header = || field("header", FieldKind::String, "name of the header");
    let hmac = field("hmac", FieldKind::Bool, "whether a hash is recorded in place of the value");
    vec![
        row::read(BASE, "the recorded request headers").needs_sudo().handled_by(list),
        row::read(&one, "how a request header is recorded")
            .needs_sudo()
            .fields([header()])
            .handled_by(read),
        row::write(&one, "record a request header")
            .needs_sudo()
            .fields([header(), hmac])
            .handled_by(write),
        row::delete(&one, "stop recording a request header")
            .needs_sudo()
            .fields([header()])
            .handled_by(delete),
    ]
}

/// `GET sys/config/auditing/request-headers`.
async fn list(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let headers = call.core.audit.request_headers();
    let shown = |(name, hmac): (&String, &bool)| (name.clone(), json!({ "hmac": hmac }));
    let headers: Map<String, Value> = headers.iter().map(shown).collect();
    Ok(ReplyBody::Copied(Map::from_iter([("headers".to_owned(), headers.into())])).into())
}

/// `GET sys/config/auditing/request-headers/:header`.
async fn read(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let name = call.fields.text("header");
    let headers = call.core.audit.request_headers();
    let hmac = headers.get(&name.to_lowercase()).ok_or_else(|| {
        let name = quoted(name);
        Failure::invalid(format!("header {name} is not recorded; write the header first"))
    })?;
    Ok(ReplyBody::Copied(Map::from_iter([(name.to_owned(), json!({ "hmac": hmac }))])).into())
}

/// `POST sys/config/auditing/request-headers/:header`.
async fn write(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let PermittedCall { core, unit, fields, .. } = call;
    let name = check_header_name(fields.text("header"))?;
    let headers = core.audit.request_headers();
    if headers.len() >= MOST_HEADERS && !headers.contains_key(&name) {
        let message =
            format!("{MOST_HEADERS} headers are recorded, which is the most; delete a header");
        return Err(Failure::invalid(message));
    }
    let hmac = fields.flag("hmac", false);
    RecordedHeader { hmac }.put(unit, &name)?;
    let change = AuditChange::RequestHeader(name, Some(hmac));
    Ok(Reply::from(ReplyBody::Nothing).after_commit(AfterCommit::Audit(change)))
}

/// `DELETE sys/config/auditing/request-headers/:header`.
async fn delete(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let name = call.fields.text("header").to_lowercase();
    RecordedHeader::delete(call.unit, &name);
    let change = AuditChange::RequestHeader(name, None);
    Ok(Reply::from(ReplyBody::Nothing).after_commit(AfterCommit::Audit(change)))
}

/// Returns the name in lower case.
///
/// # Errors
/// 400 for a text that is not a name of a header, and for a header with a token.
fn check_header_name(name: &str) -> Result<String, Failure> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if name.len() > LONGEST_HEADER_NAME || !name.bytes().all(is_token) {
        return Err(Failure::invalid(format!(
            "{} is not a header name of at most {LONGEST_HEADER_NAME} letters, digits and hyphens",
            quoted(name)
        )));
    }
    let name = name.to_lowercase();
    if SECRET_HEADERS.contains(&name.as_str()) {
        return Err(Failure::invalid(format!(
            "header {name} bears a token or a password, which the audit log must not hold"
        )));
    }
    Ok(name)
}

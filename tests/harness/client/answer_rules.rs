//! The general rules for every answer: status, headers and the keys of the envelope (decision H3).

use super::Answer;
use serde_json::{Map, Value, json};
use ureq::http::HeaderMap;

/// Keys of a successful answer. All of them are always present.
const ENVELOPE: [&str; 9] = [
    "request_id",
    "lease_id",
    "renewable",
    "lease_duration",
    "data",
    "wrap_info",
    "warnings",
    "auth",
    "mount_type",
];

/// Paths whose answers have no envelope.
const BARE: [&str; 18] = [
    "identity/oidc/introspect",
    "sys/health",
    "sys/in-flight-req",
    "sys/init",
    "sys/internal/help/sys/key-status",
    "sys/internal/specs/openapi",
    "sys/leader",
    "sys/metrics",
    "sys/generate-root/attempt",
    "sys/generate-root/update",
    "sys/rekey-recovery-key/init",
    "sys/rekey-recovery-key/update",
    "sys/rekey-recovery-key/verify",
    "sys/rekey/init",
    "sys/rekey/update",
    "sys/rekey/verify",
    "sys/seal-status",
    "sys/unseal",
];

/// Prefixes of paths whose answers repeat the members of `data` beside the envelope's keys.
const COPIED: [&str; 9] = [
    "sys/audit",
    "sys/config/auditing",
    "sys/ha-status",
    "sys/mounts",
    "sys/auth",
    "sys/remount",
    "sys/policy",
    "sys/capabilities",
    "sys/key-status",
];

/// Statuses that clients of this contract can handle. A status of 500 is always a defect of the
/// server.
pub(super) const STATUSES: [u16; 14] =
    [200, 202, 204, 400, 403, 404, 405, 412, 413, 415, 429, 431, 502, 503];

pub(super) fn is_about_health(path: &str) -> bool {
    path.split('?').next() == Some("sys/health")
}

/// Returns `true` for public documents, whose form a standard defines.
fn is_published(path: &str) -> bool {
    path.starts_with("identity/oidc/") && path.contains("/.well-known/")
}

/// Returns `true` for snapshots, which are files.
fn is_snapshot(path: &str) -> bool {
    ["sys/storage/snapshot", "sys/storage/raft/snapshot"].contains(&path)
}

/// Returns the answer if the answer obeys the general rules.
#[track_caller]
pub(super) fn checked(request: String, status: u16, headers: &HeaderMap, text: &str) -> Answer {
    let path = request.split_once(' ').map_or("", |(_, path)| path);
    let possible = status == 500 || STATUSES.contains(&status) || is_about_health(path);
    assert!(possible, "{request}: status {status}: {text}");
    let header =
        |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let cache_control =
        if status == 200 && is_published(path) { "max-age=3600" } else { "no-store" };
    assert_eq!(header("cache-control"), cache_control, "{request}: how long an answer may be kept");
    let retry_after = header("retry-after").parse().ok();
    let state = Some(header("x-vault-index")).filter(|state| !state.is_empty());
    let state = state.map(str::to_owned);
    if status == 204 || request.starts_with("HEAD ") {
        assert_eq!(text, "", "{request}: an answer that has no body");
        return Answer { asked: request, status, body: Value::Null, retry_after, state };
    }
    if status == 200 && is_snapshot(path) {
        let content_type = header("content-type");
        assert!(content_type == "application/gzip" && text.starts_with('\u{1f}'), "{request}");
        let body = json!({ "content_type": content_type });
        return Answer { asked: request, status, body, retry_after, state };
    }
    assert_eq!(
        header("content-type"),
        "application/json",
        "{request}: clients compare the content type for equality"
    );
    let body: Value = serde_json::from_str(text)
        .unwrap_or_else(|error| panic!("{request}: not JSON ({error}): {text}"));
    let object = body.as_object().unwrap_or_else(|| panic!("{request}: not an object: {text}"));
    match status {
        _ if is_about_health(path) && object.contains_key("sealed") => {}
        // A secret whose current version is deleted or destroyed may have metadata.
        404 if path.starts_with("secret/") && object.contains_key("data") => {
            check_envelope(&request, path, object);
        }
        // The path of another version of the API has a hint, for clients that show warnings alone
        // (decision K7).
        404 if object.contains_key("warnings") => {
            assert_eq!(object["warnings"], object["errors"], "{request}: the hint, twice");
        }
        400.. => check_errors(&request, object),
        // Help is a document.
        _ if BARE.contains(&path)
            || is_published(path)
            || path.starts_with("sys/internal/help/") =>
        {
            assert!(!object.contains_key("errors"), "{request}: {text}")
        }
        _ => check_envelope(&request, path, object),
    }
    Answer { asked: request, status, body, retry_after, state }
}

#[track_caller]
fn check_errors(request: &str, object: &Map<String, Value>) {
    assert_eq!(object.keys().collect::<Vec<_>>(), ["errors"], "{request}: keys of a refusal");
    assert!(object["errors"].is_array(), "{request}: errors is a list");
}

#[track_caller]
fn check_envelope(request: &str, path: &str, object: &Map<String, Value>) {
    for key in ENVELOPE {
        assert!(object.contains_key(key), "{request}: the envelope lacks {key}: {object:?}");
    }
    for (key, value) in object.iter().filter(|(key, _)| !ENVELOPE.contains(&key.as_str())) {
        let copied =
            COPIED.iter().any(|prefix| path.starts_with(prefix)) && object["data"][key] == *value;
        assert!(copied, "{request}: the envelope has a key that nobody agreed on: {key}");
    }
    let no_warnings = object["warnings"] == json!([]);
    assert!(!no_warnings, "{request}: no warnings are written as null");
}

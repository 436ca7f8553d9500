//! Golden answers: one file per answer, with variable values replaced by their shape.
//!
//! A value is replaced only if it has the required shape: a request id that is not a UUID fails the
//! comparison. `make golden` rewrites the files, and the difference is the change of the API.

use crate::client::Answer;
use crate::paths::repository;
use crate::storage;
use serde_json::{Value, json};
use std::fs;
use std::net::SocketAddr;

/// Compares `answer` with `tests/golden/<name>.json`, or writes the file if `UPDATE_GOLDEN` is set.
#[track_caller]
pub fn assert_golden(name: &str, answer: &Answer) {
    let seen = json!({
        "asked": steady_text(&answer.asked), "status": answer.status,
        "body": steady("", &answer.body),
    });
    let seen = format!("{seen:#}\n");
    let path = repository().join("tests/golden").join(format!("{name}.json"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        assert_eq!(storage::kind(), "sqlite", "run `make golden` without BULKHEAD_TEST_STORAGE");
        fs::write(&path, seen).expect("a golden file can be written");
        return;
    }
    let agreed = fs::read_to_string(&path).unwrap_or_else(|_| {
        panic!("{} is missing: run `make golden` and read the new file", path.display())
    });
    // The agreed answers name the database of the store.
    let agreed = agreed.replace("\"sqlite\"", &format!("{:?}", storage::kind()));
    assert!(
        agreed == seen,
        "{name} changed; if that is meant, run `make golden`.\nagreed: {agreed}\nseen: {seen}"
    );
}

/// Replaces the variable parts of `value`, which is under `key`.
fn steady(key: &str, value: &Value) -> Value {
    match value {
        // Facts about the machine.
        Value::Object(_) if key == "memory" || key == "host" => json!("<object>"),
        Value::Array(list) if ["cpu", "cpu_times", "disk"].contains(&key) && !list.is_empty() => {
            json!("<list>")
        }
        Value::Object(map) => {
            let name = |key: &String| if is_uuid(key) { "<uuid>".to_owned() } else { key.clone() };
            map.iter().map(|(key, value)| (name(key), steady(key, value))).collect()
        }
        Value::Array(list) => {
            let values = list.iter().filter(|value| !is_varying_metric(value));
            values.map(|value| steady(key, value)).collect()
        }
        Value::String(text) => {
            Value::String(shape_of(key, text).unwrap_or_else(|| steady_text(text)))
        }
        Value::Number(number) => {
            number.as_u64().and_then(|number| clock(key, number)).unwrap_or_else(|| value.clone())
        }
        other => other.clone(),
    }
}

/// Beginnings of the names of metrics that depend on machine and time.
const VARYING_METRICS: [&str; 18] = [
    "bulkhead_audit_",
    "bulkhead_compiled_",
    "bulkhead_component_",
    "bulkhead_connections_",
    "bulkhead_due_",
    "bulkhead_expire_",
    "bulkhead_identity_",
    "bulkhead_lease",
    "bulkhead_lockouts_",
    "bulkhead_log_",
    "bulkhead_mount_memory_",
    "bulkhead_plugin_",
    "bulkhead_request",
    "bulkhead_store_",
    "bulkhead_strangers_",
    "bulkhead_target_",
    "bulkhead_tokens",
    "process_",
];

fn is_varying_metric(value: &Value) -> bool {
    let name = value["Name"].as_str().unwrap_or_default();
    VARYING_METRICS.iter().any(|begin| name.starts_with(begin))
}

/// Keys of times.
const TIMES: [&str; 21] = [
    "issue_time",
    "expire_time",
    "last_renewal",
    "last_renewal_time",
    "install_time",
    "creation_time",
    "expiration_time",
    "last_updated_time",
    "last_update_time",
    "last_vault_rotation",
    "last_service_rotation",
    "last_bind_password_rotation",
    "password_last_set",
    "created_time",
    "updated_time",
    "deletion_time",
    "Timestamp",
    "timestamp",
    "timestamp_installed",
    "start_time",
    "end_time",
];

/// Returns the shape of a text, if the key's values vary and the text is well formed.
fn shape_of(key: &str, text: &str) -> Option<String> {
    let shape = match key {
        "request_id" | "uuid" | "cluster_id" | "nonce" | "migration_id" | "reload_id"
        | "verification_nonce"
            if is_uuid(text) =>
        {
            "<uuid>"
        }
        "client_token" | "id" | "root_token" | "token" if is_token(text) => "<token>",
        "keys" if is_share(text) => "<share>",
        "keys_base64" if is_share_in_base64(text) => "<share in base64>",
        "otp" if is_word(text, 36) => "<otp>",
        "encoded_token" | "encoded_root_token" if is_encoded_token(text) => "<encoded token>",
        "accessor" if is_word(text, 24) => "<accessor>",
        "password" if is_generated_password(text) => "<password>",
        "password" | "current_password" | "last_password" if is_directory_password(text) => {
            "<password>"
        }
        "borrower_client_token" if text.len() == 64 && text.chars().all(is_hexadecimal) => {
            "<what stands for the token>"
        }
        "service_account_token" if text.split('.').count() == 3 => "<jwt>",
        "service_account_namespace" if text.starts_with("bulkhead-") => "<namespace>",
        "username" if is_generated_username(text) => "<username>",
        key if TIMES.contains(&key) && is_time(text) => "<time>",
        "sha256" | "running_sha256"
            if text.len() == 64 && text.chars().all(|c| c.is_ascii_hexdigit()) =>
        {
            "<sha256>"
        }
        "client_remote_address" if text.parse::<SocketAddr>().is_ok() => "<address>",
        "hostname" if !text.is_empty() => "<hostname>",
        "cluster_name" => "<cluster name>",
        "file_path" if text.ends_with("/audit.log") => "<data>/audit.log",
        "random_bytes" if text.len() == 44 => "<random bytes>",
        "hash" if is_hash(text) => "<hmac-sha256>",
        _ => return None,
    };
    Some(shape.to_owned())
}

/// Replaces lease ids, UUIDs, mount accessors and ports inside a text.
fn steady_text(text: &str) -> String {
    let steady = |piece: &str| match piece.rsplit_once('=') {
        Some((query, id)) if is_uuid(id) => format!("{query}=<uuid>"),
        _ if is_word(piece, 24) => "<id>".to_owned(),
        _ if is_uuid(piece) => "<uuid>".to_owned(),
        _ => piece.to_owned(),
    };
    let text = text.split('/').map(steady).collect::<Vec<_>>().join("/");
    if let Some((kind, id)) = text.rsplit_once('_')
        && id.len() == 8
        && id.chars().all(|c| c.is_ascii_hexdigit())
    {
        return format!("{kind}_<8 hex>");
    }
    let Some((before, after)) = text.split_once("127.0.0.1:") else { return text };
    let digits = after.chars().take_while(char::is_ascii_digit).count();
    format!("{before}127.0.0.1:<port>{}", &after[digits..])
}

/// Returns the shape of a number that changes with time or with the number of requests.
fn clock(key: &str, number: u64) -> Option<Value> {
    let is_now = (1_700_000_000..10_000_000_000).contains(&number);
    let shape = match key {
        "creation_time" | "server_time_utc" | "last_renewal" if is_now => "<seconds since 1970>",
        "encryptions" if number > 0 => "<count>",
        "ttl" | "lease_duration" | "creation_ttl" if number > 0 => {
            return Some(json!(rounded(number)));
        }
        _ => return None,
    };
    Some(json!(shape))
}

/// Rounds a remaining lifetime up, so that a few elapsed seconds do not count.
fn rounded(seconds: u64) -> u64 {
    seconds.next_multiple_of(60)
}

fn is_uuid(text: &str) -> bool {
    let parts: Vec<usize> = text.split('-').map(str::len).collect();
    parts == [8, 4, 4, 4, 12] && text.chars().all(|c| c == '-' || c.is_ascii_hexdigit())
}

fn is_token(text: &str) -> bool {
    text.strip_prefix("bhs.").is_some_and(|rest| rest.len() >= 24)
}

/// Returns `true` for a share of an unseal key, or for the whole key if there is only one share.
fn is_share(text: &str) -> bool {
    [64, 66].contains(&text.len()) && text.chars().all(|c| c.is_ascii_hexdigit())
}

/// Like [`is_share`], in base64, in which both lengths are equal.
fn is_share_in_base64(text: &str) -> bool {
    text.len() == 44 && text.chars().all(|c| c.is_ascii_alphanumeric() || "+/=".contains(c))
}

/// Returns `true` for the 36 characters of a token, XORed with an OTP and encoded.
fn is_encoded_token(text: &str) -> bool {
    text.len() == 48 && text.chars().all(|c| c.is_ascii_alphanumeric() || "+/".contains(c))
}

fn is_hash(text: &str) -> bool {
    let digits = text.strip_prefix("hmac-sha256:").unwrap_or_default();
    digits.len() == 64 && digits.chars().all(|c| c.is_ascii_hexdigit())
}

fn is_word(text: &str, length: usize) -> bool {
    text.len() == length && text.chars().all(|c| c.is_ascii_alphanumeric())
}

fn is_generated_password(text: &str) -> bool {
    let has = |kind: fn(&char) -> bool| text.chars().any(|c| kind(&c));
    text.len() == 20
        && text.chars().all(|c| c == '-' || c.is_ascii_alphanumeric())
        && has(char::is_ascii_uppercase)
        && has(char::is_ascii_lowercase)
        && has(char::is_ascii_digit)
        && text.contains('-')
}

/// Returns `true` for a password that the directory engine generates without a policy.
fn is_directory_password(text: &str) -> bool {
    let drawn = text.strip_prefix("?@09AZ");
    text.len() == 64 && drawn.is_some_and(|drawn| drawn.chars().all(|c| c.is_ascii_alphanumeric()))
}

fn is_hexadecimal(one: char) -> bool {
    one.is_ascii_hexdigit()
}

fn is_generated_username(text: &str) -> bool {
    let mut parts = text.rsplit('-');
    let time = parts.next().unwrap_or_default();
    let random = parts.next().unwrap_or_default();
    text.starts_with("v-")
        && is_word(random, 20)
        && time.len() == 10
        && time.chars().all(|c| c.is_ascii_digit())
}

/// Returns `true` for `2026-11-01T12:00:00Z`, with or without a fraction.
fn is_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() >= 20
        && bytes[4] == b'-'
        && bytes[10] == b'T'
        && bytes[13] == b':'
        && text.ends_with('Z')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variable_values_are_replaced_by_their_shape() {
        let body = json!({
            "request_id": "018f2c6e-77ab-4c11-9a6b-0123456789ab",
            "lease_id": "database/creds/reader/AbCdEfGhIjKlMnOpQrStUvWx",
            "lease_duration": 3597,
            "data": {
                "username": "v-root-reader-AbCdEfGhIjKlMnOpQrSt-1790000000",
                "password": "aB3-aB3-aB3-aB3-aB3-",
            },
        });
        let seen = steady("", &body);
        assert_eq!(seen["request_id"], "<uuid>");
        assert_eq!(seen["lease_id"], "database/creds/reader/<id>");
        assert_eq!(seen["lease_duration"], 3600);
        assert_eq!(seen["data"], json!({ "username": "<username>", "password": "<password>" }));
    }

    #[test]
    fn malformed_values_are_not_replaced() {
        let body = json!({
            "request_id": "not-a-uuid", "data": { "username": "root", "password": "short" },
        });
        assert_eq!(steady("", &body), body);
    }
}

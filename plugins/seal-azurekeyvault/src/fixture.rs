//! Settings and answers of the unit tests.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bulkhead_sdk::http::Response;
use bulkhead_sdk::seal_plugin::SealSettings;
use serde_json::{Value, json};

pub(crate) const KEY: [u8; 32] = *b"0123456789abcdef0123456789ABCDEF";
pub(crate) const SECRET: &str = "8Q~secret-of-the-application";
pub(crate) const ACCESS_TOKEN: &str = "eyJ0eXAiOiJKV1Qi";

/// Returns complete settings, with these changes.
pub(crate) fn settings(changes: &[(&str, Value)]) -> SealSettings {
    let mut settings = SealSettings::new();
    for (name, value) in [
        ("vault_url", json!("https://kv.vault.azure.net")),
        ("authority_host", json!("https://login.microsoftonline.com")),
        ("tenant_id", json!("46646709-b63e-4747-be42-516edeaf1e14")),
        ("client_id", json!("03dc33fc-16d9-4b77-8152-3ec568f8af6e")),
        ("client_secret", json!(SECRET)),
        ("key_name", json!("unseal")),
        ("resource", json!("vault.azure.net")),
    ] {
        settings.insert(name.to_owned(), value);
    }
    for (name, value) in changes {
        settings.insert((*name).to_owned(), value.clone());
    }
    settings
}

pub(crate) fn answer(status: u16, body: &Value) -> Response {
    Response { status, body: body.to_string().into_bytes(), ..Response::default() }
}

/// Returns the answer with an access token.
pub(crate) fn token() -> Response {
    answer(200, &json!({ "access_token": ACCESS_TOKEN, "token_type": "Bearer" }))
}

fn id(version: &str) -> String {
    format!("https://kv.vault.azure.net/keys/unseal/{version}")
}

/// Returns the answer that describes the key.
pub(crate) fn described(version: &str) -> Response {
    answer(
        200,
        &json!({ "key": { "kid": id(version), "kty": "RSA" }, "attributes": { "enabled": true } }),
    )
}

/// Returns the answer of `wrapkey` or `unwrapkey`.
pub(crate) fn converted(version: &str, bytes: &[u8]) -> Response {
    answer(200, &json!({ "kid": id(version), "value": URL_SAFE_NO_PAD.encode(bytes) }))
}

//! Settings and answers of the unit tests.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bulkhead_sdk::http::Response;
use bulkhead_sdk::seal_plugin::SealSettings;
use serde_json::{Value, json};

pub(crate) use bulkhead_sdk::testbed::SealTestHost as TestHost;

pub(crate) const KEY: [u8; 32] = *b"0123456789abcdef0123456789ABCDEF";
pub(crate) const TOKEN: &str = "hvs.token-of-the-seal";

/// Returns complete settings, with these changes.
pub(crate) fn settings(changes: &[(&str, Value)]) -> SealSettings {
    let mut settings = SealSettings::new();
    for (name, value) in [
        ("address", json!("https://vault.example.com:8200")),
        ("token", json!(TOKEN)),
        ("key_name", json!("unseal")),
    ] {
        settings.insert(name.to_owned(), value);
    }
    for (name, value) in changes {
        settings.insert((*name).to_owned(), value.clone());
    }
    settings
}

/// Returns a ciphertext of this key version.
pub(crate) fn ciphertext(version: u64) -> String {
    format!("vault:v{version}:{}", STANDARD.encode([0xfb; 60]))
}

pub(crate) fn answer(status: u16, body: &Value) -> Response {
    Response { status, body: body.to_string().into_bytes(), ..Response::default() }
}

//! Settings and answers of the unit tests.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bulkhead_sdk::http::Response;
use bulkhead_sdk::seal_plugin::SealSettings;
use serde_json::{Value, json};

pub(crate) const KEY: [u8; 32] = *b"0123456789abcdef0123456789ABCDEF";
pub(crate) const SECRET: &str = "wJalrXUtnFEMI/K7MDENG";
pub(crate) const ARN: &str =
    "arn:aws:kms:eu-central-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab";
pub(crate) const OTHER_ARN: &str =
    "arn:aws:kms:eu-central-1:111122223333:key/mrk-0000abcd12ab34cd56ef1234567890ab";

/// Returns complete settings, with these changes.
pub(crate) fn settings(changes: &[(&str, Value)]) -> SealSettings {
    let mut settings = SealSettings::new();
    for (name, value) in [
        ("endpoint", json!("https://kms.eu-central-1.amazonaws.com")),
        ("region", json!("eu-central-1")),
        ("access_key", json!("AKIAIOSFODNN7EXAMPLE")),
        ("secret_key", json!(SECRET)),
        ("kms_key_id", json!("alias/bulkhead")),
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

/// Returns the answer of `Encrypt` by this key.
pub(crate) fn encrypted(arn: &str, blob: &[u8]) -> Response {
    answer(200, &json!({ "KeyId": arn, "CiphertextBlob": STANDARD.encode(blob) }))
}

/// Returns the answer of `Decrypt` by [`ARN`].
pub(crate) fn decrypted(key: &[u8]) -> Response {
    answer(200, &json!({ "KeyId": ARN, "Plaintext": STANDARD.encode(key) }))
}

//! Settings and answers of the unit tests.

use crate::crc32c::checksum;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bulkhead_sdk::http::Response;
use bulkhead_sdk::seal_plugin::SealSettings;
use serde_json::{Value, json};

pub(crate) const KEY: [u8; 32] = *b"0123456789abcdef0123456789ABCDEF";
pub(crate) const KEY_NAME: &str =
    "projects/orders/locations/global/keyRings/bulkhead/cryptoKeys/unseal";
pub(crate) const VERSION: &str =
    "projects/orders/locations/global/keyRings/bulkhead/cryptoKeys/unseal/cryptoKeyVersions/1";
pub(crate) const NEXT_VERSION: &str =
    "projects/orders/locations/global/keyRings/bulkhead/cryptoKeys/unseal/cryptoKeyVersions/2";
pub(crate) const PRIVATE_KEY: &str = "-----BEGIN PRIVATE KEY-----\nMIIE";
pub(crate) const ACCESS_TOKEN: &str = "ya29.c.b0AXv0zTN";

/// Returns complete settings, with these changes.
pub(crate) fn settings(changes: &[(&str, Value)]) -> SealSettings {
    let mut settings = SealSettings::new();
    for (name, value) in [
        ("endpoint", json!("https://cloudkms.googleapis.com")),
        ("token_uri", json!("https://oauth2.googleapis.com/token")),
        ("project", json!("orders")),
        ("region", json!("global")),
        ("key_ring", json!("bulkhead")),
        ("crypto_key", json!("unseal")),
        ("client_email", json!("seal@orders.iam.gserviceaccount.com")),
        ("private_key", json!(PRIVATE_KEY)),
        ("private_key_id", json!("5ea1")),
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
    answer(
        200,
        &json!({ "access_token": ACCESS_TOKEN, "expires_in": 3_599, "token_type": "Bearer" }),
    )
}

/// Returns the answer of `encrypt` by this version.
pub(crate) fn encrypted(version: &str, ciphertext: &[u8]) -> Response {
    answer(
        200,
        &json!({
            "name": version, "ciphertext": STANDARD.encode(ciphertext),
            "ciphertextCrc32c": checksum(ciphertext).to_string(), "verifiedPlaintextCrc32c": true,
            "protectionLevel": "SOFTWARE",
        }),
    )
}

/// Returns the answer of `decrypt`.
pub(crate) fn decrypted(key: &[u8]) -> Response {
    let crc = checksum(key).to_string();
    answer(200, &json!({ "plaintext": STANDARD.encode(key), "plaintextCrc32c": crc }))
}

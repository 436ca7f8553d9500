//! The seal key at the other server: wrapped by `encrypt`, opened by `decrypt`.
//!
//! This file prevents a server that cannot tell the newest version of its key from keeping this
//! server sealed: a key that was decrypted counts, whatever the second request answers.

use crate::ciphertext::TransitCiphertext;
use crate::refusal::TransitRequest;
use crate::server::{RequestBody, TransitServer};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bulkhead_sdk::host::LogLevel;
use bulkhead_sdk::seal_plugin::{OpenedKey, WrappedKey};
use bulkhead_sdk::{Failure, FailureKind};
use serde::Deserialize;

/// Bytes of a seal key.
const KEY_BYTES: usize = 32;

/// The plaintext that asks for the newest version of the key.
const PROBE: &[u8] = b"bulkhead";

/// The answer of `encrypt`.
#[derive(Deserialize)]
struct EncryptAnswer {
    data: EncryptData,
}

#[derive(Deserialize)]
struct EncryptData {
    ciphertext: String,
}

/// The answer of `decrypt`. No `Debug`: the answer holds the key.
#[derive(Deserialize)]
struct DecryptAnswer {
    data: DecryptData,
}

#[derive(Deserialize)]
struct DecryptData {
    plaintext: String,
}

/// Wraps the seal key with the newest version of the transit key.
///
/// # Errors
/// The refusals of [`TransitServer::post`]; internal if the host gives a key of another length.
pub(crate) fn wrap(server: &TransitServer<'_>, key: &[u8]) -> Result<WrappedKey, Failure> {
    if key.len() != KEY_BYTES {
        return Err(Failure::internal("the host gave a seal key of another length than 32 bytes"));
    }
    let wrapped = encrypt(server, key)?;
    Ok(WrappedKey { key_id: wrapped.key_id(), blob: wrapped.text.into_bytes() })
}

/// Opens the seal key, and asks for the newest version of the transit key.
///
/// # Errors
/// Invalid request if the blob is not of transit; the refusals of [`TransitServer::post`];
/// unreachable if the server returns a text that is not a seal key.
pub(crate) fn open(server: &TransitServer<'_>, blob: &[u8]) -> Result<OpenedKey, Failure> {
    let wrapped = std::str::from_utf8(blob).ok().and_then(TransitCiphertext::parse);
    let wrapped = wrapped.ok_or_else(|| {
        Failure::invalid(
            "the wrapped seal key of the data has not the form of the transit engine; give the \
             seal that the data were sealed with",
        )
    })?;
    let body = RequestBody { ciphertext: Some(&wrapped.text), ..RequestBody::default() };
    let opened: DecryptAnswer = server.post(TransitRequest::Decrypt, &body)?;
    let key = STANDARD
        .decode(opened.data.plaintext)
        .ok()
        .filter(|key| key.len() == KEY_BYTES)
        .ok_or_else(|| not_a_key(server))?;
    let newest_key_id = newest_version(server).unwrap_or_else(|failure| {
        // The log of the host has no message of a component, which may repeat a value.
        let pairs = [("cause", failure.kind.code())];
        server.host.write(LogLevel::Warn, "newest-key-version-unknown", &pairs);
        wrapped.key_id()
    });
    Ok(OpenedKey { key, newest_key_id })
}

/// Returns the id of the newest version of the transit key. Needs no right beyond that of
/// [`wrap`].
///
/// # Errors
/// The refusals of [`TransitServer::post`].
pub(crate) fn newest_version(server: &TransitServer<'_>) -> Result<String, Failure> {
    encrypt(server, PROBE).map(|wrapped| wrapped.key_id())
}

fn encrypt(server: &TransitServer<'_>, bytes: &[u8]) -> Result<TransitCiphertext, Failure> {
    let plaintext = STANDARD.encode(bytes);
    let body = RequestBody { plaintext: Some(&plaintext), ..RequestBody::default() };
    let answer: EncryptAnswer = server.post(TransitRequest::Encrypt, &body)?;
    TransitCiphertext::parse(&answer.data.ciphertext)
        .ok_or_else(|| server.unreadable(TransitRequest::Encrypt))
}

fn not_a_key(server: &TransitServer<'_>) -> Failure {
    Failure::new(
        FailureKind::Unreachable,
        format!(
            "{} decrypted the wrapped seal key to another text than a key of 32 bytes; give the \
             data directory that belongs to this seal",
            server.settings.address
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Transit;
    use crate::fixture::{KEY, TestHost, answer, ciphertext, settings};
    use bulkhead_sdk::seal_plugin::SealPlugin;
    use serde_json::json;

    fn encrypted(version: u64) -> bulkhead_sdk::http::Response {
        answer(200, &json!({ "data": { "ciphertext": ciphertext(version) } }))
    }

    fn decrypted(key: &[u8]) -> bulkhead_sdk::http::Response {
        answer(200, &json!({ "data": { "plaintext": STANDARD.encode(key) } }))
    }

    #[test]
    fn wrapped_key_has_id_of_key_version() {
        let host = TestHost::answering([encrypted(3)]);
        let wrapped = Transit::wrap_key(&host, &settings(&[]), &KEY).unwrap();
        assert_eq!((wrapped.key_id.as_str(), wrapped.blob), ("v3", ciphertext(3).into_bytes()));
        let why = Transit::wrap_key(&host, &settings(&[]), b"short").unwrap_err();
        assert_eq!(why.kind, FailureKind::Internal);
    }

    #[test]
    fn opened_key_names_newest_version() {
        let host = TestHost::answering([decrypted(&KEY), encrypted(4)]);
        let blob = ciphertext(3).into_bytes();
        let opened = Transit::unwrap_key(&host, &settings(&[]), &blob).unwrap();
        assert_eq!((opened.key, opened.newest_key_id.as_str()), (KEY.to_vec(), "v4"));
        let sent = host.take_requests();
        assert!(sent[0].url.ends_with("/v1/transit/decrypt/unseal"), "{}", sent[0].url);
        let body: serde_json::Value = serde_json::from_slice(&sent[0].body).unwrap();
        assert_eq!(body, json!({ "ciphertext": ciphertext(3) }));
        assert!(sent[1].url.ends_with("/v1/transit/encrypt/unseal"), "{}", sent[1].url);
    }

    #[test]
    fn opened_key_counts_although_version_is_unknown() {
        let host = TestHost::answering([decrypted(&KEY), answer(403, &json!({}))]);
        let blob = ciphertext(3).into_bytes();
        let opened = Transit::unwrap_key(&host, &settings(&[]), &blob).unwrap();
        assert_eq!(opened.newest_key_id, "v3");
        assert_eq!(host.take_lines(), ["newest-key-version-unknown cause=permission-denied"]);
    }

    #[test]
    fn plaintext_of_other_form_is_refused_unseen() {
        for plaintext in [STANDARD.encode([7; 31]), "hunter2-hunter2!".to_owned(), String::new()] {
            let given = answer(200, &json!({ "data": { "plaintext": plaintext } }));
            let host = TestHost::answering([given]);
            let blob = ciphertext(1).into_bytes();
            let why = Transit::unwrap_key(&host, &settings(&[]), &blob).err().unwrap();
            assert_eq!(why.kind, FailureKind::Unreachable, "{why}");
            let is_shown = !plaintext.is_empty() && why.message.contains(&plaintext);
            assert!(why.message.contains("32 bytes") && !is_shown, "{why}");
        }
    }

    #[test]
    fn blob_of_another_seal_sends_no_request() {
        let host = TestHost::default();
        for blob in [b"".as_slice(), b"\xff\xfe", b"vault:v1:AAAA", &[0; 60]] {
            let why = Transit::unwrap_key(&host, &settings(&[]), blob).err().unwrap();
            assert!(why.message.contains("sealed with"), "{why}");
        }
        assert!(host.take_requests().is_empty());
    }

    #[test]
    fn health_asks_with_right_to_encrypt() {
        let host = TestHost::answering([encrypted(9)]);
        assert_eq!(Transit::check_health(&host, &settings(&[])), Ok(()));
        let sent = host.take_requests();
        assert_eq!(sent.len(), 1);
        assert!(sent[0].url.ends_with("/v1/transit/encrypt/unseal"), "{}", sent[0].url);
    }
}

//! The seal key at the key management service: wrapped by `Encrypt`, opened by `Decrypt`.
//!
//! This file prevents a service that cannot tell the present key from keeping this server sealed: a
//! key that was decrypted counts, whatever the second request answers.

use crate::service::KeyService;
use bulkhead_sdk::host::LogLevel;
use bulkhead_sdk::seal_plugin::{OpenedKey, WrappedKey};
use bulkhead_sdk::{Failure, FailureKind};

/// Bytes of a seal key.
const KEY_BYTES: usize = 32;

/// The plaintext that asks for the key behind the id or the alias of the settings.
const PROBE: &[u8] = b"bulkhead";

/// Wraps the seal key with the key of the settings.
///
/// # Errors
/// The refusals of [`KeyService::encrypt`]; internal if the host gives a key of another length.
pub(crate) fn wrap(service: &KeyService<'_>, key: &[u8]) -> Result<WrappedKey, Failure> {
    if key.len() != KEY_BYTES {
        return Err(Failure::internal("the host gave a seal key of another length than 32 bytes"));
    }
    let (key_id, blob) = service.encrypt(key)?;
    Ok(WrappedKey { key_id, blob })
}

/// Opens the seal key with the key that wrapped the seal key, and asks for the key of the settings.
///
/// # Errors
/// The refusals of [`KeyService::decrypt`]; unreachable if the service returns another text than a
/// seal key.
pub(crate) fn open(service: &KeyService<'_>, blob: &[u8]) -> Result<OpenedKey, Failure> {
    let (key_id, key) = service.decrypt(blob)?;
    if key.len() != KEY_BYTES {
        return Err(Failure::new(
            FailureKind::Unreachable,
            format!(
                "{} decrypted the wrapped seal key to another text than a key of 32 bytes; give \
                 the data directory that belongs to this seal",
                service.settings.endpoint
            ),
        ));
    }
    let newest_key_id = newest_key(service).unwrap_or_else(|failure| {
        // The log of the host has no message of a component, which may repeat a value.
        let pairs = [("cause", failure.kind.code())];
        service.host.write(LogLevel::Warn, "newest-key-version-unknown", &pairs);
        key_id
    });
    Ok(OpenedKey { key, newest_key_id })
}

/// Returns the ARN of the key of the settings. Needs no right beyond that of [`wrap`].
///
/// # Errors
/// The refusals of [`KeyService::encrypt`].
pub(crate) fn newest_key(service: &KeyService<'_>) -> Result<String, Failure> {
    service.encrypt(PROBE).map(|(key_id, _)| key_id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AwsKms;
    use crate::fixture::{ARN, KEY, OTHER_ARN, answer, decrypted, encrypted, settings};
    use bulkhead_sdk::seal_plugin::SealPlugin;
    use bulkhead_sdk::testbed::SealTestHost;
    use serde_json::{Value, json};

    #[test]
    fn wrapped_key_has_arn_of_key() {
        let host = SealTestHost::answering([encrypted(ARN, b"wrapped")]);
        let wrapped = AwsKms::wrap_key(&host, &settings(&[]), &KEY).unwrap();
        assert_eq!(
            (wrapped.key_id.as_str(), wrapped.blob.as_slice()),
            (ARN, b"wrapped".as_slice())
        );
        let why = AwsKms::wrap_key(&host, &settings(&[]), b"short").unwrap_err();
        assert_eq!(why.kind, FailureKind::Internal);
    }

    #[test]
    fn opened_key_names_key_of_settings() {
        let host = SealTestHost::answering([decrypted(&KEY), encrypted(OTHER_ARN, b"probe")]);
        let opened = AwsKms::unwrap_key(&host, &settings(&[]), b"wrapped").unwrap();
        assert_eq!((opened.key, opened.newest_key_id.as_str()), (KEY.to_vec(), OTHER_ARN));
        let bodies: Vec<Value> = host
            .take_requests()
            .iter()
            .map(|request| serde_json::from_slice(&request.body).unwrap())
            .collect();
        assert_eq!(bodies[0], json!({ "CiphertextBlob": "d3JhcHBlZA==" }));
        assert_eq!(bodies[1], json!({ "KeyId": "alias/bulkhead", "Plaintext": "YnVsa2hlYWQ=" }));
    }

    #[test]
    fn opened_key_counts_although_key_is_unknown() {
        let denied = answer(400, &json!({ "__type": "AccessDeniedException" }));
        let host = SealTestHost::answering([decrypted(&KEY), denied]);
        let opened = AwsKms::unwrap_key(&host, &settings(&[]), b"wrapped").unwrap();
        assert_eq!(opened.newest_key_id, ARN);
        assert_eq!(host.take_lines(), ["newest-key-version-unknown cause=permission-denied"]);
    }

    #[test]
    fn plaintext_of_other_length_is_refused() {
        for length in [0, 31, 33] {
            let host = SealTestHost::answering([decrypted(&vec![7; length])]);
            let why = AwsKms::unwrap_key(&host, &settings(&[]), b"wrapped").err().unwrap();
            assert_eq!(why.kind, FailureKind::Unreachable, "{why}");
            assert_eq!(host.take_requests().len(), 1);
        }
    }
}

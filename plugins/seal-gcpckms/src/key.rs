//! The seal key at Cloud KMS: wrapped by `encrypt`, opened by `decrypt`.
//!
//! This file prevents a service that cannot tell the newest version of its key from keeping this
//! server sealed: a key that was decrypted counts, whatever the second request answers.

use crate::service::KeyService;
use crate::wrapped_key;
use bulkhead_sdk::host::LogLevel;
use bulkhead_sdk::seal_plugin::{OpenedKey, WrappedKey};
use bulkhead_sdk::{Failure, FailureKind};

/// Bytes of a seal key.
const KEY_BYTES: usize = 32;

/// The plaintext that asks for the primary version of the key.
const PROBE: &[u8] = b"bulkhead";

/// Wraps the seal key with the primary version of the key.
///
/// # Errors
/// The refusals of [`KeyService::encrypt`]; internal if the host gives a key of another length.
pub(crate) fn wrap(service: &KeyService<'_>, key: &[u8]) -> Result<WrappedKey, Failure> {
    if key.len() != KEY_BYTES {
        return Err(Failure::internal("the host gave a seal key of another length than 32 bytes"));
    }
    let (key_id, ciphertext) = service.encrypt(key)?;
    Ok(WrappedKey::with_name(&key_id, &ciphertext))
}

/// Opens the seal key, and asks for the primary version of the key.
///
/// # Errors
/// Invalid request if the blob is not of this seal; the refusals of [`KeyService::decrypt`];
/// unreachable if the service returns another text than a seal key.
pub(crate) fn open(service: &KeyService<'_>, blob: &[u8]) -> Result<OpenedKey, Failure> {
    let (version, ciphertext) = wrapped_key::read(blob)?;
    let key = service.decrypt(ciphertext)?;
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
    let newest_key_id = newest_version(service).unwrap_or_else(|failure| {
        // The log of the host has no message of a component, which may repeat a value.
        let pairs = [("cause", failure.kind.code())];
        service.host.write(LogLevel::Warn, "newest-key-version-unknown", &pairs);
        version.to_owned()
    });
    Ok(OpenedKey { key, newest_key_id })
}

/// Returns the name of the primary version. Needs no right beyond that of [`wrap`].
///
/// # Errors
/// The refusals of [`KeyService::encrypt`].
pub(crate) fn newest_version(service: &KeyService<'_>) -> Result<String, Failure> {
    service.encrypt(PROBE).map(|(version, _)| version)
}

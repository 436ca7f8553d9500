//! The seal key at the vault: wrapped by `wrapkey`, opened by `unwrapkey`.
//!
//! This file prevents a vault that cannot tell the newest version of its key from keeping this
//! server sealed: a key that was unwrapped counts, whatever the next request answers.

use crate::key_version::KeyVersion;
use crate::service::KeyService;
use bulkhead_sdk::host::LogLevel;
use bulkhead_sdk::seal_plugin::{OpenedKey, WrappedKey};
use bulkhead_sdk::{Failure, FailureKind};

/// Bytes of a seal key.
const KEY_BYTES: usize = 32;

/// The plaintext that the check of the health wraps.
const PROBE: &[u8] = b"bulkhead";

/// Wraps the seal key with the newest version of the key.
///
/// # Errors
/// The refusals of [`KeyService::wrap`]; internal if the host gives a key of another length.
pub(crate) fn wrap(service: &KeyService<'_>, key: &[u8]) -> Result<WrappedKey, Failure> {
    if key.len() != KEY_BYTES {
        return Err(Failure::internal("the host gave a seal key of another length than 32 bytes"));
    }
    let version = service.newest_version()?;
    let ciphertext = service.wrap(&version, key)?;
    Ok(version.stored(&ciphertext))
}

/// Opens the seal key with the version that wrapped the seal key, and asks for the newest version.
///
/// # Errors
/// Invalid request if the blob is not of this seal; the refusals of [`KeyService::unwrap`];
/// unreachable if the vault returns another text than a seal key.
pub(crate) fn open(service: &KeyService<'_>, blob: &[u8]) -> Result<OpenedKey, Failure> {
    let (version, ciphertext) = KeyVersion::read(blob)?;
    let key = service.unwrap(&version, ciphertext)?;
    if key.len() != KEY_BYTES {
        return Err(Failure::new(
            FailureKind::Unreachable,
            format!(
                "{} unwrapped the seal key to another text than a key of 32 bytes; give the data \
                 directory that belongs to this seal",
                service.settings.vault_url
            ),
        ));
    }
    let newest = service.newest_version().unwrap_or_else(|failure| {
        // The log of the host has no message of a component, which may repeat a value.
        let pairs = [("cause", failure.kind.code())];
        service.host.write(LogLevel::Warn, "newest-key-version-unknown", &pairs);
        version
    });
    Ok(OpenedKey { key, newest_key_id: newest.text().to_owned() })
}

/// Wraps a constant text.
///
/// # Errors
/// The refusals of [`KeyService::wrap`].
pub(crate) fn check(service: &KeyService<'_>) -> Result<(), Failure> {
    let version = service.newest_version()?;
    service.wrap(&version, PROBE).map(drop)
}

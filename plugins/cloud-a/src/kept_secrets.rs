//! Client secrets that only the method knows, kept when a write of the configuration replaces them
//! or leads elsewhere.
//!
//! This file prevents the loss of the only copy of a secret that works: after `rotate-root`, a
//! write with the first secret, as a tool sends it that writes every field at each change, would
//! otherwise replace the secret. A kept secret is forgotten only after another secret has logged in
//! at the same application, or by the removal of the configuration, which names the secret.

use crate::rotated_secret::{RotatedSecret, SecretPlace};
use bulkhead_sdk::kept_secrets::place_digest;
use bulkhead_sdk::only_copy;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Failure, Host, stored};
use serde::{Deserialize, Serialize};

/// Key prefix of the records.
const PREFIX: &str = "kept-secret/";
/// Timer that tries the secrets which are kept for the configured application.
pub(crate) const TRIAL: &str = "root-kept";
/// Maximum number of applications whose secrets a removal of the configuration forgets at once.
const MAX_PLACES: u32 = 1_000;

/// Secrets of an application that may be in force, the newest last. No `Debug`, because it contains
/// secrets.
#[derive(Serialize, Deserialize)]
struct KeptSecrets {
    #[serde(flatten)]
    place: SecretPlace,
    secrets: Vec<RotatedSecret>,
}

stored!(KeptSecrets, "kept-secrets", reads_stored_kept_secrets);

fn key(digest: &str) -> String {
    format!("{PREFIX}{digest}")
}

/// Sets the note about the kept secrets of an application, or removes the note if there are none.
fn set_note(host: &dyn Host, digest: &str, record: Option<&KeptSecrets>) -> Result<(), Failure> {
    let note = record.map(|KeptSecrets { place, secrets }| {
        let key_ids: Vec<String> = secrets.iter().map(|one| quoted(&one.key_id)).collect();
        let (application, key_ids) = (quoted(&place.client_id), key_ids.join(", "));
        format!("a client secret of application {application} (key id {key_ids})")
    });
    only_copy::set_note(host, &format!("kept-{digest}"), note)
}

/// Keeps a secret of an application.
///
/// # Errors
/// Failures of the storage.
pub(crate) fn keep(
    host: &dyn Host,
    place: &SecretPlace,
    secret: RotatedSecret,
) -> Result<(), Failure> {
    let mut secrets = find(host, place)?;
    secrets.retain(|other| other.secret != secret.secret);
    secrets.push(secret);
    let (digest, record) =
        (place_digest(host, place)?, KeptSecrets { place: place.clone(), secrets });
    set_note(host, &digest, Some(&record))?;
    host.storage().put(&key(&digest), &record)
}

/// Returns the kept secrets of an application, the newest last.
///
/// # Errors
/// Failures of the storage.
pub(crate) fn find(host: &dyn Host, place: &SecretPlace) -> Result<Vec<RotatedSecret>, Failure> {
    let record = host.storage().get::<KeptSecrets>(&key(&place_digest(host, place)?))?;
    Ok(record.map(|record| record.secrets).unwrap_or_default())
}

/// Forgets the kept secrets of an application, because another secret has logged in there.
///
/// # Errors
/// Failures of the storage.
pub(crate) fn forget(host: &dyn Host, place: &SecretPlace) -> Result<(), Failure> {
    let digest = place_digest(host, place)?;
    set_note(host, &digest, None)?;
    host.storage().delete(&key(&digest))?;
    host.clock().cancel(TRIAL)
}

/// Sets the timer that tries the kept secrets of an application, if there are any.
///
/// # Errors
/// Failures of storage or clock.
pub(crate) fn try_soon(host: &dyn Host, place: &SecretPlace) -> Result<(), Failure> {
    match find(host, place)?.is_empty() {
        true => host.clock().cancel(TRIAL),
        false => host.clock().schedule(TRIAL, host.clock().now(), TRIAL),
    }
}

/// Forgets the kept secrets of every application, because the configuration is removed. Returns
/// the provider's ids of the secrets.
///
/// # Errors
/// Failures of storage or clock.
pub(crate) fn forget_all(host: &dyn Host) -> Result<Vec<String>, Failure> {
    let mut key_ids = Vec::new();
    for digest in host.storage().keys(PREFIX, "", MAX_PLACES)? {
        let key = key(&digest);
        let record = host.storage().get::<KeptSecrets>(&key)?;
        let secrets = record.map(|record| record.secrets).unwrap_or_default();
        key_ids.extend(secrets.into_iter().map(|secret| secret.key_id));
        set_note(host, &digest, None)?;
        host.storage().delete(&key)?;
    }
    host.clock().cancel(TRIAL)?;
    Ok(key_ids)
}

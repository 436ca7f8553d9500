//! Service account keys that only the method knows, kept when a write of the configuration replaces
//! them or leads elsewhere.
//!
//! This file prevents the loss of the only copy of a key that works: after `rotate-root`, a write
//! with the first key, as a tool sends it that writes every field at each change, would otherwise
//! replace the key. A kept key is forgotten only after another key of its account has logged in.
//!
//! This file prevents this attack, too: a caller with write access to the configuration points
//! `custom_endpoint` at their own server, gives any key of the account, and receives access tokens
//! of the kept key. A kept key belongs to its account with its endpoints.

use crate::settings::{KeyPlace, RotatedKey};
use bulkhead_sdk::kept_secrets::place_digest;
use bulkhead_sdk::only_copy;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Failure, Host, stored};
use serde::{Deserialize, Serialize};

/// Key prefix of the records.
const PREFIX: &str = "kept-key/";
/// Timer that tries the keys which are kept for the configured account.
pub(crate) const TRIAL: &str = "kept-keys";

/// Keys of an account that may be in force, the newest last. No `Debug`, because it contains keys.
#[derive(Serialize, Deserialize)]
struct KeptKeys {
    place: KeyPlace,
    keys: Vec<RotatedKey>,
}

stored!(KeptKeys, "kept-keys", reads_stored_kept_keys);

fn name(digest: &str) -> String {
    format!("{PREFIX}{digest}")
}

/// Sets the note about the kept keys of an account, or removes the note if there are none.
fn set_note(host: &dyn Host, digest: &str, record: Option<&KeptKeys>) -> Result<(), Failure> {
    let note = record.map(|KeptKeys { place, keys }| {
        let ids: Vec<String> = keys.iter().map(|one| quoted(&one.key.private_key_id)).collect();
        format!("a key of {} (id {})", quoted(&place.account), ids.join(", "))
    });
    only_copy::set_note(host, &format!("kept-{digest}"), note)
}

/// Keeps a key of an account.
///
/// # Errors
/// Failures of the storage.
pub(crate) fn keep(host: &dyn Host, place: &KeyPlace, key: RotatedKey) -> Result<(), Failure> {
    let mut keys = find(host, place)?;
    keys.retain(|other| other.key != key.key);
    keys.push(key);
    let (digest, record) = (place_digest(host, place)?, KeptKeys { place: place.clone(), keys });
    set_note(host, &digest, Some(&record))?;
    host.storage().put(&name(&digest), &record)
}

/// Returns the kept keys of an account, the newest last.
///
/// # Errors
/// Failures of the storage.
pub(crate) fn find(host: &dyn Host, place: &KeyPlace) -> Result<Vec<RotatedKey>, Failure> {
    let record = host.storage().get::<KeptKeys>(&name(&place_digest(host, place)?))?;
    Ok(record.map(|record| record.keys).unwrap_or_default())
}

/// Forgets the kept keys of an account, because another key of the account has logged in.
///
/// # Errors
/// Failures of the storage.
pub(crate) fn forget(host: &dyn Host, place: &KeyPlace) -> Result<(), Failure> {
    let digest = place_digest(host, place)?;
    set_note(host, &digest, None)?;
    host.storage().delete(&name(&digest))?;
    host.clock().cancel(TRIAL)
}

/// Sets the timer that tries the kept keys of an account, if there are any.
///
/// # Errors
/// Failures of storage or clock.
pub(crate) fn try_soon(host: &dyn Host, place: Option<&KeyPlace>) -> Result<(), Failure> {
    let is_any = match place {
        Some(place) => !find(host, place)?.is_empty(),
        None => false,
    };
    match is_any {
        true => host.clock().schedule(TRIAL, host.clock().now(), TRIAL),
        false => host.clock().cancel(TRIAL),
    }
}

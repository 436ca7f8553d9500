//! Trials of service account keys at the provider, before a write replaces a key that a rotation
//! made, and until it is known which of several keys works.
//!
//! This file prevents the loss of the only copy of a key that works. A trial sends a signed
//! assertion, never the key, and only to the provider's own token endpoint, which no configuration
//! can change.

use crate::access::{self, KeyProof};
use crate::cloud::impatient_provider;
use crate::credentials::ServiceAccountKey;
use crate::kept_keys;
use crate::root_keys::RootKeys;
use crate::settings::{Config, KeyPlace, RotatedKey};
use bulkhead_sdk::database_plugin::StoreTime;
use bulkhead_sdk::host::LogLevel;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Call, Failure, Host};

/// Result of the comparison of the configured key with keys that a rotation made.
enum TrialResult {
    /// The configured key works, and no rotation replaced it or no other one works.
    Configured,
    /// The key that a rotation made works, and the configured one is refused or replaced.
    Rotated { key: RotatedKey, is_configured_refused: bool },
    /// The provider refuses each of the keys.
    Neither,
    /// The provider does not tell.
    Unproven(Failure),
}

/// The key that a rotation made, after a write of the configuration.
pub(crate) enum KeptRootKey {
    /// The key is not kept: the write does not replace the key, another one has logged in, or the
    /// caller gives up the key.
    No(Vec<String>),
    /// The key is kept. No timer tries the key: the provider has refused it now.
    ForLaterWrites(String),
    /// The key is kept, and is tried soon.
    ForTrial(String),
}

impl KeptRootKey {
    /// Returns the warnings for the operator.
    pub(crate) fn warnings(&self) -> Vec<String> {
        match self {
            Self::No(warnings) => warnings.clone(),
            Self::ForLaterWrites(warning) | Self::ForTrial(warning) => vec![warning.clone()],
        }
    }
}

/// Compares the key `configured` with the keys `rotated`, which a rotation made for the same
/// account, the newest last.
fn compare(
    host: &dyn Host,
    deadline: StoreTime,
    (configured, rotated): (&ServiceAccountKey, &[RotatedKey]),
) -> Result<TrialResult, Failure> {
    let provider = impatient_provider(host, deadline);
    let id = &configured.private_key_id;
    let is_former = rotated.iter().any(|one| one.follows == *id);
    let is_refused = match access::prove(&provider, configured)? {
        KeyProof::Accepted if !is_former => return Ok(TrialResult::Configured),
        KeyProof::Accepted => false,
        KeyProof::Refused => true,
        KeyProof::Unknown(why) => return Ok(TrialResult::Unproven(why)),
    };
    let mut unknown = None;
    for one in rotated.iter().rev() {
        match access::prove(&provider, &one.key)? {
            KeyProof::Accepted => {
                let (key, is_configured_refused) = (one.clone(), is_refused);
                return Ok(TrialResult::Rotated { key, is_configured_refused });
            }
            KeyProof::Refused => {}
            KeyProof::Unknown(why) => unknown = Some(why),
        }
    }
    Ok(match unknown {
        Some(why) => TrialResult::Unproven(why),
        None if is_refused => TrialResult::Neither,
        None => TrialResult::Configured,
    })
}

/// Decides whether a write may replace the keys that a rotation made: the key in use, and a new key
/// that is not in use yet. `before` is the stored configuration and `config` the one to be stored.
/// A key of another place is kept, also if the caller demands the replacement, which concerns the
/// keys of the place of `config` alone.
///
/// # Errors
/// Invalid request if the given key does not work and a key that a rotation made does.
pub(crate) fn check_replacement(
    host: &dyn Host,
    call: &Call,
    (before, config): (&Config, &Config),
) -> Result<KeptRootKey, Failure> {
    let (old, new) = (before.place(), config.place());
    let is_forced = call.flag("force") && new.is_some();
    let is_same_key = before.credentials == config.credentials;
    if is_same_key && old == new && !is_forced {
        return Ok(KeptRootKey::No(Vec::new()));
    }
    let mut keys = RootKeys::find(host)?;
    let next = keys.take_superseded(before, config);
    let mut candidates: Vec<(KeyPlace, RotatedKey)> =
        old.zip(before.rotated_key()).into_iter().collect();
    candidates.extend(next);
    let (here, elsewhere): (Vec<_>, Vec<_>) =
        candidates.into_iter().partition(|(place, _)| Some(place) == new.as_ref());
    keys.spare_configured(config);
    let warning = elsewhere.last().map(|(place, one)| kept_elsewhere(&one.key, place));
    for (place, one) in elsewhere {
        kept_keys::keep(host, &place, one)?;
    }
    let here: Vec<RotatedKey> = here.into_iter().map(|(_, one)| one).collect();
    let new = new.as_ref().zip(config.credentials.as_ref());
    if let Some(new) = new.filter(|_| is_forced) {
        let lost = force_replacement(host, &mut keys, new, here)?;
        keys.store(host)?;
        return Ok(KeptRootKey::No(warning.into_iter().chain(lost).collect()));
    }
    keys.store(host)?;
    match new {
        Some((place, given)) if !here.is_empty() => check_key(host, call, (place, given), here),
        _ => Ok(warning.map_or(KeptRootKey::No(Vec::new()), KeptRootKey::ForTrial)),
    }
}

/// Replaces the keys of a place that a rotation made without a trial, as the caller demands: the
/// one in use, and the kept ones, which a timer could otherwise use again. A new key that was never
/// in use ends. Returns a warning for each of the others.
fn force_replacement(
    host: &dyn Host,
    keys: &mut RootKeys,
    (place, given): (&KeyPlace, &ServiceAccountKey),
    rotated: Vec<RotatedKey>,
) -> Result<Vec<String>, Failure> {
    let mut lost = kept_keys::find(host, place)?;
    lost.retain(|other| rotated.iter().all(|one| one.key != other.key));
    for one in rotated {
        match one.rotated {
            Some(_) => lost.push(one),
            None => keys.retire(host, one.key, Some(place.clone())),
        }
    }
    kept_keys::forget(host, place)?;
    let lost = lost.iter().filter(|one| one.key != *given);
    Ok(lost.map(|one| replaced(&one.key)).collect())
}

fn replaced(key: &ServiceAccountKey) -> String {
    format!(
        "key {} of service account {}, which rotate-root made, is stored nowhere any more; remove \
         the key from the account",
        key.private_key_id, key.client_email
    )
}

/// Compares the given key with those that a rotation made for the same account.
fn check_key(
    host: &dyn Host,
    call: &Call,
    (place, given): (&KeyPlace, &ServiceAccountKey),
    rotated: Vec<RotatedKey>,
) -> Result<KeptRootKey, Failure> {
    let result = compare(host, call.deadline, (given, &rotated))?;
    let outcome: fn(String) -> KeptRootKey = match result {
        TrialResult::Configured => {
            settle(host, place, given, rotated)?;
            return Ok(KeptRootKey::No(Vec::new()));
        }
        TrialResult::Rotated { is_configured_refused, .. } => {
            return Err(refused(given, is_configured_refused));
        }
        TrialResult::Neither => KeptRootKey::ForLaterWrites,
        TrialResult::Unproven(_) => KeptRootKey::ForTrial,
    };
    for one in rotated {
        kept_keys::keep(host, place, one)?;
    }
    let warning = match result {
        TrialResult::Neither => {
            "Google refuses both the given credentials and the key made by rotate-root, which is \
             kept; write config with a key that works"
        }
        _ => {
            "the given credentials could not be tried at Google; the key made by rotate-root is \
             kept, and Bulkhead uses whichever key works"
        }
    };
    Ok(outcome(warning.to_owned()))
}

fn refused(given: &ServiceAccountKey, is_refused: bool) -> Failure {
    let (id, account) = (quoted(&given.private_key_id), quoted(&given.client_email));
    let fault = match is_refused {
        true => format!("Google refuses key {id} of service account {account} in credentials"),
        false => {
            format!("rotate-root replaced key {id} of service account {account} in credentials")
        }
    };
    Failure::invalid(format!(
        "{fault}, and the kept key that rotate-root made works: leave credentials out, or replace \
         the working key with force=true; a key made just now may need a minute, so repeat the \
         write then"
    ))
}

fn kept_elsewhere(key: &ServiceAccountKey, place: &KeyPlace) -> String {
    format!(
        "key {} of service account {}, which rotate-root made, is kept; a configuration with \
         credentials of this account and the former custom_endpoint uses the key again, unless the \
         given key works",
        quoted(&key.private_key_id),
        quoted(&place.account)
    )
}

/// Tries the keys that are kept for the configured account when their timer fires: one of them is
/// used again, or the configured key works and they are removed.
///
/// # Errors
/// The provider's failure, if it does not tell which key works; the timer then fires again.
pub(crate) fn try_kept(host: &dyn Host, deadline: StoreTime) -> Result<(), Failure> {
    let config = Config::find(host)?;
    let Some((place, configured)) = config.place().zip(config.credentials.clone()) else {
        return Ok(());
    };
    let mut candidates = kept_keys::find(host, &place)?;
    if candidates.is_empty() {
        return Ok(());
    }
    match compare(host, deadline, (&configured, &candidates))? {
        TrialResult::Configured => settle(host, &place, &configured, candidates),
        TrialResult::Rotated { key, .. } => {
            candidates.retain(|one| one.key != key.key);
            restore(host, config, (&place, key), candidates)
        }
        TrialResult::Neither => {
            host.log().write(LogLevel::Error, "root-keys-refused", &[("account", &place.account)]);
            Ok(())
        }
        TrialResult::Unproven(why) => Err(why),
    }
}

/// Retires the keys `others`, because the key `working` of the same account has logged in.
fn settle(
    host: &dyn Host,
    place: &KeyPlace,
    working: &ServiceAccountKey,
    others: Vec<RotatedKey>,
) -> Result<(), Failure> {
    let mut keys = RootKeys::find(host)?;
    keys.settle(host, (place, working), others)?;
    keys.store(host)
}

/// Uses a kept key again. The configured key ends if it is the one that the rotation replaced, as
/// it would have ended without the write in between.
fn restore(
    host: &dyn Host,
    mut config: Config,
    (place, rotated): (&KeyPlace, RotatedKey),
    others: Vec<RotatedKey>,
) -> Result<(), Failure> {
    let mut keys = RootKeys::find(host)?;
    let former = config.credentials.take().filter(|key| key.private_key_id == rotated.follows);
    if let Some(former) = former {
        keys.retire(host, former, Some(place.clone()));
    }
    keys.settle(host, (place, &rotated.key), others)?;
    keys.store(host)?;
    let (id, account) = (rotated.key.private_key_id.clone(), place.account.as_str());
    let pairs = [("account", account), ("key", id.as_str())];
    host.log().write(LogLevel::Info, "root-key-restored", &pairs);
    config.set_rotated_key(rotated, host.clock().now())?;
    config.store(host)
}

#[cfg(test)]
mod tests;

//! Trials of client secrets at the provider, before a write replaces a secret that a rotation made,
//! and until it is known which of several secrets works.
//!
//! This file prevents the loss of the only copy of a secret that works. This file prevents this
//! attack, too: a caller with write access to the configuration names another tenant or cloud,
//! gives any secret, and has the kept secret sent there. A kept secret is tried only at the
//! application for which it was made.

use crate::configuration::Config;
use crate::credential;
use crate::kept_secrets;
use crate::root_records::RetiredPasswords;
use crate::rotated_secret::{RotatedSecret, SecretPlace};
use crate::settings::EffectiveSettings;
use bulkhead_sdk::database_plugin::StoreTime;
use bulkhead_sdk::host::LogLevel;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Call, Failure, Host};

/// Answer of the provider to a secret.
pub(crate) enum SecretProof {
    Accepted,
    Refused,
    /// The provider did not answer, or its answer says nothing about the secret.
    Unknown(Failure),
}

/// Result of the comparison of the configured secret with secrets that a rotation made.
enum TrialResult {
    /// The configured secret works, and no rotation replaced it or no other one works.
    Configured,
    /// The secret that a rotation made works, and the configured one is refused or replaced.
    Rotated { secret: RotatedSecret, is_configured_refused: bool },
    /// The provider refuses each of the secrets.
    Neither,
    /// The provider does not tell.
    Unproven(Failure),
}

/// The secret that a rotation made, after a write of the configuration.
pub(crate) enum KeptClientSecret {
    /// The secret is not kept: the write does not replace the secret, another one has logged in, or
    /// the caller gives up the secret.
    No(Vec<String>),
    /// The secret is kept. No timer tries the secret: the provider has refused it now.
    ForLaterWrites(String),
    /// The secret is kept, and is tried soon.
    ForTrial(String),
}

impl KeptClientSecret {
    /// Returns the warnings for the operator.
    pub(crate) fn warnings(&self) -> Vec<String> {
        match self {
            Self::No(warnings) => warnings.clone(),
            Self::ForLaterWrites(warning) | Self::ForTrial(warning) => vec![warning.clone()],
        }
    }
}

/// Tries a secret at the configured application.
pub(crate) fn prove(
    host: &dyn Host,
    settings: &EffectiveSettings,
    deadline: StoreTime,
    secret: &str,
) -> SecretProof {
    let provider = settings.impatient_provider(host, deadline);
    match credential::by_secret(&provider, settings, secret, settings.cloud.graph) {
        Ok(_) => SecretProof::Accepted,
        Err(refusal) if credential::is_refused_secret(&refusal) => SecretProof::Refused,
        Err(refusal) => SecretProof::Unknown(refusal.about("try a client secret")),
    }
}

/// Compares the secret `configured` with the secrets `rotated`, which a rotation made for the
/// configured application, the newest last.
fn compare(
    host: &dyn Host,
    settings: &EffectiveSettings,
    deadline: StoreTime,
    (configured, rotated): (&str, &[RotatedSecret]),
) -> Result<TrialResult, Failure> {
    let prove = |secret: &str| prove(host, settings, deadline, secret);
    let is_refused = match prove(configured) {
        SecretProof::Accepted if !is_former(host, configured, rotated)? => {
            return Ok(TrialResult::Configured);
        }
        SecretProof::Accepted => false,
        SecretProof::Refused => true,
        SecretProof::Unknown(why) => return Ok(TrialResult::Unproven(why)),
    };
    let mut unknown = None;
    for one in rotated.iter().rev() {
        match prove(&one.secret) {
            SecretProof::Accepted => {
                let (secret, is_configured_refused) = (one.clone(), is_refused);
                return Ok(TrialResult::Rotated { secret, is_configured_refused });
            }
            SecretProof::Refused => {}
            SecretProof::Unknown(why) => unknown = Some(why),
        }
    }
    Ok(match unknown {
        Some(why) => TrialResult::Unproven(why),
        None if is_refused => TrialResult::Neither,
        None => TrialResult::Configured,
    })
}

/// Tells if a rotation replaced `secret`, so that a login by `secret` proves nothing.
fn is_former(host: &dyn Host, secret: &str, rotated: &[RotatedSecret]) -> Result<bool, Failure> {
    for one in rotated {
        if one.has_replaced(host, secret)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Decides whether a write may replace the secret that a rotation made. `before` is the stored
/// configuration, and `settings` are those to be stored. A secret of another application is kept,
/// also if the caller demands the replacement, which concerns the secrets of the application of
/// `settings` alone.
///
/// # Errors
/// Invalid request if the given secret does not work and the secret that a rotation made does.
pub(crate) fn check_replacement(
    host: &dyn Host,
    call: &Call,
    (before, settings): (&Config, &EffectiveSettings),
) -> Result<KeptClientSecret, Failure> {
    let (given, place) = (settings.client_secret(host)?, settings.place());
    let is_forced = call.flag("force") && !given.is_empty();
    let (mut warnings, mut here) = (Vec::new(), before.rotated_secret());
    if let Some(rotated) = here.take() {
        let own = place_of(host, before)?;
        if given.is_empty() || own != place {
            let warning = kept_elsewhere(&rotated.key_id, &own);
            kept_secrets::keep(host, &own, rotated)?;
            if !is_forced {
                return Ok(KeptClientSecret::ForTrial(warning));
            }
            warnings.push(warning);
        } else {
            here = Some(rotated);
        }
    }
    if is_forced {
        warnings.extend(force_replacement(host, (&place, &given), here)?);
        return Ok(KeptClientSecret::No(warnings));
    }
    match here.filter(|rotated| rotated.secret != given) {
        Some(rotated) => check_secret(host, call, settings, (&given, rotated)),
        None => Ok(KeptClientSecret::No(warnings)),
    }
}

/// Replaces the secrets of an application that a rotation made without a trial, as the caller
/// demands: the one in use, and the kept ones, which a timer could otherwise put in force again.
/// Returns a warning for each.
fn force_replacement(
    host: &dyn Host,
    (place, given): (&SecretPlace, &str),
    rotated: Option<RotatedSecret>,
) -> Result<Vec<String>, Failure> {
    let mut lost = kept_secrets::find(host, place)?;
    lost.retain(|other| rotated.as_ref().is_none_or(|rotated| rotated.secret != other.secret));
    lost.extend(rotated);
    spare_former(host, given, &lost)?;
    kept_secrets::forget(host, place)?;
    Ok(lost.iter().filter(|one| one.secret != given).map(|one| replaced(&one.key_id)).collect())
}

/// Returns the application for which a rotation made the secret of `config`.
fn place_of(host: &dyn Host, config: &Config) -> Result<SecretPlace, Failure> {
    match &config.secret_place {
        Some(place) => Ok(place.clone()),
        None => Ok(EffectiveSettings::of(host, config.clone())?.place()),
    }
}

/// Compares the given secret with the one that a rotation made for the same application.
fn check_secret(
    host: &dyn Host,
    call: &Call,
    settings: &EffectiveSettings,
    (given, rotated): (&str, RotatedSecret),
) -> Result<KeptClientSecret, Failure> {
    let place = settings.place();
    let only = [rotated];
    let result = compare(host, settings, call.deadline, (given, &only))?;
    let [rotated] = only;
    match result {
        TrialResult::Configured => {
            settle(host, &place, (given, vec![rotated]))?;
            Ok(KeptClientSecret::No(Vec::new()))
        }
        TrialResult::Rotated { is_configured_refused, .. } => {
            Err(refused(&place.client_id, is_configured_refused))
        }
        TrialResult::Neither => {
            kept_secrets::keep(host, &place, rotated)?;
            Ok(KeptClientSecret::ForLaterWrites(
                "Azure refuses both the given client_secret and the secret made by rotate-root, \
                 which is kept; write config with the secret that works"
                    .to_owned(),
            ))
        }
        TrialResult::Unproven(_) => {
            kept_secrets::keep(host, &place, rotated)?;
            Ok(KeptClientSecret::ForTrial(
                "the given client_secret could not be tried at Azure; the secret made by \
                 rotate-root is kept, and Bulkhead uses whichever secret works"
                    .to_owned(),
            ))
        }
    }
}

fn refused(client_id: &str, is_refused: bool) -> Failure {
    let application = quoted(client_id);
    let fault = match is_refused {
        true => format!("Azure refuses the given client_secret of application {application}"),
        false => {
            format!("rotate-root replaced the given client_secret of application {application}")
        }
    };
    Failure::invalid(format!(
        "{fault}, and the kept secret that rotate-root made works: leave client_secret out, or \
         replace the working secret with force=true; a secret made just now may need minutes, so \
         repeat the write then"
    ))
}

fn replaced(key_id: &str) -> String {
    format!(
        "client secret {key_id}, which rotate-root made, is stored nowhere any more; remove the \
         secret from the application"
    )
}

fn kept_elsewhere(key_id: &str, place: &SecretPlace) -> String {
    format!(
        "client secret {key_id}, which rotate-root made for application {} of tenant {}, is kept; \
         a configuration with the former environment, tenant_id and client_id uses the secret \
         again, unless the given client_secret works",
        quoted(&place.client_id),
        quoted(&place.tenant)
    )
}

/// Tries the secrets that are kept for the configured application when their timer fires: one of
/// them becomes `client_secret`, or the present `client_secret` works and they are removed.
///
/// # Errors
/// The provider's failure, if it does not tell which secret works; the timer then fires again.
pub(crate) fn try_kept(host: &dyn Host, deadline: StoreTime) -> Result<(), Failure> {
    let Some(config) = Config::find(host)? else { return Ok(()) };
    let settings = EffectiveSettings::of(host, config)?;
    let place = settings.place();
    let mut candidates = kept_secrets::find(host, &place)?;
    let configured = settings.client_secret(host)?;
    if candidates.is_empty() || configured.is_empty() {
        return Ok(());
    }
    match compare(host, &settings, deadline, (&configured, &candidates))? {
        TrialResult::Configured => settle(host, &place, (&configured, candidates)),
        TrialResult::Rotated { secret, .. } => {
            candidates.retain(|one| one.secret != secret.secret);
            restore(host, settings.config, (&place, secret), candidates)
        }
        TrialResult::Neither => {
            host.log().write(LogLevel::Error, "root-secrets-refused", &[]);
            Ok(())
        }
        TrialResult::Unproven(why) => Err(why),
    }
}

/// Forgets the secrets `others` of an application, because `working` has logged in there, and
/// schedules their removal at the provider.
///
/// # Errors
/// Failures of storage or clock.
pub(crate) fn settle(
    host: &dyn Host,
    place: &SecretPlace,
    (working, mut others): (&str, Vec<RotatedSecret>),
) -> Result<(), Failure> {
    spare_former(host, working, &others)?;
    others.extend(kept_secrets::find(host, place)?);
    others.retain(|one| one.secret != working);
    kept_secrets::forget(host, place)?;
    RetiredPasswords::add(host, Some(place), others.into_iter().map(|one| one.key_id), [])?;
    RetiredPasswords::resume(host, place)
}

/// Keeps the provider from losing a secret that a rotation replaced, and that the configuration
/// uses again.
fn spare_former(host: &dyn Host, secret: &str, rotated: &[RotatedSecret]) -> Result<(), Failure> {
    for one in rotated {
        let Some(key_id) = one.former_key_id() else { continue };
        if one.has_replaced(host, secret)? {
            RetiredPasswords::spare(host, &key_id)?;
        }
    }
    Ok(())
}

/// Puts a kept secret in force again, and schedules the removal of the secret that its rotation
/// replaced and of the secrets `others`.
fn restore(
    host: &dyn Host,
    mut config: Config,
    (place, secret): (&SecretPlace, RotatedSecret),
    others: Vec<RotatedSecret>,
) -> Result<(), Failure> {
    let (working, key_id) = (secret.secret.clone(), secret.key_id.clone());
    let former = secret.former_key_id();
    config.set_rotated_secret(secret, place.clone());
    config.store(host)?;
    RetiredPasswords::add(host, Some(place), former, [])?;
    host.log().write(LogLevel::Info, "root-secret-restored", &[("key_id", &key_id)]);
    settle(host, place, (&working, others))
}

#[cfg(test)]
mod tests;

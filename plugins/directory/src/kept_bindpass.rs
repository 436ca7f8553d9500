//! Passwords of `binddn` that only the engine knows, kept when a write of the configuration
//! replaces the passwords or leads elsewhere.
//!
//! Prevents the loss of the only copy of a password: after `rotate-root`, a write with the first
//! password, as a tool sends it that writes every field at each change, would otherwise replace the
//! password that works. A kept password is forgotten only after another password has logged in as
//! the same user at the same servers.
//!
//! Prevents this attack, too: a caller with write access to the configuration changes how the
//! servers prove themselves, gives any password, and receives the kept one as a man in the middle.
//! A kept password belongs to its servers with their authentication settings.

use crate::directory::{DirectoryClient, PasswordProof};
use crate::known_servers::KnownServers;
use crate::settings::Config;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::wire::hexadecimal;
use bulkhead_sdk::{Call, Failure, Host, stored};
use serde::{Deserialize, Serialize};

/// Key prefix of the records.
const PREFIX: &str = "kept-bindpass/";
/// Maximum number of passwords of a login.
const MAX_PASSWORDS: usize = 32;

/// A login at some servers.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LoginPlace {
    #[serde(flatten)]
    servers: KnownServers,
    login: String,
}

/// Passwords of a login that may be in force, the newest last. No `Debug`, because they are secret.
#[derive(Serialize, Deserialize)]
struct KeptPasswords {
    #[serde(flatten)]
    place: LoginPlace,
    passwords: Vec<String>,
}

stored!(KeptPasswords, "kept-bindpass", reads_stored_kept_passwords);

impl LoginPlace {
    pub(crate) fn of(config: &Config) -> Self {
        Self { servers: KnownServers::of(config), login: config.login_name() }
    }

    fn key(&self, host: &dyn Host) -> Result<String, Failure> {
        let named = serde_json::to_vec(self)
            .map_err(|_| Failure::internal("the servers of a login cannot be written as JSON"))?;
        let digest = host.crypto().digest("sha256", &named)?;
        Ok(format!("{PREFIX}{}", hexadecimal::text(&digest)))
    }
}

/// Adds passwords of a login.
///
/// # Errors
/// Invalid request for more than 32 passwords of a login: none of them has logged in since.
pub(crate) fn keep(
    host: &dyn Host,
    place: &LoginPlace,
    passwords: impl IntoIterator<Item = String>,
) -> Result<(), Failure> {
    let key = place.key(host)?;
    let found = host.storage().get::<KeptPasswords>(&key)?;
    let mut kept =
        found.unwrap_or_else(|| KeptPasswords { place: place.clone(), passwords: Vec::new() });
    for password in passwords {
        kept.passwords.retain(|known| *known != password);
        kept.passwords.push(password);
    }
    if kept.passwords.len() > MAX_PASSWORDS {
        return Err(Failure::invalid(format!(
            "the engine keeps {MAX_PASSWORDS} passwords of {} at earlier servers, and does not \
             know which one works; lead the configuration back there once",
            quoted(&place.login)
        )));
    }
    host.storage().put(&key, &kept)
}

/// Returns the kept passwords of a login, the newest last.
///
/// # Errors
/// Failures of the storage.
pub(crate) fn find(host: &dyn Host, place: &LoginPlace) -> Result<Vec<String>, Failure> {
    let kept = host.storage().get::<KeptPasswords>(&place.key(host)?)?;
    Ok(kept.map(|kept| kept.passwords).unwrap_or_default())
}

/// Forgets the kept passwords of a login, because another password has logged in, or because an
/// intent has them.
///
/// # Errors
/// Failures of the storage.
pub(crate) fn forget(host: &dyn Host, place: &LoginPlace) -> Result<(), Failure> {
    host.storage().delete(&place.key(host)?)
}

/// The password that the engine made, after a write of the configuration.
pub(crate) enum KeptBindpass {
    /// The password is not kept: the write does not replace it, or another one has logged in.
    No,
    /// The password is kept. Nothing tries the password before a later write: the directory has
    /// refused it now, and refused logins lock accounts.
    ForLaterWrites(String),
    /// The password is kept, and is to be tried soon.
    ForTrial(String),
}

impl KeptBindpass {
    /// Returns the warning for the operator.
    pub(crate) fn warning(&self) -> Option<String> {
        match self {
            Self::No => None,
            Self::ForLaterWrites(warning) | Self::ForTrial(warning) => Some(warning.clone()),
        }
    }
}

/// Decides whether a write may replace the password that the engine made. `before` is the stored
/// configuration and `config` the one to be stored.
///
/// # Errors
/// Invalid request if the given password does not log in and the password that the engine made
/// does.
pub(crate) fn check_replacement(
    host: &dyn Host,
    call: &Call,
    (before, config): (&Config, &Config),
) -> Result<KeptBindpass, Failure> {
    let (old, new) = (LoginPlace::of(before), LoginPlace::of(config));
    let is_replaced = before.bindpass != config.bindpass || old != new;
    if before.bindpass_rotated.is_none() || !is_replaced || call.flag("force") {
        return Ok(KeptBindpass::No);
    }
    if old != new {
        keep(host, &old, [before.bindpass.clone()])?;
        return Ok(KeptBindpass::ForTrial(format!(
            "the password that rotate-root made for {} at {} is kept; a configuration with the \
             former servers, TLS settings and binddn uses the password again, whatever bindpass it \
             gives",
            quoted(&old.login),
            quoted(&before.url)
        )));
    }
    let prove = |password: &str| DirectoryClient::new(host, config).prove(&new.login, password);
    let given = prove(&config.bindpass);
    // A controller that does not know the rotation yet accepts the password before the rotation.
    let is_former = config.bindpass == before.previous_bindpass;
    if matches!(given, Ok(PasswordProof::InForce)) && !is_former {
        return forget(host, &new).map(|()| KeptBindpass::No);
    }
    match (given, prove(&before.bindpass)) {
        (Ok(PasswordProof::InForce | PasswordProof::NotInForce), Ok(PasswordProof::InForce)) => {
            Err(Failure::invalid(format!(
                "bindpass is not the present password of {}, and the password that rotate-root \
                 made is: leave bindpass out, or replace the password that works with force=true",
                quoted(&new.login)
            )))
        }
        (Ok(PasswordProof::InForce), Ok(PasswordProof::NotInForce)) => {
            forget(host, &new).map(|()| KeptBindpass::No)
        }
        (Ok(PasswordProof::NotInForce), Ok(PasswordProof::NotInForce)) => {
            keep(host, &new, [before.bindpass.clone()])?;
            Ok(KeptBindpass::ForLaterWrites(
                "the directory refuses both the given bindpass and the password that rotate-root \
                 made; write config with the one that is in force"
                    .to_owned(),
            ))
        }
        _ => {
            keep(host, &new, [before.bindpass.clone()])?;
            Ok(KeptBindpass::ForTrial(
                "the given bindpass could not be proven; the password that rotate-root made is \
                 kept, and the one of both that logs in is used"
                    .to_owned(),
            ))
        }
    }
}

//! Passwords of `binddn` that only the engine knows, kept when a write of the configuration
//! replaces the passwords or leads elsewhere.
//!
//! This file prevents the loss of the only copy of a password: after `rotate-root`, a write with
//! the first password, as a tool sends it that writes every field at each change, would otherwise
//! replace the password that works. A kept password is forgotten only after another password has
//! logged in as the same user at the same servers.
//!
//! This file prevents this attack, too: a caller with write access to the configuration changes how
//! the servers prove themselves, gives any password, and receives the kept one as a man in the
//! middle. A kept password belongs to its servers with their authentication settings.

use crate::directory::{DirectoryClient, PasswordProof};
use crate::known_servers::KnownServers;
use crate::settings::Config;
use bulkhead_sdk::kept_secrets::KeptSecrets;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Call, Failure, Host};
use serde::{Deserialize, Serialize};

/// A login at some servers.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LoginPlace {
    #[serde(flatten)]
    servers: KnownServers,
    login: String,
}

impl LoginPlace {
    pub(crate) fn of(config: &Config) -> Self {
        Self { servers: KnownServers::of(config), login: config.login_name() }
    }

    /// Returns the passwords that are kept for the login.
    ///
    /// # Errors
    /// As [`KeptSecrets::of`].
    pub(crate) fn kept<'a>(&self, host: &'a dyn Host) -> Result<KeptSecrets<'a>, Failure> {
        KeptSecrets::of(host, self)
    }

    /// Keeps a password of the login.
    ///
    /// # Errors
    /// As [`KeptSecrets::keep`].
    pub(crate) fn keep(&self, host: &dyn Host, password: &str) -> Result<(), Failure> {
        self.kept(host)?.keep(&self.login, [password.to_owned()])
    }
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
    if before.bindpass_rotated.is_none() || !is_replaced {
        return Ok(KeptBindpass::No);
    }
    if old != new {
        old.keep(host, &before.bindpass)?;
        return Ok(KeptBindpass::ForTrial(format!(
            "the password made by rotate-root for {} at {} is kept; a configuration with the \
             former servers, TLS settings and binddn uses the password again, instead of the given \
             bindpass",
            quoted(&old.login),
            quoted(&before.url)
        )));
    }
    if call.flag("force") {
        return new.kept(host)?.forget().map(|()| KeptBindpass::No);
    }
    let prove = |password: &str| DirectoryClient::new(host, config).prove(&new.login, password);
    let proof = prove(&config.bindpass);
    // A controller that does not know the rotation yet accepts the password before the rotation.
    let is_former = config.bindpass == before.previous_bindpass;
    if matches!(proof, Ok(PasswordProof::InForce)) && !is_former {
        return new.kept(host)?.forget().map(|()| KeptBindpass::No);
    }
    match (proof, prove(&before.bindpass)) {
        (Ok(PasswordProof::InForce | PasswordProof::NotInForce), Ok(PasswordProof::InForce)) => {
            Err(Failure::invalid(format!(
                "bindpass is not the present password of {}, and the password made by rotate-root \
                 is: leave bindpass out, or replace the working password with force=true",
                quoted(&new.login)
            )))
        }
        (Ok(PasswordProof::InForce), Ok(PasswordProof::NotInForce)) => {
            new.kept(host)?.forget().map(|()| KeptBindpass::No)
        }
        (Ok(PasswordProof::NotInForce), Ok(PasswordProof::NotInForce)) => {
            new.keep(host, &before.bindpass)?;
            Ok(KeptBindpass::ForLaterWrites(
                "the directory refuses both the given bindpass and the password made by \
                 rotate-root; write config with the password in force"
                    .to_owned(),
            ))
        }
        _ => {
            new.keep(host, &before.bindpass)?;
            Ok(KeptBindpass::ForTrial(
                "the given bindpass could not be proven; the password made by rotate-root is kept, \
                 and the engine uses the working password of the two"
                    .to_owned(),
            ))
        }
    }
}

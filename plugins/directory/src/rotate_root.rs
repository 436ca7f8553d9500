//! The endpoint `rotate-root`: replaces `bindpass` with a password that only the engine knows.
//!
//! This file prevents a directory with the new password and a store with the old one. As with
//! accounts, the candidate is stored first. A candidate belongs to the login for which it was
//! generated, and never replaces the password of another login. Calls whose login is refused during
//! the rotation wait until the new password is stored, and then use it.

use crate::directory::{self, DirectoryClient, NewerLogin, PasswordProof};
use crate::kept_bindpass::LoginPlace;
use crate::passwords;
use crate::rotation::LANE;
use crate::settings::Config;
use bulkhead_sdk::host::LogLevel;
use bulkhead_sdk::intent::{
    self, CandidateSearch, EarlierCandidates, Intent, IntentEndReason, ProvenCandidate,
};
use bulkhead_sdk::ldap::LdapFault;
use bulkhead_sdk::{Answer, Call, Failure, Host, Mount};
use serde::{Deserialize, Serialize};
use std::cell::Cell;

/// Key of the intent.
pub(crate) const KEY: &str = "root";
/// LDAP result code for insufficient rights.
const NO_RIGHT: u32 = 50;
const IN_PROGRESS: &str = "a rotation of bindpass is already in progress and goes on by itself";

/// A change under way. Part of a stored record: later fields need a default.
#[derive(Serialize, Deserialize)]
struct PendingRootChange {
    password: String,
    /// Servers of the password's login, as in the configuration.
    url: String,
    login: String,
    /// The servers with their authentication settings. `None` if an earlier release began the
    /// change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    place: Option<LoginPlace>,
}

impl PendingRootChange {
    /// Creates a change of the password of the configuration's login.
    fn of(config: &Config, password: String) -> Self {
        let place = Some(LoginPlace::of(config));
        Self { password, url: config.url.clone(), login: config.login_name(), place }
    }

    /// Keeps the password for a configuration that leads to its servers again.
    fn keep(&self, host: &dyn Host) -> Result<(), Failure> {
        match &self.place {
            Some(place) => place.keep(host, &self.password),
            None => Ok(()),
        }
    }

    fn is_of(&self, config: &Config) -> bool {
        match &self.place {
            Some(place) => *place == LoginPlace::of(config),
            None => self.url == config.url && self.login == config.login_name(),
        }
    }
}

/// Rotates `bindpass`, or warns that a rotation is already in progress.
pub(crate) fn write(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let config = Config::require(host, &call.mount)?;
    if !config.has_login() {
        return Err(Failure::invalid("there is no bindpass to rotate: accounts rotate their own"));
    }
    if intent::is_open(host, KEY)? {
        return Ok(Answer::nothing().warn([IN_PROGRESS.to_owned()]));
    }
    rotate(host, &config)?;
    Ok(Answer::nothing())
}

fn rotate(host: &dyn Host, config: &Config) -> Result<(), Failure> {
    let dn = entry_of(host, config)?;
    let password = passwords::generate(host, &config.password_rules())?;
    let change = PendingRootChange::of(config, password);
    directory::begin_rotation(host)?;
    let intent = Intent::begin(host, KEY, LANE, change)?;
    let is_unchanged = Cell::new(false);
    let outcome = intent.make(
        |change| {
            set_password(host, config, &dn, &change.password).map_err(|fault| {
                is_unchanged.set(!fault.may_have_happened);
                Failure::from(fault)
            })
        },
        |change, ()| match proof(host, config, &change.password)? {
            PasswordProof::NotInForce => {
                is_unchanged.set(proof(host, config, &config.bindpass)? == PasswordProof::InForce);
                Err(Failure::invalid(
                    "the directory took a new password for binddn and refuses a login with the new \
                     password; check schema",
                ))
            }
            _ => Ok(()),
        },
    );
    let proven = outcome.inspect_err(|_| {
        if is_unchanged.get() {
            withdraw(host);
        }
    })?;
    store(host, proven)?;
    host.storage().checkpoint()?;
    directory::end_rotation(host)
}

/// Tries the passwords that were kept for the login of `config`, after this call: the one that is
/// in force becomes `bindpass`, unless the present `bindpass` is in force.
///
/// # Errors
/// Failures of storage, clock or checkpoint.
pub(crate) fn try_kept(host: &dyn Host, config: &Config) -> Result<(), Failure> {
    if !config.has_login() || intent::is_open(host, KEY)? {
        // `finish` of the change under way tries the kept passwords, too.
        return Ok(());
    }
    let mut passwords = LoginPlace::of(config).kept(host)?.list_secrets()?.into_iter();
    let Some(oldest) = passwords.next() else { return Ok(()) };
    let intent = Intent::begin(host, KEY, LANE, PendingRootChange::of(config, oldest))?;
    // The guard of the intent wakes the engine, and `finish` looks for the password in force.
    add_kept(host, config, intent, passwords).map(drop)
}

/// Returns the DN of the entry of `binddn`.
fn entry_of(host: &dyn Host, config: &Config) -> Result<String, Failure> {
    let found = DirectoryClient::new(host, config).find_own().map_err(|why| Failure {
        message: format!("binddn has to be one entry of the directory: {}", why.message),
        ..why
    })?;
    Ok(found.dn)
}

/// Changes the password by the right to set passwords or, without that right, as any account
/// changes its own password.
fn set_password(host: &dyn Host, config: &Config, dn: &str, new: &str) -> Result<(), LdapFault> {
    let directory = DirectoryClient::new(host, config).with(NewerLogin::None);
    match directory.set_password(dn, new) {
        Err(fault) if fault.result_code == Some(NO_RIGHT) => {
            let login = config.login_name();
            DirectoryClient::as_account(host, config, &login, &config.bindpass)
                .set_password(dn, new)
        }
        done => done,
    }
}

fn proof(host: &dyn Host, config: &Config, password: &str) -> Result<PasswordProof, Failure> {
    DirectoryClient::new(host, config).prove(&config.login_name(), password)
}

/// Adds the `passwords` kept for the login of `config` to the candidates. Forgets their record
/// last, because each step before is a commit of its own.
fn add_kept(
    host: &dyn Host,
    config: &Config,
    mut intent: Intent<PendingRootChange>,
    passwords: impl Iterator<Item = String>,
) -> Result<Intent<PendingRootChange>, Failure> {
    for password in passwords {
        let candidate = PendingRootChange::of(config, password);
        intent = intent.restart(host, candidate, EarlierCandidates::Kept)?;
    }
    LoginPlace::of(config).kept(host)?.forget()?;
    Ok(intent)
}

/// Completes the rotation of a call that failed or died.
///
/// # Errors
/// Fails while the password in force is unknown; the host retries.
pub(crate) fn finish(host: &dyn Host, mount: &Mount) -> Result<(), Failure> {
    let Some(intent) = Intent::<PendingRootChange>::recover(host, KEY)? else { return Ok(()) };
    let config = Config::require(host, mount)?;
    if intent.candidates().all(|change| !change.is_of(&config)) {
        // Nobody else knows the candidates, and one of them may be in force. The newest is last.
        let candidates: Vec<&PendingRootChange> = intent.candidates().collect();
        for change in candidates.into_iter().rev() {
            change.keep(host)?;
        }
        intent.abandon(host, IntentEndReason::Unwanted)?;
        try_kept(host, &config)?;
        // The guard that is ringing must not stay for passwords that were kept for this login.
        return finish(host, mount);
    }
    let passwords = LoginPlace::of(&config).kept(host)?.list_secrets()?;
    let intent = add_kept(host, &config, intent, passwords.into_iter())?;
    let looked = intent.find_in_force(|change| {
        Ok(proof(host, &config, &change.password)? == PasswordProof::InForce)
    })?;
    match looked {
        CandidateSearch::InForce(proven) => store(host, proven),
        CandidateSearch::Nowhere(intent)
            if proof(host, &config, &config.bindpass)? == PasswordProof::InForce =>
        {
            intent.abandon(host, IntentEndReason::Unchanged)
        }
        CandidateSearch::Nowhere(_) => Err(Failure::invalid(
            "neither bindpass nor the planned new password is in force; write config with the \
             password in force",
        )),
    }
}

/// Stores the password in force, unless the configuration has another login by now. Sessions of the
/// previous password stay open for the calls under way.
fn store(host: &dyn Host, proven: ProvenCandidate<PendingRootChange>) -> Result<(), Failure> {
    proven.confirm(host, |change, ()| {
        let now = Config::find(host)?.filter(|now| change.is_of(now));
        let Some(mut now) = now else {
            host.log().write(LogLevel::Warn, "bindpass-not-stored", &[("login", &change.login)]);
            return change.keep(host);
        };
        now.previous_bindpass = std::mem::replace(&mut now.bindpass, change.password.clone());
        now.bindpass_rotated = Some(host.clock().now());
        // Whatever else was kept for this login is not in force.
        LoginPlace::of(&now).kept(host)?.forget()?;
        now.store(host)
    })
}

/// Removes the intent of a change that certainly did not happen. If the removal fails, the guard
/// stays, and `wake` comes to the same result.
fn withdraw(host: &dyn Host) {
    let forgotten = Intent::<PendingRootChange>::recover(host, KEY).and_then(|intent| {
        intent.map_or(Ok(()), |intent| intent.abandon(host, IntentEndReason::Unchanged))?;
        host.storage().checkpoint()
    });
    drop(forgotten);
}

#[cfg(test)]
mod tests;

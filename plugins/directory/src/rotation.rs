//! Rotation of an account's password: the candidate is stored before the directory is asked, proven
//! by a login, and completed by the engine's `wake` if the call is interrupted.
//!
//! This file prevents a password that only the directory knows, two concurrent changes of one
//! account, and endless retries of a change that the directory refuses.

use crate::account::{Account, note_failed_return};
use crate::directory::{DirectoryClient, DnHolder, EntryId, NewerLogin, PasswordProof, Sighting};
use crate::figures;
use crate::known_servers::KnownServers;
use crate::passwords;
use crate::presence::{self, find_again, prove_gone};
use crate::settings::Config;
use bulkhead_sdk::database_plugin::StoreTime;
use bulkhead_sdk::intent::{
    self, CandidateSearch as Looked, EarlierCandidates, Intent, IntentEndReason, ProvenCandidate,
};
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Failure, Host, Mount};
use serde::{Deserialize, Serialize};
use std::cell::Cell;

/// Lane of all due work: a mount has one directory.
pub(crate) const LANE: &str = "directory";
/// Key prefix of intents for accounts.
const ACCOUNT: &str = "account/";

/// A change under way. Part of a stored record: later fields need a default.
#[derive(Serialize, Deserialize)]
struct PendingPasswordChange {
    password: String,
    /// Id of the loan that ends with the change; empty for none.
    returns: String,
    /// Servers to which the new password may be sent. `None` if an earlier release began the
    /// change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    known_servers: Option<KnownServers>,
}

impl PendingPasswordChange {
    /// Creates a change with a generated password. With self_rotation the servers stay those of the
    /// present password, because the account can log in only there.
    fn new(
        host: &dyn Host,
        config: &Config,
        account: &Account,
        returns: String,
    ) -> Result<Self, Failure> {
        let password = passwords::generate(host, &config.password_rules())?;
        let servers = account.known_servers.clone().filter(|_| config.self_rotation);
        let known_servers = Some(servers.unwrap_or_else(|| KnownServers::of(config)));
        Ok(Self { password, returns, known_servers })
    }
}

/// Returns true if a change of the account is under way, or was interrupted and waits for `wake`.
pub(crate) fn is_open(host: &dyn Host, identity: &EntryId) -> Result<bool, Failure> {
    intent::is_open(host, &key(identity))
}

/// Waits until no call is changing the account's password, at most ten seconds.
///
/// # Errors
/// A refusal of the host.
pub(crate) fn wait_for(host: &dyn Host, identity: &EntryId) -> Result<(), Failure> {
    let turn = turn(identity);
    drop(host.cache().get_or_lead(&turn)?);
    host.cache().remove(&turn)
}

/// Returns the cache key for taking turns among calls for the same account.
fn turn(identity: &EntryId) -> String {
    format!("rotation/{}", identity.as_str())
}

/// Changes the account's password, commits the change, and returns the changed account. `account`
/// itself is stored before the change. The loan `returns` ends with the change if the account still
/// has that loan.
///
/// # Errors
/// Unavailable while another change is under way. A refusal of the directory, which leaves the
/// password unchanged. If the answer was lost or the new password is not proven, the call fails,
/// and [`finish`] completes the change later.
pub(crate) fn rotate(
    host: &dyn Host,
    config: &Config,
    identity: &EntryId,
    account: &Account,
    returns: &str,
) -> Result<Account, Failure> {
    let change = PendingPasswordChange::new(host, config, account, returns.to_owned())?;
    // Later calls for the same account wait here, and then see the stored result of this call.
    let turn = turn(identity);
    drop(host.cache().get_or_lead(&turn)?);
    account.store(host, identity)?;
    let intent = Intent::begin(host, &key(identity), LANE, change)?;
    let attempt = ChangeAttempt::new(host, config, identity, account);
    let proven = attempt.make(intent).inspect_err(|why| {
        let is_unchanged = attempt.is_unchanged.get();
        figures::count_rotation(host, if is_unchanged { "refused" } else { "unknown" });
        if is_unchanged {
            withdraw(host, identity);
        }
        note_failed_return(host, identity, returns, why);
    })?;
    let rotated = attempt.store(proven)?;
    host.cache().remove(&turn)?;
    rotated.ok_or_else(|| {
        Failure::invalid("the account was removed from the engine during the password change")
    })
}

/// Completes the change of a call that failed or died: stores a candidate that is in force, or puts
/// the newest candidate in force. Gives up if the account is gone, or if the directory refuses the
/// change again.
///
/// # Errors
/// Fails while the outcome is unknown; the host retries.
pub(crate) fn finish(host: &dyn Host, mount: &Mount, key: &str) -> Result<(), Failure> {
    let identity = EntryId::of_key(key.strip_prefix(ACCOUNT).unwrap_or(key));
    let Some(intent) = Intent::<PendingPasswordChange>::recover(host, key)? else { return Ok(()) };
    let Some(account) = Account::find(host, &identity)? else {
        return intent.abandon(host, IntentEndReason::Unwanted);
    };
    let config = Config::require(host, mount)?;
    let returns = intent.candidates().next().map(|change| change.returns.clone());
    let stays = |why: &Failure| {
        note_failed_return(host, &identity, returns.as_deref().unwrap_or_default(), why);
    };
    // Without a login of the engine, only the account could search, by the very password in
    // question.
    let sighting = match config.has_login() {
        true => Some(find_again(host, &config, &identity, &account).inspect_err(stays)?),
        false => None,
    };
    let account = match &sighting {
        Some(Sighting::Found(found)) => account.seen(&identity, found),
        _ => account,
    };
    let attempt = ChangeAttempt::new(host, &config, &identity, &account);
    let was_refused = Cell::new(false);
    let looked = intent.find_in_force(|change| {
        if matches!(sighting, Some(Sighting::NotFound(DnHolder::OtherAccount))) {
            // A login would prove nothing, and count as a wrong password of the other account.
            return Ok(false);
        }
        let Some(directory) = attempt.directory_of(change)? else { return Ok(false) };
        let proof = directory.prove(&account.dn, &change.password)?;
        was_refused.set(proof == PasswordProof::NotInForce);
        if proof == PasswordProof::InForce {
            attempt.look(change);
        }
        Ok(proof == PasswordProof::InForce)
    })?;
    let intent = match looked {
        Looked::InForce(proven) => return attempt.store(proven).map(drop),
        Looked::Nowhere(intent) if matches!(sighting, Some(Sighting::NotFound(_))) => {
            prove_gone(host, &config, &identity, &account).inspect_err(stays)?;
            return intent.abandon(host, IntentEndReason::Unwanted);
        }
        Looked::Nowhere(intent) => attempt.replace_elsewhere(intent)?,
    };
    match attempt.make(intent) {
        Ok(proven) => attempt.store(proven).map(drop),
        Err(_) if attempt.is_unchanged.get() && was_refused.get() => {
            withdraw(host, &identity);
            Ok(())
        }
        Err(why) => {
            stays(&why);
            Err(why)
        }
    }
}

/// An attempt to change a password.
struct ChangeAttempt<'a> {
    host: &'a dyn Host,
    config: &'a Config,
    identity: &'a EntryId,
    account: &'a Account,
    /// The attempt failed, and the previous password is certainly still in force.
    is_unchanged: Cell<bool>,
    /// Time of the change by the directory's clock, read after the new password was proven. `None`
    /// if the directory does not tell; the engine's clock alone then decides.
    changed: Cell<Option<StoreTime>>,
}

impl<'a> ChangeAttempt<'a> {
    fn new(
        host: &'a dyn Host,
        config: &'a Config,
        identity: &'a EntryId,
        account: &'a Account,
    ) -> Self {
        let (is_unchanged, changed) = (Cell::default(), Cell::default());
        Self { host, config, identity, account, is_unchanged, changed }
    }

    /// Uses the engine's login or, with self_rotation, the account's own login.
    fn directory(&self) -> Result<DirectoryClient<'_>, Failure> {
        match &self.account.current {
            Some(current) if self.config.self_rotation => {
                presence::by_account(self.host, self.config, self.account, current)
            }
            _ => Ok(DirectoryClient::new(self.host, self.config).with(NewerLogin::ReadAlone)),
        }
    }

    /// Reads the entry after the new password was proven.
    fn look(&self, change: &PendingPasswordChange) {
        let now = Account {
            current: Some(change.password.clone()),
            known_servers: change.known_servers.clone(),
            ..self.account.clone()
        };
        let found = presence::looking(self.host, self.config, &now).and_then(|directory| {
            directory.with(NewerLogin::ReadAlone).find_again(now.known_entry(self.identity))
        });
        self.changed.set(found.ok().and_then(Sighting::found).and_then(|found| found.changed));
    }

    /// Returns the directory, restricted to servers that may see the password of `change`; `None`
    /// if the configuration contains no such server any more.
    fn directory_of(
        &self,
        change: &PendingPasswordChange,
    ) -> Result<Option<DirectoryClient<'_>>, Failure> {
        Ok(self.directory()?.narrowed_to(change.known_servers.as_ref(), &self.account.dn).ok())
    }

    /// Continues with a new password if the newest candidate was made for other servers. The
    /// earlier candidates are kept until the new password is proven.
    fn replace_elsewhere(
        &self,
        intent: Intent<PendingPasswordChange>,
    ) -> Result<Intent<PendingPasswordChange>, Failure> {
        let Some(newest) = intent.candidates().next() else { return Ok(intent) };
        if self.directory_of(newest)?.is_some() {
            return Ok(intent);
        }
        let returns = newest.returns.clone();
        let fresh = PendingPasswordChange::new(self.host, self.config, self.account, returns)?;
        intent.restart(self.host, fresh, EarlierCandidates::Kept)
    }

    fn make(
        &self,
        intent: Intent<PendingPasswordChange>,
    ) -> Result<ProvenCandidate<PendingPasswordChange>, Failure> {
        intent.make(|change| self.change(&change.password), |change, ()| self.prove(change))
    }

    fn change(&self, password: &str) -> Result<(), Failure> {
        if self.config.self_rotation && self.account.current.is_none() {
            self.is_unchanged.set(true);
            return Err(Failure::invalid(format!(
                "the current password of {} is unknown, and the account needs the current password \
                 for a change; write the role with password",
                quoted(&self.account.dn)
            )));
        }
        let directory = self.directory().inspect_err(|_| self.is_unchanged.set(true))?;
        directory.set_password(&self.account.dn, password).map_err(|fault| {
            self.is_unchanged.set(!fault.may_have_happened);
            let (why, dn) = (Failure::from(fault), quoted(&self.account.dn));
            Failure { message: format!("account {dn}: {}", why.message), ..why }
        })
    }

    /// Tests the new password by a login, because a server may report success without changing the
    /// password. A login that proves nothing ([`PasswordProof::CannotTell`]) counts as success.
    fn prove(&self, change: &PendingPasswordChange) -> Result<(), Failure> {
        let directory = self.directory()?;
        if directory.prove(&self.account.dn, &change.password)? != PasswordProof::NotInForce {
            self.look(change);
            return Ok(());
        }
        let narrowed = directory.narrowed_to(self.account.known_servers.as_ref(), &self.account.dn);
        if let (Some(current), Ok(directory)) = (&self.account.current, narrowed) {
            let before = directory.prove(&self.account.dn, current)?;
            self.is_unchanged.set(before == PasswordProof::InForce);
        }
        Err(Failure::invalid(format!(
            "the directory took a new password for {} and refuses a login with the new password; \
             check schema, and whether the account may log in",
            quoted(&self.account.dn)
        )))
    }

    /// Stores the password in force, in its own commit. Returns `None` if the account is not stored
    /// any more.
    fn store(
        &self,
        proven: ProvenCandidate<PendingPasswordChange>,
    ) -> Result<Option<Account>, Failure> {
        let Self { host, identity, account: before, .. } = *self;
        proven.confirm(host, |change, ()| {
            let Some(mut account) = Account::find(host, identity)? else { return Ok(None) };
            account.dn.clone_from(&before.dn);
            account.entry.clone_from(&before.entry);
            account.classes.clone_from(&before.classes);
            account.last = account.current.replace(change.password.clone());
            account.known_servers.clone_from(&change.known_servers);
            account.rotated = Some(host.clock().now());
            account.directory_rotated = self.changed.get();
            if account.loan.as_ref().is_some_and(|loan| loan.id == change.returns) {
                account.end_loan(host)?;
            }
            account.store(host, identity)?;
            host.storage().checkpoint()?;
            figures::rotated(host, before);
            Ok(Some(account))
        })
    }
}

/// Removes the intent of a change that certainly did not happen. If the removal fails, the guard
/// stays, and `wake` comes to the same result.
fn withdraw(host: &dyn Host, identity: &EntryId) {
    let forgotten =
        Intent::<PendingPasswordChange>::recover(host, &key(identity)).and_then(|intent| {
            intent.map_or(Ok(()), |intent| intent.abandon(host, IntentEndReason::Unchanged))?;
            host.storage().checkpoint()
        });
    drop(forgotten);
}

fn key(identity: &EntryId) -> String {
    format!("{ACCOUNT}{}", identity.as_str())
}

//! Another password for an account: written down before the directory is asked, proven by a login,
//! and rolled forward by the engine's `wake` if anything comes between.
//!
//! The faults this file rules out: a password that the directory has and the store does not, two
//! calls that change the same account at a time, and a change that was refused and is tried for
//! ever.

use crate::account::Account;
use crate::directory::{Directory, Found, Identity, NewerLogin, Proof};
use crate::figures;
use crate::known_servers::KnownServers;
use crate::passwords;
use crate::settings::Config;
use bulkhead_sdk::database_plugin::StoreTime;
use bulkhead_sdk::intent::{self, Candidates, Ended, Found as Looked, Intent, Proven};
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Failure, Host, Mount};
use serde::{Deserialize, Serialize};
use std::cell::Cell;

/// The lane of everything that is due: a mount has one directory.
pub(crate) const LANE: &str = "directory";
/// What the keys of intents about accounts begin with.
const ACCOUNT: &str = "account/";

/// A change that is under way. It is part of a stored record: fields that come later have a
/// default.
#[derive(Serialize, Deserialize)]
struct Change {
    password: String,
    /// The loan that ends with it; empty where it ends none.
    returns: String,
    /// The servers that are to take the password. `None` where an earlier release began the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    known_servers: Option<KnownServers>,
}

impl Change {
    /// A new password. An account that changes its own password logs in where the present one is
    /// known.
    fn new(
        host: &dyn Host,
        config: &Config,
        account: &Account,
        returns: String,
    ) -> Result<Self, Failure> {
        let password = passwords::generate(host, &config.password_rules())?;
        let known = account.known_servers.clone().filter(|_| config.self_rotation);
        let known_servers = Some(known.unwrap_or_else(|| KnownServers::of(config)));
        Ok(Self { password, returns, known_servers })
    }
}

/// Whether a change of the account is under way, or was left unfinished and goes on by itself.
pub(crate) fn is_open(host: &dyn Host, identity: &Identity) -> Result<bool, Failure> {
    intent::is_open(host, &key(identity))
}

/// Waits until no call is at work on a change of the account, for ten seconds at most.
///
/// # Errors
/// What the host refused.
pub(crate) fn wait_for(host: &dyn Host, identity: &Identity) -> Result<(), Failure> {
    let turn = turn(identity);
    drop(host.cache().get_or_lead(&turn)?);
    host.cache().remove(&turn)
}

/// What calls that change the same account take one after the other.
fn turn(identity: &Identity) -> String {
    format!("rotation/{}", identity.as_str())
}

/// Gives the account another password, commits it, and answers the account as it is then. `account`
/// is written down as it is before the change. The loan `returns` ends with it, if it has that one.
///
/// # Errors
/// Unavailable while a change is under way. What the directory refused: nothing has changed then.
pub(crate) fn rotate(
    host: &dyn Host,
    config: &Config,
    identity: &Identity,
    account: &Account,
    returns: &str,
) -> Result<Account, Failure> {
    let change = Change::new(host, config, account, returns.to_owned())?;
    // Calls that come for the same account wait, and then see what this one stored.
    let turn = turn(identity);
    drop(host.cache().get_or_lead(&turn)?);
    account.store(host, identity)?;
    let intent = Intent::begin(host, &key(identity), LANE, change)?;
    let attempt = Attempt::new(host, config, identity, account);
    let proven = attempt.make(intent).inspect_err(|_| {
        let is_unchanged = attempt.is_unchanged.get();
        figures::count_rotation(host, if is_unchanged { "refused" } else { "unknown" });
        if is_unchanged {
            withdraw(host, identity);
        }
    })?;
    let rotated = attempt.store(proven)?;
    host.cache().remove(&turn)?;
    rotated.ok_or_else(|| {
        Failure::invalid("the account was removed from the engine while its password was changed")
    })
}

/// What a call that failed or died left behind: what is in force is stored, and what is not is
/// put in force.
///
/// # Errors
/// Where that is not known yet: it is tried again.
pub(crate) fn finish(host: &dyn Host, mount: &Mount, key: &str) -> Result<(), Failure> {
    let identity = Identity::of_key(key.strip_prefix(ACCOUNT).unwrap_or(key));
    let Some(intent) = Intent::<Change>::recover(host, key)? else { return Ok(()) };
    let Some(account) = Account::find(host, &identity)? else {
        return intent.give_up(host, Ended::Unwanted);
    };
    let config = Config::require(host, mount)?;
    // An account that looks for itself could do so only by the password that is in question.
    let found = match config.has_login() {
        true => find_again(host, &config, &identity, &account)?.map(|found| found.dn),
        false => Some(account.dn.clone()),
    };
    let is_seen = found.is_some();
    let account = Account { dn: found.unwrap_or_else(|| account.dn.clone()), ..account };
    let attempt = Attempt::new(host, &config, &identity, &account);
    let was_refused = Cell::new(false);
    let looked = intent.look(|change| {
        let Some(directory) = attempt.directory_of(change)? else { return Ok(false) };
        let proof = directory.prove(&account.dn, &change.password)?;
        was_refused.set(proof == Proof::NotInForce);
        if proof == Proof::InForce {
            attempt.look(change);
        }
        Ok(proof == Proof::InForce)
    })?;
    let intent = match looked {
        Looked::InForce(proven) => return attempt.store(proven).map(drop),
        Looked::Nowhere(intent) if !is_seen => {
            check_gone(host, &config, &account)?;
            return intent.give_up(host, Ended::Unwanted);
        }
        Looked::Nowhere(intent) => attempt.replace_elsewhere(intent)?,
    };
    match attempt.make(intent) {
        Ok(proven) => attempt.store(proven).map(drop),
        Err(_) if attempt.is_unchanged.get() && was_refused.get() => {
            withdraw(host, &identity);
            Ok(())
        }
        Err(why) => Err(why),
    }
}

/// One try to change a password.
struct Attempt<'a> {
    host: &'a dyn Host,
    config: &'a Config,
    identity: &'a Identity,
    account: &'a Account,
    /// It failed, and the password is certainly the one from before.
    is_unchanged: Cell<bool>,
    /// When the password was changed, as the directory tells since the new one was proven. `None`
    /// where it does not tell: then the engine's clock alone decides.
    changed: Cell<Option<StoreTime>>,
}

impl<'a> Attempt<'a> {
    fn new(
        host: &'a dyn Host,
        config: &'a Config,
        identity: &'a Identity,
        account: &'a Account,
    ) -> Self {
        let (is_unchanged, changed) = (Cell::default(), Cell::default());
        Self { host, config, identity, account, is_unchanged, changed }
    }

    /// By the engine's login, or by the account's own where accounts change their own passwords.
    fn directory(&self) -> Result<Directory<'_>, Failure> {
        match &self.account.current {
            Some(current) if self.config.self_rotation => {
                by_account(self.host, self.config, self.account, current)
            }
            _ => Ok(Directory::new(self.host, self.config).with(NewerLogin::ReadAlone)),
        }
    }

    /// Looks at the entry, now that the password is in force.
    fn look(&self, change: &Change) {
        let now = Account {
            current: Some(change.password.clone()),
            known_servers: change.known_servers.clone(),
            ..self.account.clone()
        };
        let found = looking(self.host, self.config, &now).and_then(|directory| {
            directory.with(NewerLogin::ReadAlone).find_again(self.identity, &now.dn)
        });
        self.changed.set(found.ok().flatten().and_then(|found| found.changed));
    }

    /// The directory as far as the password of `change` may be sent there; `None` where the
    /// configuration leads to other servers by now.
    fn directory_of(&self, change: &Change) -> Result<Option<Directory<'_>>, Failure> {
        Ok(self.directory()?.narrowed_to(change.known_servers.as_ref(), &self.account.dn).ok())
    }

    /// Goes on with a fresh password where the newest one was made for other servers. The earlier
    /// ones are kept until the fresh one is proven.
    fn replace_elsewhere(&self, intent: Intent<Change>) -> Result<Intent<Change>, Failure> {
        let Some(newest) = intent.candidates().next() else { return Ok(intent) };
        if self.directory_of(newest)?.is_some() {
            return Ok(intent);
        }
        let returns = newest.returns.clone();
        let fresh = Change::new(self.host, self.config, self.account, returns)?;
        intent.restart(self.host, fresh, Candidates::Kept)
    }

    fn make(&self, intent: Intent<Change>) -> Result<Proven<Change>, Failure> {
        intent.make(|change| self.change(&change.password), |change, ()| self.prove(change))
    }

    fn change(&self, password: &str) -> Result<(), Failure> {
        if self.config.self_rotation && self.account.current.is_none() {
            self.is_unchanged.set(true);
            return Err(Failure::invalid(format!(
                "the present password of {} is not known, by which it would change its own; write \
                 its role with password",
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

    /// A server that says that it changed a password, and did not, is not believed.
    fn prove(&self, change: &Change) -> Result<(), Failure> {
        let directory = self.directory()?;
        if directory.prove(&self.account.dn, &change.password)? != Proof::NotInForce {
            self.look(change);
            return Ok(());
        }
        let known = directory.narrowed_to(self.account.known_servers.as_ref(), &self.account.dn);
        if let (Some(current), Ok(directory)) = (&self.account.current, known) {
            let before = directory.prove(&self.account.dn, current)?;
            self.is_unchanged.set(before == Proof::InForce);
        }
        Err(Failure::invalid(format!(
            "the directory took a new password for {} and refuses a login by it; check schema, and \
             whether the account may log in",
            quoted(&self.account.dn)
        )))
    }

    /// Stores what is in force, in a commit of its own. `None` where the account is not kept any
    /// more.
    fn store(&self, proven: Proven<Change>) -> Result<Option<Account>, Failure> {
        let Self { host, identity, account: before, .. } = *self;
        proven.confirm(host, |change, ()| {
            let Some(mut account) = Account::find(host, identity)? else { return Ok(None) };
            account.dn.clone_from(&before.dn);
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

/// The account's entry, by who may look: the engine, or the account itself.
///
/// # Errors
/// What the directory refused.
pub(crate) fn find_again(
    host: &dyn Host,
    config: &Config,
    identity: &Identity,
    account: &Account,
) -> Result<Option<Found>, Failure> {
    looking(host, config, account)?.find_again(identity, &account.dn)
}

/// Proves that an account which no search finds is gone. A search finds nothing either where the
/// engine may not see the entry, and where the configuration leads to another directory.
///
/// # Errors
/// Invalid request where the account logs in, or nothing of the directory is seen; unreachable
/// where the account got its password from other servers.
pub(crate) fn check_gone(
    host: &dyn Host,
    config: &Config,
    account: &Account,
) -> Result<(), Failure> {
    let Account { dn, known_servers, .. } = account;
    let directory = Directory::new(host, config).narrowed_to(known_servers.as_ref(), dn)?;
    directory.check_base()?;
    let Some(current) = &account.current else { return Ok(()) };
    match directory.prove(dn, current)? {
        Proof::NotInForce => Ok(()),
        Proof::InForce | Proof::CannotTell => Err(Failure::invalid(format!(
            "no search finds {}, and it is there, because it answers a login: let binddn read the \
             entry and its entryUUID or objectGUID",
            quoted(dn)
        ))),
    }
}

/// The account where its entry stands now, and when the directory says that its password was
/// changed.
///
/// # Errors
/// Invalid request where its entry is gone; what the directory refused.
pub(crate) fn seen(
    host: &dyn Host,
    config: &Config,
    identity: &Identity,
    account: Account,
) -> Result<(Account, Option<StoreTime>), Failure> {
    let gone = || {
        let dn = quoted(&account.dn);
        Failure::invalid(format!("the account that was {dn} is not in the directory any more"))
    };
    let found = find_again(host, config, identity, &account)?.ok_or_else(gone)?;
    Ok((Account { dn: found.dn, ..account }, found.changed))
}

fn looking<'a>(
    host: &'a dyn Host,
    config: &'a Config,
    account: &Account,
) -> Result<Directory<'a>, Failure> {
    match &account.current {
        Some(current) if !config.has_login() => by_account(host, config, account, current),
        _ => Ok(Directory::new(host, config)),
    }
}

/// By the login of an account, at the servers where its password is known.
///
/// # Errors
/// Unreachable where the configuration has none of them.
fn by_account<'a>(
    host: &'a dyn Host,
    config: &'a Config,
    account: &Account,
    current: &str,
) -> Result<Directory<'a>, Failure> {
    let Account { dn, known_servers, .. } = account;
    Directory::as_account(host, config, dn, current).narrowed_to(known_servers.as_ref(), dn)
}

/// Forgets a change that certainly did not happen. Where that fails, the guard stays, and finds out
/// the same.
fn withdraw(host: &dyn Host, identity: &Identity) {
    let forgotten = Intent::<Change>::recover(host, &key(identity)).and_then(|intent| {
        intent.map_or(Ok(()), |intent| intent.give_up(host, Ended::Unchanged))?;
        host.storage().checkpoint()
    });
    drop(forgotten);
}

fn key(identity: &Identity) -> String {
    format!("{ACCOUNT}{}", identity.as_str())
}

//! Logins of accounts: a login at a time for each account, and a pause after a refused password.
//!
//! This file prevents a lockout by our own logins: a mount repeats a login by a password that was
//! replaced, and the directory locks the account, as a rule after five refusals. A refused password
//! is sent again only after a pause. After three refusals in a row, other passwords of the account
//! wait for the end of the pause, too. Each mount has its own record: a mount that guesses
//! passwords keeps no other mount from the account.

use super::failure::{LdapFailure, failed};
use crate::fingerprint::Fingerprint;
use bulkhead_wire::sync;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::time::Instant;

/// Result code "invalid credentials", the refusal that directories count towards a lockout.
const INVALID_CREDENTIALS: u32 = 49;
/// Pauses before a refused password is sent again: after the first refusal in a row of the account,
/// after the second, and after each further refusal.
const RETRY_PAUSES: [Duration; 3] =
    [Duration::from_secs(10), Duration::from_secs(60), Duration::from_secs(900)];
/// Maximum number of accounts in the record of a mount.
const ACCOUNTS: usize = 1_024;
/// Maximum number of refused passwords in the record of an account.
const PASSWORDS: usize = 16;

/// Maximum number of passwords that a mount gave to accounts, in the record of the mount.
const GIVEN_PASSWORDS: usize = 64;

/// Digest of the name of an account, and the server.
type ServerAccountKey = (Fingerprint, String);

/// The record of a mount.
#[derive(Default)]
struct LoginRecord {
    accounts: BTreeMap<ServerAccountKey, AccountRecord>,
    /// Passwords that the mount gave to accounts, the latest last. A login by such a password is
    /// not a guess, so that the login waits for no pause of other passwords.
    given: VecDeque<Fingerprint>,
}

/// The records of all mounts.
#[derive(Clone, Default)]
pub(crate) struct LoginRecords(Arc<Mutex<BTreeMap<String, LoginRecord>>>);

/// The logins of a mount.
#[derive(Clone)]
pub struct MountLogins {
    logins: LoginRecords,
    mount: String,
}

/// The record of an account at a server.
struct AccountRecord {
    /// Locked while a login waits for the server's answer.
    turn: Arc<tokio::sync::Mutex<()>>,
    refused: BTreeMap<Fingerprint, LoginRefusal>,
    /// The password of the latest login that the server accepted, until a refusal.
    accepted: Option<Fingerprint>,
    /// Refusals since the latest accepted login.
    in_a_row: usize,
    used: Instant,
}

/// A refusal, and the end of the pause after the refusal.
#[derive(Clone)]
struct LoginRefusal {
    failure: LdapFailure,
    at: Instant,
    until: Instant,
}

impl LoginRecords {
    /// Returns the logins of a mount.
    pub(super) fn of(&self, mount: &str) -> MountLogins {
        MountLogins { logins: self.clone(), mount: mount.to_owned() }
    }

    /// Forgets the record of a mount.
    pub(super) fn forget_mount(&self, mount: &str) {
        self.lock().remove(mount);
    }

    /// Forgets the records of all mounts.
    pub(super) fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, LoginRecord>> {
        sync::lock(&self.0)
    }
}

impl MountLogins {
    /// Runs `login`, which sends the password of `name` to the server, as soon as no other login of
    /// the account waits for an answer of the server.
    ///
    /// # Errors
    /// The refusal of the server, or an earlier refusal during its pause. `unreachable` if other
    /// passwords of the account were refused, and Bulkhead did not ask the server.
    pub(super) async fn run_login(
        &self,
        server: &str,
        name: &str,
        password: &str,
        login: impl Future<Output = Result<(), LdapFailure>>,
    ) -> Result<(), LdapFailure> {
        let (key, password) = ((name_digest(name), server.to_owned()), password_digest(password));
        let turn = self.check(&key, &password)?;
        let turn = turn.lock().await;
        // The login before may have been refused meanwhile.
        self.check(&key, &password)?;
        let answer = login.await;
        self.with(&key, |account| account.record_answer(password, &answer, Instant::now()));
        drop(turn);
        answer
    }

    /// Forgets the refusals of an account at every server, because the configuration was written.
    pub fn forget(&self, name: &str) {
        let name = name_digest(name);
        let mut all = self.logins.lock();
        if let Some(record) = all.get_mut(&self.mount) {
            record.accounts.retain(|(other, _), _| *other != name);
        }
    }

    /// Forgets the refusals of passwords that the entry `dn` is given. The entry may have other
    /// names for logins, so that the passwords count for all names.
    pub fn forget_passwords(&self, dn: &str, passwords: &[String]) {
        let (dn, passwords) = (name_digest(dn), passwords.iter().map(|one| password_digest(one)));
        let passwords: Vec<Fingerprint> = passwords.collect();
        let mut all = self.logins.lock();
        let record = all.entry(self.mount.clone()).or_default();
        record.given.retain(|password| !passwords.contains(password));
        record.given.extend(passwords.iter().copied());
        let beyond = record.given.len().saturating_sub(GIVEN_PASSWORDS);
        record.given.drain(..beyond);
        for ((name, _), account) in &mut record.accounts {
            account.refused.retain(|refused, _| !passwords.contains(refused));
            if *name == dn {
                (account.in_a_row, account.accepted) = (0, None);
            }
        }
    }

    /// Checks that the password may be sent, and returns the lock of the account.
    fn check(
        &self,
        key: &ServerAccountKey,
        password: &Fingerprint,
    ) -> Result<Arc<tokio::sync::Mutex<()>>, LdapFailure> {
        let mut all = self.logins.lock();
        let record = all.entry(self.mount.clone()).or_default();
        let is_given = record.given.contains(password);
        let account = record.account(key);
        account.check(password, is_given, Instant::now()).map(|()| Arc::clone(&account.turn))
    }

    fn with<T>(&self, key: &ServerAccountKey, act: impl FnOnce(&mut AccountRecord) -> T) -> T {
        let mut all = self.logins.lock();
        act(all.entry(self.mount.clone()).or_default().account(key))
    }
}

impl LoginRecord {
    /// Returns the account. A new account takes the place of the account that was used longest ago.
    fn account(&mut self, key: &ServerAccountKey) -> &mut AccountRecord {
        if self.accounts.len() >= ACCOUNTS && !self.accounts.contains_key(key) {
            let oldest = self.accounts.iter().min_by_key(|(_, account)| account.used);
            if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                self.accounts.remove(&oldest);
            }
        }
        let account = self.accounts.entry(key.clone()).or_insert_with(AccountRecord::new);
        account.used = Instant::now();
        account
    }
}

impl AccountRecord {
    fn new() -> Self {
        Self {
            turn: Arc::default(),
            refused: BTreeMap::new(),
            accepted: None,
            in_a_row: 0,
            used: Instant::now(),
        }
    }

    /// Checks that the password may be sent.
    fn check(
        &self,
        password: &Fingerprint,
        is_given: bool,
        now: Instant,
    ) -> Result<(), LdapFailure> {
        if let Some(refusal) = self.refused.get(password).filter(|refusal| now < refusal.until) {
            return Err(refusal.repeated_refusal(now));
        }
        let is_known = is_given || self.accepted.as_ref() == Some(password);
        if is_known || self.in_a_row < RETRY_PAUSES.len() {
            return Ok(());
        }
        let last = self.refused.values().max_by_key(|refusal| refusal.at);
        last.filter(|last| now < last.until).map_or(Ok(()), |last| Err(last.paused_failure(now)))
    }

    /// Notes the answer to a login. A refusal of the accepted password says that the account has
    /// another password now. An earlier refusal may be of that password, so that all are forgotten.
    fn record_answer(
        &mut self,
        password: Fingerprint,
        answer: &Result<(), LdapFailure>,
        at: Instant,
    ) {
        let failure = match answer {
            Ok(()) => {
                self.refused.remove(&password);
                (self.accepted, self.in_a_row) = (Some(password), 0);
                return;
            }
            Err(failure) if failure.result_code == Some(INVALID_CREDENTIALS) => failure.clone(),
            Err(_) => return,
        };
        if self.accepted == Some(password) {
            self.accepted = None;
            self.refused.clear();
        }
        let pause =
            RETRY_PAUSES.get(self.in_a_row).or(RETRY_PAUSES.last()).copied().unwrap_or_default();
        self.in_a_row = self.in_a_row.saturating_add(1);
        if self.refused.len() >= PASSWORDS {
            let earliest = self.refused.iter().min_by_key(|(_, refusal)| refusal.at);
            if let Some(earliest) = earliest.map(|(password, _)| *password) {
                self.refused.remove(&earliest);
            }
        }
        self.refused.insert(password, LoginRefusal { failure, at, until: at + pause });
    }
}

impl LoginRefusal {
    /// Returns the refusal for a repeated login by the same password.
    fn repeated_refusal(&self, now: Instant) -> LdapFailure {
        let (ago, left) = self.elapsed_and_remaining(now);
        let said = &self.failure.message;
        let message = format!(
            "{said}; this was {ago} s ago, and the login is not sent again for {left} s, because \
             wrong logins lock an account: correct the cause, then write the configuration once \
             more to have the login sent at once"
        );
        LdapFailure { message, ..self.failure.clone() }
    }

    /// Returns the failure for another password, which Bulkhead did not send to the server.
    fn paused_failure(&self, now: Instant) -> LdapFailure {
        let (ago, left) = self.elapsed_and_remaining(now);
        let message = format!(
            "the server refused {} logins of this account in a row, the last {ago} s ago; no other \
             is sent for {left} s, because wrong logins lock an account: write the configuration \
             with the right password for a login at once",
            RETRY_PAUSES.len()
        );
        LdapFailure { result_code: Some(INVALID_CREDENTIALS), ..failed("unreachable", message) }
    }

    /// Returns the seconds since the refusal, and until the end of the pause.
    fn elapsed_and_remaining(&self, now: Instant) -> (u64, u64) {
        let left = self.until.saturating_duration_since(now).as_millis().div_ceil(1_000);
        (now.saturating_duration_since(self.at).as_secs(), u64::try_from(left).unwrap_or_default())
    }
}

/// Returns the digest of a name, ignoring case.
fn name_digest(name: &str) -> Fingerprint {
    Fingerprint::begin().bytes(name.to_lowercase()).end()
}

fn password_digest(password: &str) -> Fingerprint {
    Fingerprint::begin().bytes(password).end()
}

#[cfg(test)]
mod tests;

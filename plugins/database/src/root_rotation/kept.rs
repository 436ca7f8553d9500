//! Passwords that only the engine knows, after a write that replaced them or led elsewhere: kept
//! under their place, and looked for once a write leads there.
//!
//! This file prevents the loss of a candidate of an unfinished change: nobody else knows the
//! password, and it may be in force.

use super::{PasswordCandidate, RootRotation, abandon, is_open, keep_all, key, log, recover};
use crate::connection::{Connection, PASSWORD};
use bulkhead_sdk::host::LogLevel;
use bulkhead_sdk::intent::{CandidateSearch, EarlierCandidates, Intent, IntentEndReason};
use bulkhead_sdk::{Failure, Host};

/// Begins to look for the password in force if passwords are kept for the connection as written.
/// The guard of the intent wakes the engine, and [`recover`] looks.
///
/// # Errors
/// Errors of storage, clock or checkpoint.
pub(crate) fn try_kept(
    host: &dyn Host,
    name: &str,
    connection: &Connection,
) -> Result<(), Failure> {
    if is_open(host, name)? {
        // `finish` of the change under way tries the kept passwords, too.
        return Ok(());
    }
    let root = RootRotation::new(host, name, connection);
    let mut passwords = root.place()?.kept(host)?.list_secrets()?.into_iter();
    let Some(oldest) = passwords.next() else { return Ok(()) };
    let intent = Intent::begin(host, &key(name), name, root.kept_candidate(oldest)?)?;
    root.add_kept(intent, passwords).map(drop)
}

impl RootRotation<'_> {
    /// Ends a change that was begun for another user or server, keeps its candidates, and looks for
    /// a password that was kept for the present user and servers.
    ///
    /// A candidate of an earlier release has no place under which it could be kept. The change then
    /// stays until the stored password logs in.
    pub(super) fn replace(&self, intent: Intent<PasswordCandidate>) -> Result<(), Failure> {
        let is_kept = intent.candidates().all(|candidate| candidate.place.is_some());
        if !is_kept && self.works(self.connection.setting(PASSWORD))? == Some(false) {
            return Err(self.unknown());
        }
        keep_all(self.host, &intent)?;
        self.connection.store(self.host, self.name)?;
        abandon(self.host, self.name, intent, IntentEndReason::Unwanted)?;
        try_kept(self.host, self.name, self.connection)?;
        // The guard that rings must not stay for the passwords of the present place.
        recover(self.host, self.name)
    }

    /// Moves kept passwords of this place into `intent`.
    pub(super) fn add_kept(
        &self,
        mut intent: Intent<PasswordCandidate>,
        passwords: impl Iterator<Item = String>,
    ) -> Result<Intent<PasswordCandidate>, Failure> {
        for password in passwords {
            // A call that died may have left the password in both places.
            if intent.candidates().any(|candidate| candidate.password == password) {
                continue;
            }
            let candidate = self.kept_candidate(password)?;
            intent = intent.restart(self.host, candidate, EarlierCandidates::Kept)?;
        }
        self.forget_kept()?;
        Ok(intent)
    }

    pub(super) fn forget_kept(&self) -> Result<(), Failure> {
        self.place()?.kept(self.host)?.forget()
    }

    fn kept_candidate(&self, password: String) -> Result<PasswordCandidate, Failure> {
        let candidate = PasswordCandidate::of(self.host, self.name, self.connection, password)?;
        Ok(PasswordCandidate { is_kept: true, ..candidate })
    }

    /// Looks for the password in force among kept passwords and the stored one. No password is
    /// forgotten unless another one is proven alone: a server that asks for no password accepts
    /// all. After a refusal of all, nothing tries them before a later write, because refused logins
    /// lock accounts.
    pub(super) fn search(&self, intent: Intent<PasswordCandidate>) -> Result<(), Failure> {
        if self.connection.has_forced_password {
            return self.end_search(intent, true);
        }
        let stored = self.works(self.connection.setting(PASSWORD))?;
        if stored == Some(true) {
            let accepted: Vec<bool> = intent
                .candidates()
                .map(|candidate| self.logs_in(candidate))
                .collect::<Result<_, _>>()?;
            return self.end_search(intent, !accepted.contains(&true));
        }
        match intent.find_in_force(|candidate| self.logs_in(candidate))? {
            CandidateSearch::InForce(proven) => self.store(proven),
            CandidateSearch::Nowhere(intent) => {
                if stored == Some(false) {
                    log(self.host, LogLevel::Error, "root-credential-unknown", self.name);
                }
                self.end_search(intent, false)
            }
        }
    }

    /// Ends the search. Unless another password is proven, the passwords stay for a later write.
    fn end_search(
        &self,
        intent: Intent<PasswordCandidate>,
        is_proven: bool,
    ) -> Result<(), Failure> {
        if !is_proven {
            keep_all(self.host, &intent)?;
        }
        abandon(self.host, self.name, intent, IntentEndReason::Unchanged)
    }
}

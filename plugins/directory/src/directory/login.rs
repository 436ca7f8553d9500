//! The engine's login for a request: the `bindpass` that the call has read, a newer `bindpass`, or
//! the previous `bindpass` while a server has not yet received the change.
//!
//! This file prevents a rotation of `bindpass` from failing the requests under way, and those
//! requests from locking the engine's own account with the previous password.

use super::{DirectoryClient, worded};
use crate::settings::Config;
use bulkhead_sdk::ldap::{LdapFault, LdapFaultCode, LdapTarget};
use bulkhead_sdk::{Failure, Host};
use std::borrow::Cow;

/// Cached values: the servers accept the present `bindpass`, or only the previous `bindpass`.
const CURRENT: &[u8] = b"current";
const BEHIND: &[u8] = b"behind";
/// Lifetime of a cached value, in seconds.
const LOGIN_CHOICE_TTL_SECS: u32 = 60;
/// Maximum number of passwords tried for one request, each newer than the last. More than two occur
/// if the call waited for the end of a rotation for ten seconds in vain, or if a write of the
/// configuration also changes `bindpass`.
const MAX_PASSWORDS_TRIED: usize = 4;

/// Source of a newer `bindpass` after a refused login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NewerLogin {
    /// Reads the configuration again. If the configuration changed since the call's first read, the
    /// commit conflicts, and the host runs the call again from the start.
    Read,
    /// Reads the configuration again, and drops the call's earlier and later reads from conflict
    /// detection: a call with an effect outside cannot run again. Nothing may be buffered, because
    /// the checkpoint would commit the buffer.
    ReadAlone,
    /// Reads nothing: the call itself rotates `bindpass`, or an account logs in.
    None,
}

/// The answer to a request with a newer `bindpass`.
struct RetriedLogin<T> {
    /// The configuration with the newer `bindpass`.
    config: Config,
    answer: Result<T, LdapFault>,
}

/// Cache key that is led by a call that rotates `bindpass`, or that logs in after a rotation.
const ROTATION: &str = "rotation-of-bindpass";

/// Waits until no other call rotates `bindpass` or logs in with the newest, at most ten seconds.
/// Afterwards, rotations and calls with a refused login wait until [`end_rotation`] or the end of
/// this call.
///
/// # Errors
/// A refusal of the host.
pub(crate) fn begin_rotation(host: &dyn Host) -> Result<(), Failure> {
    host.cache().get_or_lead(ROTATION).map(drop)
}

/// Resumes the waiting calls.
///
/// # Errors
/// A refusal of the host.
pub(crate) fn end_rotation(host: &dyn Host) -> Result<(), Failure> {
    host.cache().remove(ROTATION)
}

impl DirectoryClient<'_> {
    /// Runs `ask` with the present `bindpass`; if refused, with a newer or the previous `bindpass`.
    pub(super) fn asking<T>(
        &self,
        ask: impl Fn(&LdapTarget) -> Result<T, LdapFault>,
    ) -> Result<T, LdapFault> {
        let ask = |target: &LdapTarget| ask(target).map_err(worded);
        if self.is_account {
            return ask(&self.target);
        }
        let mut answer = self.asking_by(self.config, &ask);
        let mut tried = Cow::Borrowed(self.config);
        for _ in 1..MAX_PASSWORDS_TRIED {
            if !is_refused(&answer) {
                return answer;
            }
            match self.asking_newer(&tried, &ask)? {
                Some(retried) => (tried, answer) = (Cow::Owned(retried.config), retried.answer),
                None => return self.asking_previous(&tried, &ask).unwrap_or(answer),
            }
        }
        if is_refused(&answer) && self.newer_than(&tried).map_err(unread)?.is_some() {
            return Err(LdapFault::new(LdapFaultCode::Unreachable, ROTATED_AGAIN));
        }
        answer
    }

    /// Runs `ask` with the present `bindpass`, if a rotation replaced the `bindpass` of `config`.
    /// Waits for the end of a rotation under way. The next rotation waits for the end of `ask`:
    /// otherwise, rotations without a pause between them would refuse every login.
    fn asking_newer<T>(
        &self,
        config: &Config,
        ask: &impl Fn(&LdapTarget) -> Result<T, LdapFault>,
    ) -> Result<Option<RetriedLogin<T>>, LdapFault> {
        if self.newer == NewerLogin::None {
            return Ok(None);
        }
        begin_rotation(self.host).map_err(unread)?;
        let newer = self.newer_than(config).map_err(unread)?;
        let retry = newer.map(|newer| {
            let answer = self.asking_by(&newer, ask);
            RetriedLogin { config: newer, answer }
        });
        // A failure has no effect: the lead ends with this call at the latest, and the answer of a
        // change must not be lost.
        drop(end_rotation(self.host));
        Ok(retry)
    }

    /// Runs `ask` with the `bindpass` of `config`. If the cache says that the servers accept only
    /// the previous `bindpass`, tries the previous `bindpass` first. One call at a time probes the
    /// servers, and the cache keeps the result for a while, because wrong logins lock an account.
    fn asking_by<T>(
        &self,
        config: &Config,
        ask: &impl Fn(&LdapTarget) -> Result<T, LdapFault>,
    ) -> Result<T, LdapFault> {
        let target = self.target.log_in_as(&config.login_name(), &config.bindpass);
        let Some(previous) = self.previous(config) else { return ask(&target) };
        let key = config.login_key();
        let state = self.host.cache().get_or_lead(&key).unwrap_or_default();
        if state.as_deref() == Some(BEHIND) {
            let done = ask(&previous);
            if !is_refused(&done) {
                return done;
            }
        }
        let done = ask(&target);
        if state.as_deref() != Some(CURRENT) {
            self.keep(&key, (!is_refused(&done)).then_some(CURRENT));
        }
        done
    }

    /// Runs `ask` with the `bindpass` before that of `config`, if the server accepts that login.
    fn asking_previous<T>(
        &self,
        config: &Config,
        ask: &impl Fn(&LdapTarget) -> Result<T, LdapFault>,
    ) -> Option<Result<T, LdapFault>> {
        let previous = self.previous(config)?;
        self.host.ldap().bind(&previous).ok()?;
        self.keep(&config.login_key(), Some(BEHIND));
        Some(ask(&previous))
    }

    fn previous(&self, config: &Config) -> Option<LdapTarget> {
        let bindpass = config.previous_bindpass(self.host.clock().now())?;
        Some(self.target.log_in_as(&config.login_name(), bindpass))
    }

    /// Caches which login was accepted, or removes the cached value. If the cache fails, the next
    /// call probes again.
    fn keep(&self, key: &str, found: Option<&[u8]>) {
        drop(match found {
            Some(found) => self.host.cache().put(key, found, LOGIN_CHOICE_TTL_SECS),
            None => self.host.cache().remove(key),
        });
    }

    /// Returns the present configuration if a rotation has changed the `bindpass` of `config`.
    fn newer_than(&self, config: &Config) -> Result<Option<Config>, Failure> {
        self.forget_reads()?;
        let now = Config::find(self.host)?;
        self.forget_reads()?;
        let is_newer = |now: &Config| {
            (&now.url, now.login_name()) == (&config.url, config.login_name())
                && now.bindpass != config.bindpass
        };
        Ok(now.filter(is_newer))
    }

    fn forget_reads(&self) -> Result<(), Failure> {
        match self.newer {
            NewerLogin::ReadAlone => self.host.storage().checkpoint().map(drop),
            NewerLogin::Read | NewerLogin::None => Ok(()),
        }
    }
}

const ROTATED_AGAIN: &str =
    "another request rotated bindpass before each login of this request; try again";

fn is_refused<T>(done: &Result<T, LdapFault>) -> bool {
    done.as_ref().is_err_and(|fault| fault.code == LdapFaultCode::Refused)
}

/// Returns the fault of a login for which the present configuration cannot be read.
fn unread(why: Failure) -> LdapFault {
    LdapFault::new(LdapFaultCode::Unreachable, why.message)
}

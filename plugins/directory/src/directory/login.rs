//! The engine's login in a question: by the `bindpass` that the call has read, by a newer
//! `bindpass`, or by the `bindpass` before, where a server has not heard of the change yet.
//!
//! The fault this file rules out: `bindpass` is rotated while requests are under way, and the
//! requests fail by the previous password and lock the engine's own account.

use super::{Directory, worded};
use crate::settings::Config;
use bulkhead_sdk::ldap::{Code, Fault, Target};
use bulkhead_sdk::{Failure, Host};

/// Values of the cache: servers accept `bindpass`, or the `bindpass` before the last rotation.
const CURRENT: &[u8] = b"current";
const BEHIND: &[u8] = b"behind";
/// Seconds for which the cache keeps the value.
const KEPT: u32 = 60;
/// Maximum number of passwords by which a question is asked, each newer than the last.
const MOST: usize = 4;

/// The way to a newer `bindpass` after a refused login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NewerLogin {
    /// Reads the configuration again. A change since the call's first read is a conflict, and the
    /// host runs the call again from the start.
    Read,
    /// Reads the configuration again, and forgets all reads of the call before and after. A call
    /// that has changed something outside cannot run again. Nothing must be buffered.
    ReadAlone,
    /// Reads nothing: the call itself rotates `bindpass`.
    None,
}

/// Key of the cache: the rotation of `bindpass` that is at work.
const ROTATION: &str = "rotation-of-bindpass";

/// Waits until no other call rotates `bindpass`, for ten seconds at most. From then on, calls whose
/// login is refused wait for [`end_rotation`], or for the end of this call.
///
/// # Errors
/// A refusal of the host.
pub(crate) fn begin_rotation(host: &dyn Host) -> Result<(), Failure> {
    host.cache().get_or_lead(ROTATION).map(drop)
}

/// Lets the waiting calls go on.
///
/// # Errors
/// A refusal of the host.
pub(crate) fn end_rotation(host: &dyn Host) -> Result<(), Failure> {
    host.cache().remove(ROTATION)
}

impl Directory<'_> {
    /// Asks by the present `bindpass`, or by the `bindpass` before.
    pub(super) fn asking<T>(&self, ask: impl Fn(&Target) -> Result<T, Fault>) -> Result<T, Fault> {
        let ask = |target: &Target| ask(target).map_err(worded);
        if self.is_account {
            return ask(&self.target);
        }
        let mut newest = None;
        for _ in 0..MOST {
            let config = newest.as_ref().unwrap_or(self.config);
            let refused = match self.asking_by(config, &ask) {
                Err(fault) if fault.code == Code::Refused => fault,
                done => return done,
            };
            match self.newer_than(config)? {
                Some(newer) => newest = Some(newer),
                None => return self.asking_previous(config, &ask).unwrap_or(Err(refused)),
            }
        }
        Err(Fault::new(Code::Unreachable, ROTATED_AGAIN))
    }

    /// Asks by the `bindpass` of `config`, and first by the `bindpass` before where servers were
    /// found to accept that. A call at a time finds out, and the cache keeps the answer for a
    /// while, because wrong logins lock an account.
    fn asking_by<T>(
        &self,
        config: &Config,
        ask: &impl Fn(&Target) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let target = self.target.log_in_as(&config.login_name(), &config.bindpass);
        let Some(previous) = self.previous(config) else { return ask(&target) };
        let key = config.login_key();
        let known = self.host.cache().get_or_lead(&key).unwrap_or_default();
        if known.as_deref() == Some(BEHIND) {
            match ask(&previous) {
                Err(fault) if fault.code == Code::Refused => {}
                done => return done,
            }
        }
        let done = ask(&target);
        if known.as_deref() != Some(CURRENT) {
            let is_refused = done.as_ref().is_err_and(|fault| fault.code == Code::Refused);
            self.keep(&key, (!is_refused).then_some(CURRENT));
        }
        done
    }

    /// Asks by the `bindpass` before that of `config`, where the server accepts the login.
    fn asking_previous<T>(
        &self,
        config: &Config,
        ask: &impl Fn(&Target) -> Result<T, Fault>,
    ) -> Option<Result<T, Fault>> {
        let previous = self.previous(config)?;
        self.host.ldap().bind(&previous).ok()?;
        self.keep(&config.login_key(), Some(BEHIND));
        Some(ask(&previous))
    }

    fn previous(&self, config: &Config) -> Option<Target> {
        let bindpass = config.previous_bindpass(self.host.clock().now())?;
        Some(self.target.log_in_as(&config.login_name(), bindpass))
    }

    /// Keeps the accepted login in the cache. Without the cache, the next call finds out the same.
    fn keep(&self, key: &str, found: Option<&[u8]>) {
        drop(match found {
            Some(found) => self.host.cache().put(key, found, KEPT),
            None => self.host.cache().remove(key),
        });
    }

    /// Returns the present configuration, where a rotation has changed the `bindpass` of `config`.
    /// Waits for the end of a rotation.
    fn newer_than(&self, config: &Config) -> Result<Option<Config>, Fault> {
        if self.newer == NewerLogin::None {
            return Ok(None);
        }
        let unread = |why: Failure| Fault::new(Code::Unreachable, why.message);
        begin_rotation(self.host).and_then(|()| end_rotation(self.host)).map_err(unread)?;
        self.forget_reads().map_err(unread)?;
        let now = Config::find(self.host).map_err(unread)?;
        self.forget_reads().map_err(unread)?;
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

const ROTATED_AGAIN: &str = "bindpass was rotated again each time that it was asked by; try again";

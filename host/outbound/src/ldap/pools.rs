//! Idle sessions, reused by later calls of the same mount with the same login.
//!
//! This file prevents a call from getting a session that another identity logged in, of its own
//! mount or of another mount: the key of a session covers every field of its target, password and
//! TLS included.

use super::directory_target::DirectoryTarget;
use super::logins::{LoginRecords, MountLogins};
use super::session::LdapSession;
use crate::addresses::AllowedAddresses;
use crate::fingerprint::Fingerprint;
use crate::limits;
use bulkhead_wire::sync;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// Key of an idle session.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LdapPoolKey {
    mount: String,
    target: Fingerprint,
}

impl LdapPoolKey {
    /// Creates the key of sessions of the mount with this UUID to `target`.
    pub fn new(mount: &str, target: &DirectoryTarget) -> Self {
        Self { mount: mount.to_owned(), target: fingerprint(target) }
    }
}

/// The state of the pools at the time when a session was lent.
pub struct PoolSnapshot {
    /// Number of closings before the session was lent.
    closed: u64,
}

/// All idle sessions of the process, and the records of logins.
#[derive(Default)]
pub struct LdapPools {
    idle: Mutex<IdleSessions>,
    logins: LoginRecords,
}

#[derive(Default)]
struct IdleSessions {
    sessions: BTreeMap<LdapPoolKey, Vec<LdapSession>>,
    /// Number of closings. A session lent before the latest closing is not taken back.
    closed: u64,
}

impl LdapPools {
    /// Returns the record of a mount's logins.
    pub fn logins(&self, mount: &str) -> MountLogins {
        self.logins.of(mount)
    }

    /// Takes the most recently used session of `key` whose address is within the call's reaches.
    pub fn take<'a>(
        &self,
        key: &LdapPoolKey,
        reaches: impl Iterator<Item = &'a AllowedAddresses> + Clone,
    ) -> (Option<LdapSession>, PoolSnapshot) {
        let mut idle = sync::lock(&self.idle);
        idle.retain(|_, session| {
            session.was_open() && session.used().elapsed() < limits::LDAP_IDLE
        });
        let lent = PoolSnapshot { closed: idle.closed };
        let sessions = idle.sessions.get_mut(key);
        let session = sessions.and_then(|sessions| {
            let at = sessions.iter().rposition(|session| session.is_within(reaches.clone()))?;
            Some(sessions.remove(at))
        });
        (session, lent)
    }

    /// Takes back a session whose last request was answered.
    pub fn put_back(&self, key: LdapPoolKey, session: LdapSession, lent: &PoolSnapshot) {
        let mut idle = sync::lock(&self.idle);
        if idle.closed != lent.closed || !session.was_open() {
            return;
        }
        if idle.sessions.values().map(Vec::len).sum::<usize>() >= limits::LDAP_IDLE_SESSIONS {
            idle.drop_from_largest();
        }
        let sessions = idle.sessions.entry(key).or_default();
        if sessions.len() >= limits::LDAP_IDLE_OF_LOGIN {
            sessions.remove(0);
        }
        sessions.push(session);
    }

    /// Closes the idle sessions of a login.
    pub fn close(&self, key: &LdapPoolKey) {
        self.close_those(|other| other == key);
    }

    /// Closes the idle sessions of a mount and forgets the record of the mount's logins.
    pub fn close_mount(&self, mount: &str) {
        self.logins.forget_mount(mount);
        self.close_those(|key| key.mount == mount);
    }

    /// Closes all idle sessions, and forgets all logins.
    pub fn close_all(&self) {
        self.logins.clear();
        self.close_those(|_| true);
    }

    fn close_those(&self, unwanted: impl Fn(&LdapPoolKey) -> bool) {
        let mut idle = sync::lock(&self.idle);
        idle.closed += 1;
        idle.retain(|key, _| !unwanted(key));
    }
}

impl IdleSessions {
    fn retain(&mut self, wanted: impl Fn(&LdapPoolKey, &LdapSession) -> bool) {
        self.sessions.retain(|key, sessions| {
            sessions.retain(|session| wanted(key, session));
            !sessions.is_empty()
        });
    }

    /// Drops the least recently used session of the mount with most idle sessions.
    fn drop_from_largest(&mut self) {
        let mut by_mount: BTreeMap<&str, usize> = BTreeMap::new();
        for (key, sessions) in &self.sessions {
            *by_mount.entry(&key.mount).or_default() += sessions.len();
        }
        let largest = by_mount.into_iter().max_by_key(|(_, count)| *count);
        let Some(largest) = largest.map(|(mount, _)| mount.to_owned()) else { return };
        let of_largest = self.sessions.iter_mut().filter(|(key, _)| key.mount == largest);
        let oldest = of_largest.min_by_key(|(_, sessions)| sessions.first().map(LdapSession::used));
        if let Some((_, sessions)) = oldest
            && !sessions.is_empty()
        {
            sessions.remove(0);
        }
    }
}

/// Returns the fingerprint of all fields of a target.
fn fingerprint(target: &DirectoryTarget) -> Fingerprint {
    let tls = &target.tls;
    Fingerprint::begin()
        .bytes(&target.bind_dn)
        .bytes(&target.password)
        .optional(tls.root_certificates.as_ref())
        .optional(tls.client_certificate.as_ref())
        .optional(tls.client_key.as_ref())
        .optional(tls.server_name.as_ref())
        .bytes(&tls.min_version)
        .bytes(&tls.max_version)
        .number(tls.starttls)
        .number(tls.insecure)
        .number(target.connect_timeout)
        .number(target.request_timeout)
        .all(&target.urls)
        .end()
}

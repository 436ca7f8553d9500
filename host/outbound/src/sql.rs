//! Pools of database sessions that outlive the plugin instances using the sessions.
//!
//! This file prevents a plugin from reaching the sessions of another plugin by naming them: a pool
//! belongs to a single mount, connection, generation and target. `limits::SQL_SESSIONS` bounds the
//! sessions of all pools together. If a call needs more than the free sessions, Bulkhead closes the
//! least recently used pool of the mount with most sessions. This code sets every option of a
//! session itself: the process environment, password files and the host's certificates supply no
//! option.

mod database_target;
mod failure;
mod gate;
mod lent_session;
mod loan;
mod login;
mod mysql;
mod postgres;
mod relay;
mod rows;
mod session;
mod session_pool;
mod session_state;
mod socket_route;
mod statement;
mod targets;

pub use database_target::{DatabaseEndpoint, DatabaseTarget, DatabaseTls, PoolSettings};
pub use failure::{SqlFailure, failed};
pub use login::{LoginRequest, SecretRecorder};
pub use session::SqlSession;
pub use statement::SqlStatement;
pub use targets::{ConnectionTargets, KnownTargets, check_targets};

use crate::addresses::AllowedAddresses;
use crate::fingerprint::{Fingerprint, FingerprintBuilder};
use crate::limits;
use crate::tls::TlsConfigs;
use bulkhead_wire::sync;
use session::VettedPool;
use socket_route::DialTarget;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

/// Key of a pool.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PoolKey {
    pub(crate) mount: String,
    pub(crate) connection: String,
    pub(crate) generation: u64,
    /// Fingerprint of the target with its password: a new password means a new pool.
    target: Fingerprint,
}

impl PoolKey {
    /// Creates the key of a connection's pool. A new `generation` means changed settings.
    pub fn new(mount: &str, connection: &str, generation: u64, target: &DatabaseTarget) -> Self {
        let (mount, connection) = (mount.to_owned(), connection.to_owned());
        Self { mount, connection, generation, target: fingerprint(target) }
    }

    fn is_of(&self, mount: &str, connection: &str) -> bool {
        self.mount == mount && self.connection == connection
    }
}

struct PoolEntry {
    sessions: Arc<OnceCell<VettedPool>>,
    /// Maximum number of sessions that the pool may open.
    most: u32,
    used: Instant,
}

/// All pools of the process.
pub struct SessionPools {
    entries: Mutex<BTreeMap<PoolKey, PoolEntry>>,
    /// Session slots that are not reserved by a pool.
    room: Arc<Semaphore>,
    tls: Arc<TlsConfigs>,
}

impl SessionPools {
    /// Creates an empty set of pools.
    pub fn new(tls: &Arc<TlsConfigs>) -> Self {
        Self::with_room(limits::SQL_SESSIONS, tls)
    }

    /// Creates pools with at most `sessions` sessions in total.
    fn with_room(sessions: u32, tls: &Arc<TlsConfigs>) -> Self {
        let room = Arc::new(Semaphore::new(sessions as usize));
        let tls = Arc::clone(tls);
        Self { entries: Mutex::default(), room, tls }
    }

    /// Returns the sessions of `key`. The first caller opens the pool, and concurrent callers wait
    /// for that caller. `reaches` holds the allowed addresses of each endpoint of the target.
    async fn sessions(
        &self,
        key: PoolKey,
        target: &DatabaseTarget,
        reaches: &[AllowedAddresses],
    ) -> Result<VettedPool, SqlFailure> {
        let most = session::most_sessions(target);
        let cell = self.session_cell(&key, most);
        let is_new = !cell.initialized();
        let open = async {
            let room = self.make_room(&key, most).await?;
            Ok(VettedPool::open(self.dial_target(target), reaches).await?.with_slots(room))
        };
        let opened = cell.get_or_try_init(|| open).await;
        match opened {
            Ok(sessions) => {
                if is_new {
                    self.retire_older(&key);
                }
                Ok(sessions.clone())
            }
            Err(failure) => {
                self.forget_unopened(&key);
                Err(failure)
            }
        }
    }

    /// Lends a session of `key`, and opens the pool if there is none. A pool that was closed in the
    /// meantime is already removed from the map, so the next pass finds or opens another pool.
    ///
    /// # Errors
    /// As [`sessions`](Self::sessions), and the errors of a login.
    async fn lend(
        &self,
        key: &PoolKey,
        target: &DatabaseTarget,
        reaches: &[AllowedAddresses],
    ) -> Result<SqlSession, SqlFailure> {
        loop {
            let sessions = self.sessions(key.clone(), target, reaches).await?;
            // The call that opened the pool may have had wider grants than this call.
            if !sessions.is_within(reaches) {
                self.close_failed_pool(key);
            } else if let Some(lent) = sessions.lend().await? {
                return Ok(lent);
            }
        }
    }

    /// Lends an idle session of `key`, if there is a live session.
    async fn lend_idle(&self, key: &PoolKey, reaches: &[AllowedAddresses]) -> Option<SqlSession> {
        let sessions = self.open_sessions(key).filter(|open| open.is_within(reaches))?;
        sessions.lend_idle().await
    }

    /// Returns the key of the newest pool of the same connection that leads to `target`. If there
    /// is no such pool, the key keeps the generation of `key`.
    fn key_of_newest(&self, key: &PoolKey, target: &DatabaseTarget) -> PoolKey {
        let own = PoolKey { target: fingerprint(target), ..key.clone() };
        let entries = self.lock();
        let leads_there = |other: &&PoolKey| {
            other.is_of(&own.mount, &own.connection) && other.target == own.target
        };
        let newest = entries.keys().filter(leads_there).max_by_key(|other| other.generation);
        newest.cloned().unwrap_or(own)
    }

    /// Checks that a login works. Uses a pooled session of `key` if the pool is open. Otherwise
    /// opens a temporary session, so that checking a password leaves no unused pool behind.
    ///
    /// # Errors
    /// As [`sessions`](Self::sessions).
    async fn ping(
        &self,
        key: &PoolKey,
        target: &DatabaseTarget,
        reaches: &[AllowedAddresses],
    ) -> Result<(), SqlFailure> {
        if let Some(sessions) = self.open_sessions(key).filter(|open| open.is_within(reaches))
            && let Some(lent) = sessions.lend().await?
        {
            return lent.ping().await;
        }
        let _room = self.make_room(key, 1).await?;
        VettedPool::open(self.dial_target(target), reaches).await?.close().await;
        Ok(())
    }

    fn dial_target<'a>(&'a self, target: &'a DatabaseTarget) -> DialTarget<'a> {
        DialTarget { target, tls: &self.tls }
    }

    /// Returns the sessions of `key`, if the pool is open.
    fn open_sessions(&self, key: &PoolKey) -> Option<VettedPool> {
        let mut entries = self.lock();
        let entry = entries.get_mut(key)?;
        entry.used = Instant::now();
        entry.sessions.get().cloned()
    }

    /// Closes a pool whose server failed or was demoted. The next use resolves the name and tries
    /// the endpoints again.
    pub fn close_failed_pool(&self, key: &PoolKey) {
        self.retire(|other, _| other == key);
    }

    /// Closes the pools of a mount's connection.
    pub fn close(&self, mount: &str, connection: &str) {
        self.retire(|key, _| key.is_of(mount, connection));
    }

    /// Closes the pools of all connections of a mount.
    pub fn close_mount(&self, mount: &str) {
        self.retire(|key, _| key.mount == mount);
    }

    /// Closes all pools, and waits for lent sessions.
    pub async fn close_all(&self) {
        let entries = std::mem::take(&mut *self.lock());
        let closing: Vec<_> = entries
            .into_values()
            .filter_map(|entry| entry.sessions.get().cloned())
            .map(|sessions| tokio::spawn(async move { sessions.close().await }))
            .collect();
        let all = async {
            for pool in closing {
                // A pool whose closing task failed has no sessions left to wait for.
                let _ = pool.await;
            }
        };
        // A session that is still lent after this timeout ends with the process.
        let _ = tokio::time::timeout(limits::POOL_CLOSE_TIMEOUT, all).await;
    }

    /// Reserves slots for `most` sessions of `key`. If too few slots are free, closes other pools;
    /// the slots of a closed pool become free when its lent sessions have come back.
    async fn make_room(
        &self,
        key: &PoolKey,
        most: u32,
    ) -> Result<OwnedSemaphorePermit, SqlFailure> {
        let mut closing = 0_usize;
        while self.room.available_permits().saturating_add(closing) < most as usize
            && let Some(sessions) = self.shrink_largest_mount(key)
        {
            closing = closing.saturating_add(sessions as usize);
        }
        let room = Arc::clone(&self.room).acquire_many_owned(most);
        match tokio::time::timeout(limits::SESSION_WAIT_TIMEOUT, room).await {
            Ok(Ok(room)) => Ok(room),
            Ok(Err(_)) | Err(_) => Err(failed(
                "timed-out",
                format!("all {} SQL sessions of this server are in use", limits::SQL_SESSIONS),
            )),
        }
    }

    /// Closes the least recently used pool of the mount with the largest sum of session limits.
    /// Returns the number of slots that become free, or `None` if no other pool than that of `key`
    /// is open.
    fn shrink_largest_mount(&self, key: &PoolKey) -> Option<u32> {
        let entries = self.lock();
        let open =
            |(other, entry): &(&PoolKey, &PoolEntry)| *other != key && entry.sessions.initialized();
        let mut by_mount: BTreeMap<&str, u32> = BTreeMap::new();
        for (other, entry) in entries.iter().filter(open) {
            *by_mount.entry(&other.mount).or_default() += entry.most;
        }
        let (largest, _) = by_mount.into_iter().max_by_key(|(_, most)| *most)?;
        let of_largest = entries.iter().filter(open).filter(|(other, _)| other.mount == largest);
        let (oldest, entry) = of_largest.min_by_key(|(_, entry)| entry.used)?;
        let (oldest, most) = (oldest.clone(), entry.most);
        drop(entries);
        self.close_failed_pool(&oldest);
        Some(most)
    }

    fn session_cell(&self, key: &PoolKey, most: u32) -> Arc<OnceCell<VettedPool>> {
        let now = Instant::now();
        let mut entries = self.lock();
        if let Some(entry) = entries.get_mut(key) {
            entry.used = now;
            return Arc::clone(&entry.sessions);
        }
        let cell = Arc::new(OnceCell::new());
        entries.insert(key.clone(), PoolEntry { sessions: Arc::clone(&cell), most, used: now });
        cell
    }

    /// Closes the pools of older generations and all idle pools. Call this only after the newer
    /// pool is open: a refused change must not close sessions that other calls use.
    fn retire_older(&self, key: &PoolKey) {
        let now = Instant::now();
        self.retire(|other, entry| {
            let older =
                other.is_of(&key.mount, &key.connection) && other.generation < key.generation;
            older || now.duration_since(entry.used) > limits::POOL_IDLE
        });
    }

    fn forget_unopened(&self, key: &PoolKey) {
        let mut entries = self.lock();
        if entries.get(key).is_some_and(|entry| !entry.sessions.initialized()) {
            entries.remove(key);
        }
    }

    /// Removes pools from the map. Lent sessions finish their work before they close.
    fn retire(&self, unwanted: impl Fn(&PoolKey, &PoolEntry) -> bool) {
        let mut entries = self.lock();
        let retired: Vec<PoolKey> = entries
            .iter()
            .filter(|(key, entry)| unwanted(key, entry))
            .map(|(key, _)| key.clone())
            .collect();
        for key in retired {
            let sessions = entries.remove(&key).and_then(|entry| entry.sessions.get().cloned());
            if let Some(sessions) = sessions {
                tokio::spawn(async move { sessions.close().await });
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<PoolKey, PoolEntry>> {
        sync::lock(&self.entries)
    }
}

/// Returns the fingerprint of all fields of a target.
fn fingerprint(target: &DatabaseTarget) -> Fingerprint {
    let pool = &target.pool;
    of_servers(target)
        .bytes(&target.database)
        .bytes(&target.username)
        .bytes(&target.password)
        .number(pool.max_connections)
        .number(pool.connect_timeout)
        .number(pool.max_lifetime)
        .number(target.writable)
        .end()
}

/// Returns the fingerprint of a target's servers and TLS settings. The same password on other
/// servers is a different login.
fn servers(target: &DatabaseTarget) -> Fingerprint {
    of_servers(target).end()
}

fn of_servers(target: &DatabaseTarget) -> FingerprintBuilder {
    let tls = &target.tls;
    let hosts = target.endpoints.iter().map(|endpoint| &endpoint.host);
    let ports = target.endpoints.iter().map(|endpoint| endpoint.port.to_be_bytes());
    Fingerprint::begin()
        .bytes(&target.driver)
        .bytes(&tls.mode)
        .optional(tls.root_certificates.as_ref())
        .optional(tls.client_certificate.as_ref())
        .optional(tls.client_key.as_ref())
        .optional(tls.server_name.as_ref())
        .all(hosts)
        .all(ports)
}

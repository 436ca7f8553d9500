//! Pools of database sessions that outlive the instances which use them.
//!
//! A pool belongs to one mount, connection, generation and target, so that no plugin can reach
//! another one's sessions by naming them. All pools together have so many sessions; a call that
//! needs some of them takes the pool that was used longest ago from the mount that has most. Every
//! field of a session is set here: nothing comes from the process's environment, a password file
//! or the host's certificates.

mod failure;
mod gate;
mod lender;
mod lent_session;
mod loan;
mod login;
mod mysql;
mod postgres;
mod relay;
mod rows;
mod session;
mod session_state;
mod targets;
mod way;

pub(crate) use failure::{SqlFailure, failed};
pub(crate) use login::LoginRequest;
pub(crate) use session::Lent;
pub(crate) use targets::{KnownTargets, Targets, check_targets};

use crate::bindings::database_plugin::bulkhead::plugin::sql::Target;
use crate::fingerprint::{Fingerprint, Taken};
use crate::grants::Reach;
use crate::limits;
use crate::tls::TlsConfigs;
use bulkhead_wire::sync;
use session::Sessions;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use way::Aim;

/// What a pool belongs to.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PoolKey {
    pub(crate) mount: String,
    pub(crate) connection: String,
    pub(crate) generation: u64,
    /// The password is among it: another one is another pool.
    target: Fingerprint,
}

impl PoolKey {
    pub(crate) fn new(mount: &str, connection: &str, generation: u64, target: &Target) -> Self {
        let (mount, connection) = (mount.to_owned(), connection.to_owned());
        Self { mount, connection, generation, target: fingerprint(target) }
    }

    fn is_of(&self, mount: &str, connection: &str) -> bool {
        self.mount == mount && self.connection == connection
    }
}

struct Entry {
    sessions: Arc<OnceCell<Sessions>>,
    /// The most that it may open.
    most: u32,
    used: Instant,
}

/// All pools of the process.
pub(crate) struct Pools {
    entries: Mutex<BTreeMap<PoolKey, Entry>>,
    /// Sessions that no pool may open yet.
    room: Arc<Semaphore>,
    tls: Arc<TlsConfigs>,
}

impl Pools {
    /// No pool yet.
    pub(crate) fn new(tls: &Arc<TlsConfigs>) -> Self {
        Self::with_room(limits::SQL_SESSIONS, tls)
    }

    /// Pools that may have so many sessions together.
    fn with_room(sessions: u32, tls: &Arc<TlsConfigs>) -> Self {
        let room = Arc::new(Semaphore::new(sessions as usize));
        let tls = Arc::clone(tls);
        Self { entries: Mutex::default(), room, tls }
    }

    /// The sessions of `key`, opened by the first that asks while others wait for it. `reaches`
    /// says, endpoint by endpoint, which addresses it may be.
    async fn sessions(
        &self,
        key: PoolKey,
        target: &Target,
        reaches: &[Reach],
    ) -> Result<Sessions, SqlFailure> {
        let most = session::most_sessions(target);
        let cell = self.cell(&key, most);
        let is_new = !cell.initialized();
        let open = async {
            let room = self.make_room(&key, most).await?;
            Ok(Sessions::open(self.aim(target), reaches).await?.within(room))
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

    /// Lends a session of `key`, from a pool that is opened where there is none. A pool that is
    /// closed meanwhile is out of use by then, so that the next look finds or opens another.
    ///
    /// # Errors
    /// As [`sessions`](Self::sessions), and those of a login.
    async fn lend(
        &self,
        key: &PoolKey,
        target: &Target,
        reaches: &[Reach],
    ) -> Result<Lent, SqlFailure> {
        loop {
            let sessions = self.sessions(key.clone(), target, reaches).await?;
            // The call that opened them may have been granted more than this one is.
            if !sessions.is_within(reaches) {
                self.give_up(key);
            } else if let Some(lent) = sessions.lend().await? {
                return Ok(lent);
            }
        }
    }

    /// Lends a session of `key` that is idle, if there is one that lives.
    async fn lend_idle(&self, key: &PoolKey, reaches: &[Reach]) -> Option<Lent> {
        let sessions = self.open_sessions(key).filter(|open| open.is_within(reaches))?;
        sessions.lend_idle().await
    }

    /// The key of the newest pool of the connection of `key` that leads to `target`; one of its own
    /// generation where there is none.
    fn key_of_newest(&self, key: &PoolKey, target: &Target) -> PoolKey {
        let own = PoolKey { target: fingerprint(target), ..key.clone() };
        let entries = self.lock();
        let leads_there = |other: &&PoolKey| {
            other.is_of(&own.mount, &own.connection) && other.target == own.target
        };
        let newest = entries.keys().filter(leads_there).max_by_key(|other| other.generation);
        newest.cloned().unwrap_or(own)
    }

    /// Logs in. Where there are sessions of `key` one of them is asked; else it is a session of its
    /// own, so that the proof of a password leaves no pool behind that nothing will use.
    ///
    /// # Errors
    /// As [`sessions`](Self::sessions).
    async fn ping(
        &self,
        key: &PoolKey,
        target: &Target,
        reaches: &[Reach],
    ) -> Result<(), SqlFailure> {
        if let Some(sessions) = self.open_sessions(key).filter(|open| open.is_within(reaches))
            && let Some(lent) = sessions.lend().await?
        {
            return lent.ping().await;
        }
        let _room = self.make_room(key, 1).await?;
        Sessions::open(self.aim(target), reaches).await?.close().await;
        Ok(())
    }

    fn aim<'a>(&'a self, target: &'a Target) -> Aim<'a> {
        Aim { target, tls: &self.tls }
    }

    /// The sessions of `key`, if they are open.
    fn open_sessions(&self, key: &PoolKey) -> Option<Sessions> {
        let mut entries = self.lock();
        let entry = entries.get_mut(key)?;
        entry.used = Instant::now();
        entry.sessions.get().cloned()
    }

    /// Gives up a pool whose server went away or was demoted: the next use resolves the name and
    /// tries the endpoints anew.
    pub(crate) fn give_up(&self, key: &PoolKey) {
        self.retire(|other, _| other == key);
    }

    /// Closes the pools of a mount's connection.
    pub(crate) fn close(&self, mount: &str, connection: &str) {
        self.retire(|key, _| key.is_of(mount, connection));
    }

    /// Closes the pools of all connections of a mount.
    pub(crate) fn close_mount(&self, mount: &str) {
        self.retire(|key, _| key.mount == mount);
    }

    pub(crate) async fn close_all(&self) {
        let entries = std::mem::take(&mut *self.lock());
        let closing: Vec<_> = entries
            .into_values()
            .filter_map(|entry| entry.sessions.get().cloned())
            .map(|sessions| tokio::spawn(async move { sessions.close().await }))
            .collect();
        let all = async {
            for pool in closing {
                // A pool whose task ended early has no sessions left either.
                let _ = pool.await;
            }
        };
        // A session that is still lent by then ends with the process.
        let _ = tokio::time::timeout(limits::FAREWELL, all).await;
    }

    /// Room for `most` sessions of `key`, which other pools make where there is none: each closes
    /// once what it lent has come back.
    async fn make_room(
        &self,
        key: &PoolKey,
        most: u32,
    ) -> Result<OwnedSemaphorePermit, SqlFailure> {
        let mut closing = 0_usize;
        while self.room.available_permits().saturating_add(closing) < most as usize
            && let Some(given) = self.take_from_largest(key)
        {
            closing = closing.saturating_add(given as usize);
        }
        let room = Arc::clone(&self.room).acquire_many_owned(most);
        match tokio::time::timeout(limits::SESSION_PATIENCE, room).await {
            Ok(Ok(room)) => Ok(room),
            Ok(Err(_)) | Err(_) => Err(failed(
                "timed-out",
                format!("all {} SQL sessions of this server are in use", limits::SQL_SESSIONS),
            )),
        }
    }

    /// Closes the pool that was used longest ago of the mount whose pools may have most sessions.
    /// How many it gives back; `None` where there is no open pool but that of `key`.
    fn take_from_largest(&self, key: &PoolKey) -> Option<u32> {
        let entries = self.lock();
        let open =
            |(other, entry): &(&PoolKey, &Entry)| *other != key && entry.sessions.initialized();
        let mut by_mount: BTreeMap<&str, u32> = BTreeMap::new();
        for (other, entry) in entries.iter().filter(open) {
            *by_mount.entry(&other.mount).or_default() += entry.most;
        }
        let (largest, _) = by_mount.into_iter().max_by_key(|(_, most)| *most)?;
        let of_largest = entries.iter().filter(open).filter(|(other, _)| other.mount == largest);
        let (oldest, entry) = of_largest.min_by_key(|(_, entry)| entry.used)?;
        let (oldest, most) = (oldest.clone(), entry.most);
        drop(entries);
        self.give_up(&oldest);
        Some(most)
    }

    fn cell(&self, key: &PoolKey, most: u32) -> Arc<OnceCell<Sessions>> {
        let now = Instant::now();
        let mut entries = self.lock();
        if let Some(entry) = entries.get_mut(key) {
            entry.used = now;
            return Arc::clone(&entry.sessions);
        }
        let cell = Arc::new(OnceCell::new());
        entries.insert(key.clone(), Entry { sessions: Arc::clone(&cell), most, used: now });
        cell
    }

    /// Only once the newer one is open: a refused change must not close what others use. Idle ones
    /// go as well.
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

    /// Takes pools out of use; sessions that are lent finish what they do, and close then.
    fn retire(&self, unwanted: impl Fn(&PoolKey, &Entry) -> bool) {
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

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<PoolKey, Entry>> {
        sync::lock(&self.entries)
    }
}

/// Of everything in a target.
fn fingerprint(target: &Target) -> Fingerprint {
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

/// The servers of a target with all that authenticates them. A password for other servers is
/// another password.
fn servers(target: &Target) -> Fingerprint {
    of_servers(target).end()
}

fn of_servers(target: &Target) -> Taken {
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

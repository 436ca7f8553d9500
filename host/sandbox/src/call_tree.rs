//! What a root call and its nested calls share: secrets, counters, and the mark of their effects.

use crate::cpu_permits::CpuMeter;
use crate::held::Held;
use crate::key_ring::LastSigner;
use crate::password_changes::{Account, PasswordChange};
use crate::secrets::SecretSet;
use bulkhead_wire::client::Client;
use bulkhead_wire::sync;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicUsize, Ordering};
use tokio::sync::{RwLock, RwLockReadGuard};
use tokio::time::Instant;

/// What a root call and its nested calls share.
#[derive(Default)]
pub struct CallTree {
    /// Never in a text that leaves.
    pub secrets: SecretSet,
    effect: AtomicU8,
    host_calls: AtomicU32,
    held: AtomicUsize,
    /// What of it is memory, counted for the mount and the process too.
    pub(crate) held_memory: Held,
    written: AtomicUsize,
    http_calls: AtomicU32,
    http_bytes: AtomicUsize,
    pub(crate) cpu_meter: CpuMeter,
    pub(crate) last_signer: LastSigner,
    /// Held for reading by each change that is under way. `true`: no other begins.
    changes_ended: RwLock<bool>,
    began: Beginning,
    /// Passwords of connections that it changes, until it ends.
    password_changes: Mutex<Vec<PasswordChange>>,
}

/// When a tree was made.
struct Beginning(Instant);

impl Default for Beginning {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl CallTree {
    /// The tree of a call for `caller`, with which it takes its turn at what is scarce.
    #[must_use]
    pub fn of(caller: Client) -> Self {
        Self { cpu_meter: CpuMeter::of(caller), ..Self::default() }
    }

    /// The client that the root call is for; `None` for due work.
    pub(crate) fn caller(&self) -> Option<Client> {
        self.cpu_meter.caller()
    }

    /// Counts a host call. Returns how many there were.
    pub(crate) fn count_host_call(&self) -> u32 {
        self.host_calls.fetch_add(1, Ordering::Relaxed).saturating_add(1)
    }

    /// Counts bytes that the host holds. Returns how many it does.
    pub(crate) fn count_held_bytes(&self, bytes: usize) -> usize {
        self.held.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes)
    }

    /// Counts bytes that the call writes. Returns how many there were.
    pub(crate) fn count_written_bytes(&self, bytes: usize) -> usize {
        self.written.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes)
    }

    /// Bytes that the call wrote.
    #[must_use]
    pub fn written_bytes(&self) -> usize {
        self.written.load(Ordering::Relaxed)
    }

    /// Counts an HTTP request. Returns how many there were.
    pub(crate) fn count_http_call(&self) -> u32 {
        self.http_calls.fetch_add(1, Ordering::Relaxed).saturating_add(1)
    }

    /// Counts bytes that HTTP requests sent or received. Returns how many there were.
    pub(crate) fn count_http_bytes(&self, bytes: usize) -> usize {
        self.http_bytes.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes)
    }

    /// The right to change something outside; `None` when the call is being cut.
    pub(crate) async fn begin_change(&self) -> Option<RwLockReadGuard<'_, bool>> {
        let ended = self.changes_ended.read().await;
        (!*ended).then_some(ended)
    }

    /// Waits for the changes that are under way, and lets no other begin.
    pub(crate) async fn end_changes(&self) {
        *self.changes_ended.write().await = true;
    }

    /// When the call began.
    pub(crate) fn began(&self) -> Instant {
        self.began.0
    }

    /// Keeps the mark of a change of a connection's password until the call ends.
    pub(crate) fn keep_password_change(&self, change: PasswordChange) {
        sync::lock(&self.password_changes).push(change);
    }

    /// Whether the call itself changes the password of the account.
    pub(crate) fn changes_password_of(&self, account: &Account) -> bool {
        sync::lock(&self.password_changes).iter().any(|change| change.is_of(account))
    }

    /// Notes the password that is in force where the call changes that of the account.
    pub(crate) fn note_proven_password(&self, account: &Account, password: &str) {
        let changes = sync::lock(&self.password_changes);
        let of_account = changes.iter().filter(|change| change.is_of(account));
        of_account.for_each(|change| change.note_proven(password));
    }

    pub(crate) fn mark(&self, effect: Effect) {
        self.effect.fetch_max(effect as u8, Ordering::Relaxed);
    }

    /// The strongest mark of the imports that ran.
    #[must_use]
    pub fn effect(&self) -> Effect {
        match self.effect.load(Ordering::Relaxed) {
            0 => Effect::Pure,
            1 => Effect::Safe,
            _ => Effect::Effect,
        }
    }
}

impl AsRef<CpuMeter> for CallTree {
    fn as_ref(&self) -> &CpuMeter {
        &self.cpu_meter
    }
}

/// What an import did to the world. Only [`Effect::Effect`] ends automatic re-runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Effect {
    /// Nothing outside the unit of work.
    Pure = 0,
    /// Something was read outside.
    Safe = 1,
    /// Something may have been changed outside.
    Effect = 2,
}

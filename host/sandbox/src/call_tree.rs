//! State that a root call and its nested calls share: secrets, counters, and the effect mark.

use crate::cpu_permits::CpuMeter;
use crate::held_memory::HeldMemory;
use crate::key_ring::LastSigner;
use crate::password_changes::{ConnectionAccount, PasswordChange};
use crate::secrets::SecretSet;
use bulkhead_wire::client::Client;
use bulkhead_wire::sync;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicUsize, Ordering};
use tokio::sync::{RwLock, RwLockReadGuard};
use tokio::time::Instant;

/// State that a root call and its nested calls share.
#[derive(Default)]
pub struct CallTree {
    /// Secrets, which must not appear in a text that leaves.
    pub secrets: SecretSet,
    effect: AtomicU8,
    host_calls: AtomicU32,
    held: AtomicUsize,
    /// The part of `held` that is memory, counted for the mount and the process, too.
    pub(crate) held_memory: HeldMemory,
    written: AtomicUsize,
    http_calls: AtomicU32,
    http_bytes: AtomicUsize,
    pub(crate) cpu_meter: CpuMeter,
    pub(crate) last_signer: LastSigner,
    /// Read-locked by each change under way. `true`: no other change begins.
    changes_ended: RwLock<bool>,
    began: StartTime,
    /// Changes of connections' passwords by this call, kept until the call ends.
    password_changes: Mutex<Vec<PasswordChange>>,
}

/// The time at which a tree was made.
struct StartTime(Instant);

impl Default for StartTime {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl CallTree {
    /// Makes the tree of a call for `caller`. Queues for scarce resources are fair by this client.
    #[must_use]
    pub fn of(caller: Client) -> Self {
        Self { cpu_meter: CpuMeter::of(caller), ..Self::default() }
    }

    /// Returns the client of the root call; `None` for due work.
    pub(crate) fn caller(&self) -> Option<Client> {
        self.cpu_meter.caller()
    }

    /// Counts a host call. Returns the new total.
    pub(crate) fn count_host_call(&self) -> u32 {
        self.host_calls.fetch_add(1, Ordering::Relaxed).saturating_add(1)
    }

    /// Counts bytes that the host holds. Returns the new total.
    pub(crate) fn count_held_bytes(&self, bytes: usize) -> usize {
        self.held.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes)
    }

    /// Counts bytes that the call writes. Returns the new total.
    pub(crate) fn count_written_bytes(&self, bytes: usize) -> usize {
        self.written.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes)
    }

    /// Returns the bytes that the call wrote.
    #[must_use]
    pub fn written_bytes(&self) -> usize {
        self.written.load(Ordering::Relaxed)
    }

    /// Counts an HTTP request. Returns the new total.
    pub(crate) fn count_http_call(&self) -> u32 {
        self.http_calls.fetch_add(1, Ordering::Relaxed).saturating_add(1)
    }

    /// Counts bytes that HTTP requests sent or received. Returns the new total.
    pub(crate) fn count_http_bytes(&self, bytes: usize) -> usize {
        self.http_bytes.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes)
    }

    /// Returns the right to change something outside; `None` if the call is being cut.
    pub(crate) async fn begin_change(&self) -> Option<RwLockReadGuard<'_, bool>> {
        let ended = self.changes_ended.read().await;
        (!*ended).then_some(ended)
    }

    /// Waits for the changes under way, and lets no other change begin.
    pub(crate) async fn end_changes(&self) {
        *self.changes_ended.write().await = true;
    }

    /// Returns the time at which the call began.
    pub(crate) fn began(&self) -> Instant {
        self.began.0
    }

    /// Keeps a change of a connection's password until the call ends.
    pub(crate) fn keep_password_change(&self, change: PasswordChange) {
        sync::lock(&self.password_changes).push(change);
    }

    /// Returns true if the call itself changes the password of the account.
    pub(crate) fn changes_password_of(&self, account: &ConnectionAccount) -> bool {
        sync::lock(&self.password_changes).iter().any(|change| change.is_of(account))
    }

    /// Records the password in force, for the call's changes of that account.
    pub(crate) fn note_proven_password(&self, account: &ConnectionAccount, password: &str) {
        let changes = sync::lock(&self.password_changes);
        let of_account = changes.iter().filter(|change| change.is_of(account));
        of_account.for_each(|change| change.note_proven(password));
    }

    pub(crate) fn mark_effect(&self, effect: SideEffect) {
        self.effect.fetch_max(effect as u8, Ordering::Relaxed);
    }

    /// Returns the strongest mark of the imports that ran.
    #[must_use]
    pub fn effect(&self) -> SideEffect {
        match self.effect.load(Ordering::Relaxed) {
            0 => SideEffect::Pure,
            1 => SideEffect::Safe,
            _ => SideEffect::Effect,
        }
    }
}

impl AsRef<CpuMeter> for CallTree {
    fn as_ref(&self) -> &CpuMeter {
        &self.cpu_meter
    }
}

/// Side effect of an import. Only [`SideEffect::Effect`] ends automatic re-runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum SideEffect {
    /// No contact outside the unit of work.
    Pure = 0,
    /// A read outside.
    Safe = 1,
    /// A possible change outside.
    Effect = 2,
}

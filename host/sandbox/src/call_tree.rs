//! State that a root call and its nested calls share: secrets, counters, and the effect mark.

use crate::caller_presence::CallerPresence;
use crate::cpu_permits::CpuMeter;
use crate::held_memory::HeldMemory;
use crate::key_ring::LastSigner;
use crate::secrets::SecretSet;
use bulkhead_outbound::password_changes::CallPasswords;
use bulkhead_wire::client::Client;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicUsize, Ordering};
use tokio::sync::{RwLock, RwLockReadGuard};

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
    output_lines: AtomicU32,
    /// Bytes that HTTP requests sent and received.
    pub(crate) http_bytes: Arc<AtomicUsize>,
    pub(crate) cpu_meter: CpuMeter,
    pub(crate) last_signer: LastSigner,
    /// Read-locked by each change under way. `true`: no other change begins.
    changes_ended: RwLock<bool>,
    /// Changes of connections' passwords by this call.
    pub(crate) passwords: CallPasswords,
    /// `None` for a call that continues without its client.
    presence: Option<CallerPresence>,
    /// A commit of the call has begun, so that the call must run to its end.
    has_committed: AtomicBool,
}

impl CallTree {
    /// Makes the tree of a call for `caller`. Queues for scarce resources are fair by this client.
    #[must_use]
    pub fn of(caller: Client) -> Self {
        Self { cpu_meter: CpuMeter::of(caller), ..Self::default() }
    }

    /// Makes the calls end once their client has disconnected, if they have changed nothing until
    /// then.
    #[must_use]
    pub fn bound_to(self, presence: CallerPresence) -> Self {
        Self { presence: Some(presence), ..self }
    }

    /// Notes that a commit of the call begins. From then on the call runs to its end.
    pub(crate) fn note_commit(&self) {
        self.has_committed.store(true, Ordering::Relaxed);
    }

    /// Resolves once the client has disconnected, unless the call has begun a change: an effect, or
    /// a commit. A call begins its changes in the task that awaits this future, so that no change
    /// begins between the check and the end of the call.
    pub(crate) async fn wait_for_abandonment(&self) {
        if let Some(presence) = &self.presence {
            presence.wait_for_end().await;
            let has_changed = self.has_committed.load(Ordering::Relaxed);
            if !has_changed && self.effect() < SideEffect::Effect {
                return;
            }
        }
        std::future::pending().await
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

    /// Counts a log line of the standard output or error. Returns the new total.
    pub(crate) fn count_output_line(&self) -> u32 {
        self.output_lines.fetch_add(1, Ordering::Relaxed).saturating_add(1)
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Waker};

    fn is_abandoned(tree: &CallTree) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        pin!(tree.wait_for_abandonment()).poll(&mut context).is_ready()
    }

    #[test]
    fn abandoned_calls_without_changes_end() {
        assert!(!is_abandoned(&CallTree::default()), "no client is known");
        let (client, presence) = CallerPresence::begin();
        let tree = CallTree::default().bound_to(presence);
        tree.mark_effect(SideEffect::Safe);
        assert!(!is_abandoned(&tree), "the client is present");
        drop(client);
        assert!(is_abandoned(&tree));
    }

    #[test]
    fn abandoned_calls_with_changes_continue() {
        let gone = || CallTree::default().bound_to(CallerPresence::begin().1);
        let (effectful, committing) = (gone(), gone());
        effectful.mark_effect(SideEffect::Effect);
        committing.note_commit();
        assert!(!is_abandoned(&effectful) && !is_abandoned(&committing));
    }
}

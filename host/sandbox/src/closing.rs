//! The end of calls over a store that is being sealed, or of a mount that is being stopped.
//!
//! This file prevents a component that hangs from blocking the seal, and so the next unseal, and
//! from blocking the removal of its mount. A call is cut at the signal, but never during a change
//! outside of Bulkhead: the undo of the change must not run beside the change.

use crate::call_tree::CallTree;
use std::collections::BTreeMap;
use tokio::sync::watch;

/// Reason why a component did not finish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallInterruption {
    /// The call ran out of time.
    Late,
    /// The service is being sealed.
    Sealed,
    /// The mount is being disabled or moved, or the server stops.
    Stopped,
    /// The client has disconnected, and the call had changed nothing.
    Abandoned,
}

impl From<tokio::time::error::Elapsed> for CallInterruption {
    fn from(_: tokio::time::error::Elapsed) -> Self {
        Self::Late
    }
}

/// The kind of a call, for the stop of a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallKind {
    /// A request, or the renewal of a login.
    Request,
    /// A timer.
    Wake,
    /// A step of a migration.
    Migration,
    /// The renewal or the end of a lease: never cut by the stop of its mount, which needs the end.
    Lease,
}

/// The signals for calls to end.
#[derive(Default)]
pub(crate) struct ClosingSignal(watch::Sender<ClosingState>);

#[derive(Default)]
struct ClosingState {
    is_sealing: bool,
    /// Whether no mount migrates any more.
    ends_migrations: bool,
    /// Kinds of calls that are stopped, by mount. A kind stands here once for each stop.
    stopped: BTreeMap<String, Vec<CallKind>>,
}

impl ClosingState {
    fn interrupts(&self, mount: &str, kind: CallKind) -> Option<CallInterruption> {
        if self.is_sealing {
            return Some(CallInterruption::Sealed);
        }
        let is_stopped = || self.stopped.get(mount).is_some_and(|kinds| kinds.contains(&kind));
        let ends = (self.ends_migrations && kind == CallKind::Migration) || is_stopped();
        ends.then_some(CallInterruption::Stopped)
    }
}

impl ClosingSignal {
    /// Cuts every call from now on.
    pub(crate) fn begin(&self) {
        self.0.send_modify(|state| state.is_sealing = true);
    }

    /// Cuts the migrations of all mounts from now on.
    pub(crate) fn end_migrations(&self) {
        self.0.send_modify(|state| state.ends_migrations = true);
    }

    /// Cuts the calls of a kind of `mount` until [`ClosingSignal::resume`].
    pub(crate) fn stop(&self, mount: &str, kind: CallKind) {
        self.0.send_modify(|state| state.stopped.entry(mount.to_owned()).or_default().push(kind));
    }

    /// Takes one stop back.
    pub(crate) fn resume(&self, mount: &str, kind: CallKind) {
        self.0.send_modify(|state| {
            let Some(kinds) = state.stopped.get_mut(mount) else { return };
            if let Some(place) = kinds.iter().position(|stopped| *stopped == kind) {
                kinds.swap_remove(place);
            }
            if kinds.is_empty() {
                state.stopped.remove(mount);
            }
        });
    }

    /// Resolves as soon as calls of this kind of `mount` are cut.
    pub(crate) async fn wait_for_stop(&self, mount: &str, kind: CallKind) -> CallInterruption {
        let mut signal = self.0.subscribe();
        loop {
            let interruption = signal.borrow_and_update().interrupts(mount, kind);
            if let Some(interruption) = interruption {
                return interruption;
            }
            if signal.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    /// Resolves after calls of this kind of `mount` are cut and the changes of `tree` outside have
    /// ended. The tree begins no change from then on.
    pub(crate) async fn wait_for_interruption(
        &self,
        (mount, kind): (&str, CallKind),
        tree: &CallTree,
    ) -> CallInterruption {
        let interruption = self.wait_for_stop(mount, kind).await;
        tree.end_changes().await;
        interruption
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    #[tokio::test]
    async fn closing_signal_cuts_call_after_begun_change() {
        for is_sealed in [true, false] {
            let (closing, tree) = (ClosingSignal::default(), CallTree::default());
            let mut context = Context::from_waker(Waker::noop());
            let call = ("mount", CallKind::Request);
            let mut cut = pin!(closing.wait_for_interruption(call, &tree));
            assert!(cut.as_mut().poll(&mut context).is_pending(), "no sign");
            let change = tree.begin_change().await.expect("no sign was given");
            let expected = match is_sealed {
                true => {
                    closing.begin();
                    CallInterruption::Sealed
                }
                false => {
                    closing.stop("mount", CallKind::Request);
                    CallInterruption::Stopped
                }
            };
            assert!(cut.as_mut().poll(&mut context).is_pending(), "a change is under way");
            drop(change);
            assert_eq!(cut.await, expected);
            assert!(tree.begin_change().await.is_none(), "no change begins after the close");
        }
    }

    #[tokio::test]
    async fn mount_stop_cuts_call_kind_until_resumed() {
        let closing = ClosingSignal::default();
        let is_cut = |mount: &str, kind| {
            let mut context = Context::from_waker(Waker::noop());
            matches!(pin!(closing.wait_for_stop(mount, kind)).poll(&mut context), Poll::Ready(_))
        };
        closing.stop("mount", CallKind::Migration);
        closing.stop("mount", CallKind::Migration);
        assert!(is_cut("mount", CallKind::Migration) && !is_cut("other", CallKind::Migration));
        assert!(!is_cut("mount", CallKind::Wake) && !is_cut("mount", CallKind::Lease));
        closing.resume("mount", CallKind::Migration);
        assert!(is_cut("mount", CallKind::Migration), "another stop is in force");
        closing.resume("mount", CallKind::Migration);
        assert!(!is_cut("mount", CallKind::Migration));
        closing.end_migrations();
        assert!(is_cut("other", CallKind::Migration) && !is_cut("other", CallKind::Request));
    }
}

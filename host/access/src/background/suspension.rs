//! The suspension of due work, by the configuration or by a restore.
//!
//! This file prevents two servers with the same data from ending the same credentials and rotating
//! the same passwords: due work waits until a person says that the other server is off.

use bulkhead_store::Store;
use std::sync::Arc;
use tokio::sync::Notify;

/// The reason for which no due work runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DueWorkSuspension {
    /// `suspend_due_work` is set in the configuration.
    Configured,
    /// The data were restored from a snapshot and not released since.
    Restored,
    /// The configuration suspends due work, and the data were restored.
    ConfiguredAndRestored,
}

impl DueWorkSuspension {
    /// Returns the reason, in words for the operator.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::Configured => "suspend_due_work is set",
            Self::Restored => "the data were restored from a snapshot",
            Self::ConfiguredAndRestored => {
                "the data were restored from a snapshot, and suspend_due_work is set"
            }
        }
    }

    /// Returns the steps that start due work, in words for the operator.
    #[must_use]
    pub fn remedy(self) -> &'static str {
        match self {
            Self::Configured => "start the server without suspend_due_work",
            Self::Restored => {
                "make sure that no other server uses the same data, then run: bulkhead operator \
                 release (POST sys/release)"
            }
            Self::ConfiguredAndRestored => {
                "start the server without suspend_due_work, make sure that no other server uses \
                 the same data, then run: bulkhead operator release (POST sys/release)"
            }
        }
    }

    /// Returns whether the configuration suspends due work.
    #[must_use]
    pub fn is_configured(self) -> bool {
        !matches!(self, Self::Restored)
    }
}

/// The gate before due work of an open store.
pub struct DueWorkGate {
    store: Arc<Store>,
    is_configured: bool,
    released: Notify,
}

impl DueWorkGate {
    pub(super) fn new(store: &Arc<Store>, is_configured: bool) -> Arc<Self> {
        Arc::new(Self { store: Arc::clone(store), is_configured, released: Notify::new() })
    }

    /// Returns the reason for which due work waits; `None` if due work runs.
    #[must_use]
    pub fn suspension(&self) -> Option<DueWorkSuspension> {
        match (self.is_configured, self.store.restored().is_some()) {
            (false, false) => None,
            (true, false) => Some(DueWorkSuspension::Configured),
            (false, true) => Some(DueWorkSuspension::Restored),
            (true, true) => Some(DueWorkSuspension::ConfiguredAndRestored),
        }
    }

    /// Tells the waiting worker that the store was released.
    pub fn note_release(&self) {
        self.released.notify_waiters();
    }

    /// Waits until due work may run.
    pub(super) async fn wait_until_open(&self) {
        loop {
            let released = self.released.notified();
            tokio::pin!(released);
            // Registers before the look, so that a release between the two is not missed.
            released.as_mut().enable();
            if self.suspension().is_none() {
                return;
            }
            released.await;
        }
    }
}

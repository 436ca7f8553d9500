//! The ability of a store to write, as its writes show.
//!
//! This file prevents a health check that says "well" while every write is refused. No write is
//! made for the answer: the refused or stored writes of requests and due work decide.

use tokio::sync::watch;

use super::{TransactionOutcome, WriteFailure};

/// The ability of the store to write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WriteCondition {
    /// The last write was stored, or nothing was written yet.
    #[default]
    Works,
    /// The disk had no room for the last write, and nothing was stored since. Reads continue.
    DiskFull,
    /// An I/O error stopped all writes until the next start. Reads continue.
    Stopped,
}

/// The condition of a database, with a signal at each change.
#[derive(Default)]
pub(super) struct WriteWatch(watch::Sender<WriteCondition>);

impl WriteWatch {
    /// Returns the condition.
    pub(super) fn condition(&self) -> WriteCondition {
        *self.0.borrow()
    }

    /// Returns a receiver of the changes from now on.
    pub(super) fn subscribe(&self) -> watch::Receiver<WriteCondition> {
        self.0.subscribe()
    }

    /// Records the end of a transaction. A transaction that gave up wrote nothing, and shows
    /// nothing.
    pub(super) fn note_end(&self, outcome: TransactionOutcome) {
        if outcome == TransactionOutcome::Committed {
            self.change_to(WriteCondition::Works);
        }
    }

    /// Records a failed write.
    pub(super) fn note_failure(&self, failure: &WriteFailure) {
        match failure {
            WriteFailure::Full(_) => self.change_to(WriteCondition::DiskFull),
            WriteFailure::Stopped(_) => self.change_to(WriteCondition::Stopped),
            // The next write tells more.
            WriteFailure::Undone(_) | WriteFailure::Unknown(_) => {}
        }
    }

    fn change_to(&self, next: WriteCondition) {
        // Commits usually find the same condition, and then take the lock for reading only.
        let present = self.condition();
        if present == next || present == WriteCondition::Stopped {
            return;
        }
        self.0.send_replace(next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::StoreFault;

    fn full() -> WriteFailure {
        WriteFailure::Full(StoreFault::Unavailable("no room".into()))
    }

    #[test]
    fn full_disk_lasts_until_a_write_is_stored() {
        let watch = WriteWatch::default();
        let mut changes = watch.subscribe();
        watch.note_end(TransactionOutcome::Committed);
        assert!(!changes.has_changed().unwrap(), "the condition is the same");
        watch.note_failure(&full());
        assert_eq!(*changes.borrow_and_update(), WriteCondition::DiskFull);
        watch.note_failure(&full());
        watch.note_end(TransactionOutcome::Conflict);
        watch.note_failure(&WriteFailure::Unknown("no answer".into()));
        assert!(!changes.has_changed().unwrap(), "nothing was stored");
        watch.note_end(TransactionOutcome::Committed);
        assert_eq!(*changes.borrow_and_update(), WriteCondition::Works);
    }

    #[test]
    fn stopped_writes_stay_stopped() {
        let watch = WriteWatch::default();
        watch.note_failure(&WriteFailure::stopped("an I/O error"));
        watch.note_failure(&full());
        watch.note_end(TransactionOutcome::Committed);
        assert_eq!(watch.condition(), WriteCondition::Stopped);
    }
}

//! The ability of a store to write, as its writes show.
//!
//! This file prevents a health check that says "well" while every write is refused. No write is
//! made for the answer: the refused or stored writes of requests and due work decide.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bulkhead_wire::sync;
use tokio::sync::watch;

use crate::write_failure::{CLOSED, TransactionOutcome, UNUSABLE, WriteFailure};
use bulkhead_record::fault::StoreFault;

/// The ability of the store to write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WriteCondition {
    /// The last write was stored, or nothing was written yet.
    #[default]
    Works,
    /// The disk had no room for a write, and since then nothing was stored, or a few seconds have
    /// not passed. Reads continue.
    DiskFull,
    /// The database server cannot be reached, or refused a read or a write, and since then nothing
    /// was stored.
    Refused,
    /// An I/O error stopped all writes until the next start, and reads continue; or another node
    /// took the database, and reads end as well.
    Stopped,
}

/// Time without a refused write after which a stored write ends the condition of a full disk. Near
/// the limit small writes find room that large writes do not, and the condition would alternate.
const FULL_DISK_MEMORY: Duration = Duration::from_secs(5);

/// Time without a refused read after which a stored write ends the condition of a refusal. While
/// new connections are refused, a write on an old connection may succeed, and the condition would
/// alternate.
const REFUSED_READ_MEMORY: Duration = Duration::from_secs(1);

/// The condition of a database, with a signal at each change.
#[derive(Default)]
pub struct WriteWatch {
    condition: watch::Sender<WriteCondition>,
    /// Time of the last write without room.
    full_at: Mutex<Option<Instant>>,
    /// The error of the last write that the server refused.
    refusal: Mutex<Option<StoreFault>>,
    /// Time of the last read that the database refused.
    refused_read_at: Mutex<Option<Instant>>,
    /// Requests are answered, and the log has the causes of failures.
    is_serving: AtomicBool,
}

impl WriteWatch {
    /// Returns the condition.
    pub fn condition(&self) -> WriteCondition {
        *self.condition.borrow()
    }

    /// Returns the error of the write that led to [`WriteCondition::Refused`], or of a later one;
    /// `None` in another condition.
    pub fn refusal(&self) -> Option<StoreFault> {
        let is_refused = self.condition() == WriteCondition::Refused;
        sync::lock(&self.refusal).clone().filter(|_| is_refused)
    }

    /// Records that the store is open for requests.
    pub fn begin_service(&self) {
        self.is_serving.store(true, Ordering::Relaxed);
    }

    /// Returns the fault of a whole database as the callers of requests see it. Before the service,
    /// an operator sees the fault itself.
    pub fn answer(&self, fault: StoreFault) -> StoreFault {
        match fault {
            StoreFault::Unavailable(text)
                if self.is_serving.load(Ordering::Relaxed) && text != CLOSED =>
            {
                StoreFault::Unavailable(UNUSABLE.to_owned())
            }
            other => other,
        }
    }

    /// As [`WriteWatch::answer`], for the failures of writes that name the database.
    pub fn answer_of_write(&self, failure: WriteFailure) -> WriteFailure {
        match failure {
            WriteFailure::Refused(fault) => WriteFailure::Refused(self.answer(fault)),
            WriteFailure::Stopped(fault) => WriteFailure::Stopped(self.answer(fault)),
            other => other,
        }
    }

    /// Returns a receiver of the changes from now on.
    pub fn subscribe(&self) -> watch::Receiver<WriteCondition> {
        self.condition.subscribe()
    }

    /// Records the end of a transaction. A transaction that gave up wrote nothing, and shows
    /// nothing.
    pub fn note_end(&self, outcome: TransactionOutcome) {
        if outcome == TransactionOutcome::Conflict {
            return;
        }
        match self.condition() {
            WriteCondition::DiskFull | WriteCondition::Refused => {
                self.note_stored_at(Instant::now());
            }
            WriteCondition::Works | WriteCondition::Stopped => {}
        }
    }

    fn note_stored_at(&self, now: Instant) {
        let (refused_at, memory) = match self.condition() {
            WriteCondition::DiskFull => (&self.full_at, FULL_DISK_MEMORY),
            _ => (&self.refused_read_at, REFUSED_READ_MEMORY),
        };
        let refused_at = *sync::lock(refused_at);
        let is_past = |refused_at| now.saturating_duration_since(refused_at) >= memory;
        if refused_at.is_none_or(is_past) {
            self.change_to(WriteCondition::Works);
        }
    }

    /// Records a read that the database refused. Requests that write read first, so that no write
    /// shows the refusal.
    pub fn note_refused_read(&self, fault: StoreFault) {
        *sync::lock(&self.refused_read_at) = Some(Instant::now());
        // First, because the change wakes a reader of the error.
        *sync::lock(&self.refusal) = Some(fault);
        if self.condition() == WriteCondition::Works {
            self.change_to(WriteCondition::Refused);
        }
    }

    /// Records a failed write.
    pub fn note_failure(&self, failure: &WriteFailure) {
        match failure {
            WriteFailure::Full(_) => {
                *sync::lock(&self.full_at) = Some(Instant::now());
                self.change_to(WriteCondition::DiskFull);
            }
            WriteFailure::Refused(fault) => {
                // First, because the change wakes a reader of the error.
                *sync::lock(&self.refusal) = Some(fault.clone());
                self.change_to(WriteCondition::Refused);
            }
            WriteFailure::Stopped(_) => self.change_to(WriteCondition::Stopped),
            // The next write tells more.
            WriteFailure::Undone(_) | WriteFailure::Interfered | WriteFailure::Unknown(_) => {}
        }
    }

    fn change_to(&self, next: WriteCondition) {
        // Commits usually find the same condition, and then take the lock for reading only.
        let present = self.condition();
        if present == next || present == WriteCondition::Stopped {
            return;
        }
        self.condition.send_replace(next);
    }
}

#[cfg(test)]
mod tests;

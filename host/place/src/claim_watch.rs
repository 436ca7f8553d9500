//! The claim of a node on a database that several machines reach: the claiming process, the times
//! of the claim, and the certainty that the claim still holds.
//!
//! This file prevents stale answers from a node that lost its database to another node: a revoked
//! token must not pass because the record in memory is older than the revocation. Records in memory
//! are used only while the database has confirmed the claim a short time ago, by a clock that also
//! counts the sleep of the machine.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::node_description::NodeDescription;
use crate::node_files::{MarkFile, NodeId, process_name};
use crate::steady_clock::steady_milliseconds;
use crate::write_failure::CLOSED;
use bulkhead_record::cipher;
use bulkhead_record::fault::StoreFault;
use bulkhead_wire::hexadecimal;

/// Time for which a claim lasts after its last renewal, by the clock of the database.
const CLAIM_TIME: Duration = Duration::from_secs(15);
/// Time after the last confirmation in which records in memory are used. Shorter than
/// [`CLAIM_TIME`], because another node may take the database after that time.
const CONFIRMED_TIME: Duration = Duration::from_secs(12);
/// Age of a confirmation at which an idle node renews its claim.
const RENEWAL_AGE: Duration = Duration::from_secs(3);
/// Pause between two looks at the claim of another node.
const POLL_PAUSE: Duration = Duration::from_millis(500);

/// The times of a claim.
#[derive(Clone, Copy, Debug)]
pub struct ClaimTimes {
    /// Time for which a claim lasts without a renewal.
    pub claim: Duration,
    /// Time after a confirmation in which records in memory are used.
    pub confirmed: Duration,
    /// Age of a confirmation at which an idle node renews its claim.
    pub renewal: Duration,
    /// Pause between two looks at the claim of another node.
    pub poll: Duration,
}

impl Default for ClaimTimes {
    fn default() -> ClaimTimes {
        ClaimTimes {
            claim: CLAIM_TIME,
            confirmed: CONFIRMED_TIME,
            renewal: RENEWAL_AGE,
            poll: POLL_PAUSE,
        }
    }
}

impl ClaimTimes {
    /// Returns the pause between two looks at the age of the confirmation.
    pub fn keeping_pause(&self) -> Duration {
        self.renewal / 3
    }

    /// Returns the time after which another node counts an expired claim as given up, by its own
    /// clock: a node that reaches the database renews its claim within this time. The clock of the
    /// database may jump at a failover.
    pub fn silence(&self) -> Duration {
        self.renewal + self.keeping_pause() + self.poll
    }
}

/// The other nodes that may work on a database together with a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NodeSharing {
    /// No other node.
    #[default]
    Alone,
    /// Other nodes that also share the database. Each writes what it changes, and reads what the
    /// others change.
    Shared,
}

/// A process that claims a database.
#[derive(Clone)]
pub struct ClaimingNode {
    /// Random bytes of this opening.
    pub holder: [u8; 16],
    /// The data directory of the process; `None` before its first opening of a database.
    pub node: Option<NodeId>,
    /// The process in the messages of other nodes.
    pub place: String,
    /// The times of its claim.
    pub times: ClaimTimes,
    /// The other nodes beside the process.
    pub sharing: NodeSharing,
    /// The node in the lists of other nodes.
    pub description: NodeDescription,
    /// The file with the last known commit.
    pub mark: Arc<MarkFile>,
}

impl ClaimingNode {
    /// Returns this process as a claimant that works alone and has no name, with the node and the
    /// mark of its data directory.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the system gives no random bytes.
    pub fn of_process(
        node: Option<NodeId>,
        mark: MarkFile,
        times: ClaimTimes,
    ) -> Result<ClaimingNode, StoreFault> {
        let (holder, place, mark) = (cipher::random()?, process_name(), Arc::new(mark));
        let (sharing, description) = (NodeSharing::Alone, NodeDescription::default());
        Ok(ClaimingNode { holder, node, place, times, sharing, description, mark })
    }

    /// Returns the name of the row of the node in the database: the data directory in hexadecimal
    /// digits. A process without a directory has a row of its own.
    #[must_use]
    pub fn row_name(&self) -> String {
        hexadecimal::text(self.node.as_deref().unwrap_or(&self.holder))
    }
}

/// The certainty that a claim holds.
pub struct ClaimWatch {
    /// The database, for messages.
    database: PathBuf,
    confirmed_time: u64,
    /// Reading of the steady clock, in milliseconds, until which records in memory are used. 0
    /// after the loss and after the end.
    certain_until: AtomicU64,
    lost: OnceLock<String>,
}

impl ClaimWatch {
    /// Creates the watch of a claim on `database` that a transaction took. The steady clock read
    /// `begun` before the transaction.
    pub fn new(database: PathBuf, times: &ClaimTimes, begun: u64) -> ClaimWatch {
        let confirmed_time = u64::try_from(times.confirmed.as_millis()).unwrap_or(u64::MAX);
        let certain_until = AtomicU64::new(begun.saturating_add(confirmed_time));
        ClaimWatch { database, confirmed_time, certain_until, lost: OnceLock::new() }
    }

    /// Records that a transaction renewed the claim. The steady clock read `begun` before the
    /// transaction. Changes nothing after the end. Called by one transaction at a time.
    pub fn confirm(&self, begun: u64) {
        if !self.is_ended() {
            self.certain_until.store(begun.saturating_add(self.confirmed_time), Ordering::Relaxed);
        }
    }

    /// Returns the time since the last confirmation.
    pub fn age(&self) -> Duration {
        let until = self.certain_until.load(Ordering::Relaxed);
        let confirmed = until.saturating_sub(self.confirmed_time);
        Duration::from_millis(steady_milliseconds().saturating_sub(confirmed))
    }

    /// Records the loss of the claim, for good.
    pub fn lose(&self, reason: &str) {
        self.lost.get_or_init(|| reason.to_owned());
        self.end();
    }

    /// Ends the use of records in memory, before the claim is given back. No transaction runs.
    pub fn end(&self) {
        self.certain_until.store(0, Ordering::Relaxed);
    }

    /// Returns whether the claim is lost or was given back.
    pub fn is_ended(&self) -> bool {
        self.certain_until.load(Ordering::Relaxed) == 0
    }

    /// Returns whether the claim was not confirmed for too long, and may be confirmed again.
    pub fn is_in_doubt(&self) -> bool {
        !self.is_ended() && self.check().is_err()
    }

    /// Returns the reason for the loss of the claim.
    pub fn lost(&self) -> Option<&str> {
        self.lost.get().map(String::as_str)
    }

    /// Checks that the claim holds, before a record in memory is used.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the claim is lost, or was not confirmed for too long.
    pub fn check(&self) -> Result<(), StoreFault> {
        let certain_until = self.certain_until.load(Ordering::Relaxed);
        if steady_milliseconds() < certain_until {
            return Ok(());
        }
        Err(StoreFault::Unavailable(match (self.lost(), certain_until) {
            (Some(reason), _) => reason.to_owned(),
            (None, 0) => CLOSED.to_owned(),
            (None, _) => format!(
                "{} has not confirmed the claim of this node for {} s, and another node may have \
                 taken the database; requests are refused until the confirmation; check the \
                 database server and the connection",
                self.database.display(),
                self.age().as_secs()
            ),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch(confirmed: Duration) -> ClaimWatch {
        let times = ClaimTimes { confirmed, ..ClaimTimes::default() };
        ClaimWatch::new("db".into(), &times, steady_milliseconds())
    }

    fn refusal(watch: &ClaimWatch) -> String {
        watch.check().unwrap_err().to_string()
    }

    #[test]
    fn unconfirmed_claim_refuses_until_next_confirmation() {
        let lapsed = watch(Duration::ZERO);
        assert!(refusal(&lapsed).contains("db has not confirmed the claim"));
        assert!(lapsed.is_in_doubt());
        let watch = watch(Duration::from_secs(3_600));
        assert_eq!(watch.check(), Ok(()));
        watch.certain_until.store(1, Ordering::Relaxed);
        assert!(refusal(&watch).contains("has not confirmed"));
        watch.confirm(steady_milliseconds());
        assert_eq!(watch.check(), Ok(()));
        assert!(watch.age() < Duration::from_secs(3_000));
        assert!(!watch.is_in_doubt());
    }

    #[test]
    fn lost_claim_is_never_confirmed_again() {
        let watch = watch(Duration::from_secs(3_600));
        watch.lose("node b took over");
        watch.confirm(steady_milliseconds());
        assert_eq!(refusal(&watch), "node b took over");
        assert!(!watch.is_in_doubt(), "the loss is certain");
        watch.lose("another reason");
        assert_eq!(watch.lost(), Some("node b took over"));
    }

    #[test]
    fn times_of_claim_leave_room_for_renewals() {
        let times = ClaimTimes::default();
        assert!(times.confirmed < times.claim && times.renewal * 3 < times.confirmed);
    }
}

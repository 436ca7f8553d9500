//! The keyring of a process that shares its database: when to read the stored keyring again, and
//! from when on to seal by its newest term.
//!
//! This file prevents two faults of a rotation on a shared database: records that another node
//! cannot open, and a record reported as damaged although only its term is new. A process opens
//! records by each stored term at once, and seals by a term only after the time in which every
//! other node has read the term or has lost its right to use memory (decision T65): such a node
//! reads the keyring before it answers again.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use bulkhead_place::steady_clock::steady_milliseconds;
use bulkhead_wire::sync;

use bulkhead_place::write_proof::{MOST_PROOF_TIME, in_force_after};

/// The state of the keyring of a process.
#[derive(Default)]
pub(crate) struct KeyringWatch {
    state: Mutex<KeyringState>,
    /// The moment of the last reading because of an unknown term. Held during the reading.
    pub(crate) unknown_term: tokio::sync::Mutex<Option<Instant>>,
}

#[derive(Default)]
struct KeyringState {
    /// Length of the sealed keyring that was read last; 0 before the first read.
    read_bytes: i64,
    /// The newest term, and a moment after its read, by the steady clock.
    learned: Option<(u32, u64)>,
    /// Time after that moment in which the term is in force on every node; `None` if the proof
    /// times of the nodes are not known.
    in_force_time: Option<Duration>,
}

impl KeyringWatch {
    /// Returns whether a stored keyring of this length has not been read.
    pub(crate) fn is_unread(&self, bytes: i64) -> bool {
        sync::lock(&self.state).read_bytes != bytes
    }

    /// Records that a stored keyring of at least this length was read.
    pub(crate) fn note_read(&self, bytes: i64) {
        sync::lock(&self.state).read_bytes = bytes;
    }

    /// Records that the newest term, `term`, became known just now.
    pub(crate) fn note_learned(&self, term: u32) {
        let mut state = sync::lock(&self.state);
        (state.learned, state.in_force_time) = (Some((term, steady_milliseconds())), None);
    }

    /// Records the time in which the newest term is in force on every node, by the proof times that
    /// were read after the term.
    pub(crate) fn note_in_force_time(&self, time: Duration) {
        sync::lock(&self.state).in_force_time = Some(time);
    }

    /// Returns the newest term once, after the time in which every node has learned of the term.
    pub(crate) fn take_known_by_all(&self) -> Option<u32> {
        let mut state = sync::lock(&self.state);
        let now = steady_milliseconds();
        let time = state.in_force_time.unwrap_or_else(|| in_force_after(MOST_PROOF_TIME));
        let is_known = |since| Duration::from_millis(now.saturating_sub(since)) > time;
        let (term, _) = state.learned.filter(|(_, since)| is_known(*since))?;
        state.learned = None;
        Some(term)
    }
}

//! Outcomes of the last reloads of plugins, for operators who ask later.

use bulkhead_wire::failure::Failure;
use bulkhead_wire::sync;
use std::collections::VecDeque;
use std::sync::Mutex;

/// Maximum number of reloads whose outcome is kept for the operator.
const MOST_REMEMBERED: usize = 64;

/// A reload that has ended.
#[derive(Clone)]
pub struct ReloadRecord {
    /// UUID from the answer to the reload request (`reload_id`).
    pub id: String,
    /// Milliseconds of store time.
    pub time: u64,
    /// The mounts and connections that are served as before, each with the reason.
    pub failed: Vec<(String, Failure)>,
}

impl ReloadRecord {
    /// Returns the mounts and connections that are served as before, with the reasons, as a text
    /// for operators.
    pub fn failure_text(&self) -> String {
        let line = |(path, failure): &(String, Failure)| format!("{path}: {}", failure.message);
        self.failed.iter().map(line).collect::<Vec<_>>().join("; ")
    }
}

/// The last reloads of this process, the oldest first.
#[derive(Default)]
pub struct ReloadHistory(Mutex<VecDeque<ReloadRecord>>);

impl ReloadHistory {
    /// Remembers a reload in the place of the oldest.
    pub(crate) fn add_reload(&self, reload: ReloadRecord) {
        let mut reloads = sync::lock(&self.0);
        if reloads.len() == MOST_REMEMBERED {
            reloads.pop_front();
        }
        reloads.push_back(reload);
    }

    /// Returns the reload with that id, if the process remembers the reload.
    pub fn find(&self, id: &str) -> Option<ReloadRecord> {
        sync::lock(&self.0).iter().find(|reload| reload.id == id).cloned()
    }
}

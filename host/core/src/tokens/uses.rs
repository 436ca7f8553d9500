//! Requests that are being served with tokens whose uses are counted.
//!
//! The fault this file stops: of ten requests at once with ten uses, the one that takes the last
//! use is the quickest, and its end takes the token away from the nine others. A token ends when
//! the last of them has left. Where several nodes share a store, each knows its own requests only;
//! what a node that dies knew is made good by the row's due time.

use bulkhead_wire::sync;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// The requests of this process, by the key of their token's row.
#[derive(Default)]
pub(super) struct Uses {
    running: Mutex<BTreeMap<String, Running>>,
}

#[derive(Default)]
struct Running {
    requests: usize,
    used_up: bool,
}

/// One such request. Dropped, it has left, too.
pub(super) struct Use {
    uses: Arc<Uses>,
    key: String,
    has_left: AtomicBool,
}

impl Uses {
    /// A request begins. To be called before it takes its use: the request that takes the last one
    /// must see it.
    pub(super) fn enter(self: &Arc<Self>, key: &str) -> Use {
        self.lock().entry(key.to_owned()).or_default().requests += 1;
        Use { uses: Arc::clone(self), key: key.to_owned(), has_left: AtomicBool::new(false) }
    }

    /// Is any request under way?
    pub(super) fn any(&self, key: &str) -> bool {
        self.lock().contains_key(key)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Running>> {
        sync::lock(&self.running)
    }
}

impl Use {
    /// Key of the token's row.
    pub(super) fn key(&self) -> &str {
        &self.key
    }

    /// It took the last use.
    pub(super) fn was_last(&self) {
        if let Some(running) = self.uses.lock().get_mut(&self.key) {
            running.used_up = true;
        }
    }

    /// The request is answered. `true` for the last one of a token without uses left, whose leaver
    /// ends the token.
    pub(super) fn leave(&self) -> bool {
        if self.has_left.swap(true, Ordering::SeqCst) {
            return false;
        }
        let mut all = self.uses.lock();
        let Some(running) = all.get_mut(&self.key) else { return false };
        running.requests = running.requests.saturating_sub(1);
        if running.requests > 0 {
            return false;
        }
        all.remove(&self.key).is_some_and(|running| running.used_up)
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        // A request that goes without leaving ends nothing: the row is due by itself.
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_to_leave_ends_the_token_whoever_took_the_last_use() {
        let uses = Arc::new(Uses::default());
        let (first, last, refused) = (uses.enter("a"), uses.enter("a"), uses.enter("a"));
        last.was_last();
        assert!(!last.leave() && !last.leave(), "others are under way");
        assert!(!refused.leave() && uses.any("a"));
        assert!(first.leave() && !uses.any("a"));
        assert!(!first.leave(), "once");
    }

    #[test]
    fn a_token_with_uses_left_is_not_ended_and_a_request_that_is_dropped_has_left() {
        let uses = Arc::new(Uses::default());
        assert!(!uses.enter("a").leave());
        let (dropped, other) = (uses.enter("a"), uses.enter("b"));
        dropped.was_last();
        drop(dropped);
        assert!(!uses.any("a") && uses.any("b"));
        assert!(!other.leave(), "another token's");
    }
}

//! Running requests of tokens whose uses are counted.
//!
//! This file prevents the end of a token from breaking its concurrent requests: if ten requests run
//! with ten uses, the request with the last use may finish first. The token ends only when the last
//! request finished. Each node that shares a store counts its own requests only; if a node dies,
//! the due time of the row ends the token.

use bulkhead_wire::sync;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// The running requests of this process, by row key of their token.
#[derive(Default)]
pub(super) struct TokenUses {
    running: Mutex<BTreeMap<String, RunningUses>>,
}

#[derive(Default)]
struct RunningUses {
    requests: usize,
    used_up: bool,
}

/// A running request. Dropping the value ends the request too.
pub(super) struct TokenUse {
    uses: Arc<TokenUses>,
    key: String,
    has_left: AtomicBool,
}

impl TokenUses {
    /// Registers a request. Must be called before the request takes its use, so that the request
    /// with the last use sees every other request.
    pub(super) fn enter(self: &Arc<Self>, key: &str) -> TokenUse {
        self.lock().entry(key.to_owned()).or_default().requests += 1;
        TokenUse { uses: Arc::clone(self), key: key.to_owned(), has_left: AtomicBool::new(false) }
    }

    /// Returns true if any request with this token is running.
    pub(super) fn is_running(&self, key: &str) -> bool {
        self.lock().contains_key(key)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, RunningUses>> {
        sync::lock(&self.running)
    }
}

impl TokenUse {
    /// Returns the row key of the token.
    pub(super) fn key(&self) -> &str {
        &self.key
    }

    /// Records that this request took the last use.
    pub(super) fn was_last(&self) {
        if let Some(running) = self.uses.lock().get_mut(&self.key) {
            running.used_up = true;
        }
    }

    /// Ends the request. Returns `true` for the last running request of a used-up token; the caller
    /// must then end the token.
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

impl Drop for TokenUse {
    fn drop(&mut self) {
        // A request dropped without `leave` ends no token: due work ends the row.
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_running_request_ends_used_up_token() {
        let uses = Arc::new(TokenUses::default());
        let (first, last, refused) = (uses.enter("a"), uses.enter("a"), uses.enter("a"));
        last.was_last();
        assert!(!last.leave() && !last.leave(), "other requests of the token still run");
        assert!(!refused.leave() && uses.is_running("a"));
        assert!(first.leave() && !uses.is_running("a"));
        assert!(!first.leave(), "only the last request ends the token");
    }

    #[test]
    fn dropped_request_leaves_and_remaining_uses_keep_token() {
        let uses = Arc::new(TokenUses::default());
        assert!(!uses.enter("a").leave());
        let (dropped, other) = (uses.enter("a"), uses.enter("b"));
        dropped.was_last();
        drop(dropped);
        assert!(!uses.is_running("a") && uses.is_running("b"));
        assert!(!other.leave(), "requests of another token do not count");
    }
}

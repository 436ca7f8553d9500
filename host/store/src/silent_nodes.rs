//! The nodes whose claims have ended without a renewal, as one process sees them.
//!
//! This file prevents the end of the claims of healthy nodes: after an outage, all claims have
//! ended by the clock of the database, and a clock that is set ahead has the same effect. A node
//! counts as dead only if this process has seen its ended claim unchanged for a while, by the clock
//! of this machine, in reads without an interruption. A node that reaches the database renews its
//! claim within this time.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::foreign_changes::ExpiredClaim;

/// Time between two reads after which the nodes are watched anew.
const INTERRUPTION: Duration = Duration::from_secs(1);

/// The ended claims that were seen, with the moment of the first look. Moments are readings of the
/// steady clock, in milliseconds.
#[derive(Default)]
pub(crate) struct SilentNodes {
    seen: BTreeMap<ExpiredClaim, u64>,
    last: u64,
}

impl SilentNodes {
    /// Records the ended claims of a read that began at `now`. Returns the claims that have been
    /// unchanged for `silence`.
    pub(crate) fn note(
        &mut self,
        expired: &[ExpiredClaim],
        (now, silence): (u64, Duration),
    ) -> Vec<ExpiredClaim> {
        if time_since(self.last, now) >= INTERRUPTION {
            self.seen.clear();
        }
        self.last = now;
        self.seen.retain(|claim, _| expired.contains(claim));
        let mut silent = Vec::new();
        for claim in expired {
            let first = *self.seen.entry(claim.clone()).or_insert(now);
            if time_since(first, now) >= silence {
                silent.push(claim.clone());
            }
        }
        silent
    }
}

fn time_since(moment: u64, now: u64) -> Duration {
    Duration::from_millis(now.saturating_sub(moment))
}

#[cfg(test)]
mod tests;

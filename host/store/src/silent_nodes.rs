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
mod tests {
    use super::*;

    const SILENCE: Duration = Duration::from_secs(4);

    fn claim(node: &str, until: &str) -> ExpiredClaim {
        ExpiredClaim { node: node.to_owned(), until: until.to_owned() }
    }

    #[test]
    fn unchanged_claim_is_silent_after_uninterrupted_looks() {
        let (mut nodes, dead) = (SilentNodes::default(), [claim("b", "1")]);
        for now in (10_000..14_000).step_by(500) {
            assert_eq!(nodes.note(&dead, (now, SILENCE)), []);
        }
        assert_eq!(nodes.note(&dead, (14_000, SILENCE)), dead);
    }

    #[test]
    fn renewal_and_interruption_begin_the_watch_anew() {
        let (mut nodes, ended) = (SilentNodes::default(), [claim("b", "1")]);
        let mut look = |expired: &[ExpiredClaim], moments: std::ops::Range<u64>| {
            let looks = moments.step_by(500).map(|now| nodes.note(expired, (now, SILENCE)));
            looks.flatten().count()
        };
        assert_eq!(look(&ended, 10_000..13_500), 0);
        assert_eq!(look(&[], 13_500..14_000), 0, "the claim was renewed");
        assert_eq!(look(&ended, 14_000..18_000), 0);
        assert_eq!(look(&[claim("b", "2")], 18_000..22_000), 0, "renewed, and ended again");
        // The database did not answer.
        assert_eq!(look(&ended, 30_000..34_000), 0);
        assert_eq!(look(&ended, 34_000..34_500), 1);
    }
}

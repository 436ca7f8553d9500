//! Back-off after failed attempts: a single rule for leases, reservations, timers and guards.
//!
//! This file prevents a thundering herd: without it, a target that returns after an outage fails
//! again under all the work that waited. Pauses grow up to a maximum and are spread at random.

use super::lanes::is_silence;
use crate::random;
use bulkhead_wire::failure::{Failure, FailureKind};

/// Milliseconds after a call's deadline until its reservations are undone and its guards become
/// due, even if the call's end was not observed.
pub const CALL_GRACE: u64 = 60_000;
/// First pause after a transient failure, in milliseconds; doubles with each attempt. Also the
/// constant pause after a conflict in our own store.
pub const FIRST_PAUSE: u64 = 1_000;
/// First pause after a refusal, in milliseconds; doubles with each attempt. Six attempts span five
/// minutes, in which an operator may fix the cause.
const FIRST_REFUSED: u64 = 10_000;
/// Maximum calculated pause before it is spread, in milliseconds.
const MAX_PAUSE: u64 = 600_000;
/// Maximum pause after a missing answer, in milliseconds. The pause can be short because the lane
/// protects its target, and short pauses let all work resume soon after the target returns.
const LONGEST_UNANSWERED: u64 = 60_000;
/// Minimum pause that a failure may request, in milliseconds. Immediate retries, each storing
/// something, would write without end.
const SHORTEST_ASKED: u64 = 1_000;
/// Maximum pause that a failure may request, in milliseconds. A target's answer must not postpone
/// due work for ever.
const LONGEST_ASKED: u64 = 86_400_000;
/// Spread of a pause: two fifths of the pause, from 20 % less to 20 % more.
const PAUSE_SPREAD: (u64, u64) = (2, 5);

/// Returns whether the same attempt may succeed later without any change.
pub fn may_pass(kind: FailureKind) -> bool {
    matches!(
        kind,
        FailureKind::Unreachable
            | FailureKind::TimedOut
            | FailureKind::Conflict
            | FailureKind::Unavailable
            | FailureKind::RateLimited
    )
}

/// Returns the milliseconds until the next attempt, after `attempts` failed attempts, the last of
/// them with `failure`.
pub fn backoff_pause(failure: &Failure, attempts: u32) -> u64 {
    // Without randomness, the pause is not spread.
    let dice = random::bytes::<1>().map_or(u8::MAX / 2, |[dice]| dice);
    spread_pause(failure, attempts, dice)
}

/// Returns the pause, spread by `dice`; 0 gives the shortest pause.
fn spread_pause(failure: &Failure, attempts: u32, dice: u8) -> u64 {
    if let Some(pause) = failure.retry_after {
        // Never shorter than requested.
        let pause = pause.clamp(SHORTEST_ASKED, LONGEST_ASKED);
        return pause.saturating_add(part_of(pause, dice));
    }
    let first = if may_pass(failure.kind) { FIRST_PAUSE } else { FIRST_REFUSED };
    let longest = if is_silence(failure) { LONGEST_UNANSWERED } else { MAX_PAUSE };
    let grown = first.saturating_mul(1 << attempts.saturating_sub(1).min(16)).min(longest);
    grown.saturating_sub(part_of(grown, u8::MAX) / 2).saturating_add(part_of(grown, dice))
}

/// Returns `dice` / 255 of the spread of `pause`.
fn part_of(pause: u64, dice: u8) -> u64 {
    let (part, divisor) = PAUSE_SPREAD;
    pause.saturating_mul(part).saturating_mul(u64::from(dice)) / (divisor * u64::from(u8::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(kind: FailureKind) -> Failure {
        Failure::new(kind, "")
    }

    /// The shortest and the longest pause.
    fn range(kind: FailureKind, attempts: u32) -> (u64, u64) {
        (spread_pause(&failure(kind), attempts, 0), spread_pause(&failure(kind), attempts, u8::MAX))
    }

    #[test]
    fn refusal_retry_pause_exceeds_transient_failure_pause() {
        for kind in [
            FailureKind::Unreachable,
            FailureKind::TimedOut,
            FailureKind::Conflict,
            FailureKind::Unavailable,
            FailureKind::RateLimited,
        ] {
            assert_eq!(range(kind, 1), (800, 1_200), "{kind:?}");
        }
        for kind in [
            FailureKind::InvalidRequest,
            FailureKind::PermissionDenied,
            FailureKind::NotFound,
            FailureKind::Internal,
        ] {
            assert_eq!(range(kind, 1), (8_000, 12_000), "{kind:?}");
        }
    }

    #[test]
    fn pauses_double_and_are_capped() {
        assert_eq!(range(FailureKind::Unreachable, 4), (6_400, 9_600));
        assert_eq!(range(FailureKind::InvalidRequest, 6), (256_000, 384_000));
        for attempts in [11, 17, 64, 65, u32::MAX] {
            assert_eq!(range(FailureKind::Conflict, attempts), (480_000, 720_000), "{attempts}");
            assert_eq!(range(FailureKind::Unreachable, attempts), (48_000, 72_000), "{attempts}");
        }
        assert_eq!(
            range(FailureKind::Unreachable, 0),
            (800, 1_200),
            "no attempt counts as the first"
        );
    }

    #[test]
    fn a_requested_pause_is_never_shortened() {
        let rate_limited = |retry_after| Failure {
            retry_after: Some(retry_after),
            ..failure(FailureKind::RateLimited)
        };
        assert_eq!(spread_pause(&rate_limited(30_000), 9, 0), 30_000);
        assert_eq!(spread_pause(&rate_limited(30_000), 9, u8::MAX), 42_000);
        assert_eq!(spread_pause(&rate_limited(0), 1, 0), SHORTEST_ASKED);
        assert_eq!(spread_pause(&rate_limited(u64::MAX), 1, 0), LONGEST_ASKED);
    }

    #[test]
    fn retries_after_common_failure_are_spread_over_time() {
        let ends: std::collections::BTreeSet<u64> =
            (0..1_000).map(|_| backoff_pause(&failure(FailureKind::Unreachable), 1)).collect();
        assert!(ends.len() > 100, "{} different pauses", ends.len());
        assert!(ends.iter().all(|end| (800..=1_200).contains(end)), "{ends:?}");
    }

    #[test]
    fn transient_failures_are_retried_without_end() {
        assert!(
            may_pass(FailureKind::Unreachable)
                && may_pass(FailureKind::Conflict)
                && may_pass(FailureKind::TimedOut)
        );
        assert!(
            !may_pass(FailureKind::InvalidRequest)
                && !may_pass(FailureKind::NotFound)
                && !may_pass(FailureKind::Internal)
        );
    }
}

//! When a failed attempt is made again: one rule for leases, reservations, timers and guards.
//!
//! The fault this file stops: a target that comes back after an outage and is knocked over by all
//! the work that waited for it. Pauses grow, end somewhere, and differ from one waiter to the next.

use super::lanes::is_silence;
use crate::random;
use bulkhead_wire::failure::{Failure, Kind};

/// Milliseconds after its call's deadline at which what a call wrote down is taken up in any case:
/// reservations are undone, guards ring.
pub(crate) const GRACE: u64 = 60_000;
/// First pause after what may pass by itself, in milliseconds; doubles. The only one after a race
/// for records of our own store was lost.
pub(crate) const FIRST: u64 = 1_000;
/// First pause after a refusal; doubles. Six attempts span five minutes, in which an operator may
/// mend what was wrong.
const FIRST_REFUSED: u64 = 10_000;
/// Longest pause that grows by itself, before it is spread.
const LONGEST: u64 = 600_000;
/// The same after no answer: the lane keeps what waits from crowding its target, so that each may
/// come back soon after that did.
const LONGEST_UNANSWERED: u64 = 60_000;
/// Shortest pause, even if less was asked: what fails and is tried again at once, and stores
/// something each time, would write without end.
const SHORTEST_ASKED: u64 = 1_000;
/// Longest pause that a failure may ask for: what is due must not be put off for ever by a target's
/// answer.
const LONGEST_ASKED: u64 = 86_400_000;
/// A pause is spread over two fifths of itself: 20 % less to 20 % more.
const SPREAD: (u64, u64) = (2, 5);

/// May the same attempt succeed later, without any change?
pub(crate) fn may_pass(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Unreachable | Kind::TimedOut | Kind::Conflict | Kind::Unavailable | Kind::RateLimited
    )
}

/// Milliseconds until the next attempt, after `attempts` that failed, the last one with `failure`.
pub(crate) fn pause(failure: &Failure, attempts: u32) -> u64 {
    // A machine without randomness to give spreads nothing; it still waits.
    let dice = random::bytes::<1>().map_or(u8::MAX / 2, |[dice]| dice);
    spread_pause(failure, attempts, dice)
}

/// The pause, put into its range by `dice`: 0 is its earliest end.
fn spread_pause(failure: &Failure, attempts: u32, dice: u8) -> u64 {
    if let Some(asked) = failure.retry_after {
        // Never earlier than was asked.
        let asked = asked.clamp(SHORTEST_ASKED, LONGEST_ASKED);
        return asked.saturating_add(part_of(asked, dice));
    }
    let first = if may_pass(failure.kind) { FIRST } else { FIRST_REFUSED };
    let longest = if is_silence(failure) { LONGEST_UNANSWERED } else { LONGEST };
    let grown = first.saturating_mul(1 << attempts.saturating_sub(1).min(16)).min(longest);
    grown.saturating_sub(part_of(grown, u8::MAX) / 2).saturating_add(part_of(grown, dice))
}

/// `dice` of 255 parts of the spread of `pause`.
fn part_of(pause: u64, dice: u8) -> u64 {
    let (part, whole) = SPREAD;
    pause.saturating_mul(part).saturating_mul(u64::from(dice)) / (whole * u64::from(u8::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(kind: Kind) -> Failure {
        Failure::new(kind, "")
    }

    /// Earliest and latest end of the pause.
    fn range(kind: Kind, attempts: u32) -> (u64, u64) {
        (spread_pause(&failure(kind), attempts, 0), spread_pause(&failure(kind), attempts, u8::MAX))
    }

    #[test]
    fn what_may_pass_is_tried_after_a_second_and_a_refusal_after_ten() {
        for kind in [
            Kind::Unreachable,
            Kind::TimedOut,
            Kind::Conflict,
            Kind::Unavailable,
            Kind::RateLimited,
        ] {
            assert_eq!(range(kind, 1), (800, 1_200), "{kind:?}");
        }
        for kind in [Kind::InvalidRequest, Kind::PermissionDenied, Kind::NotFound, Kind::Internal] {
            assert_eq!(range(kind, 1), (8_000, 12_000), "{kind:?}");
        }
    }

    #[test]
    fn pauses_double_and_are_capped() {
        assert_eq!(range(Kind::Unreachable, 4), (6_400, 9_600));
        assert_eq!(range(Kind::InvalidRequest, 6), (256_000, 384_000));
        for attempts in [11, 17, 64, 65, u32::MAX] {
            assert_eq!(range(Kind::Conflict, attempts), (480_000, 720_000), "{attempts}");
            assert_eq!(range(Kind::Unreachable, attempts), (48_000, 72_000), "{attempts}");
        }
        assert_eq!(range(Kind::Unreachable, 0), (800, 1_200), "no attempt counts as the first");
    }

    #[test]
    fn what_was_asked_is_waited_for_and_never_cut_short() {
        let asked =
            |retry_after| Failure { retry_after: Some(retry_after), ..failure(Kind::RateLimited) };
        assert_eq!(spread_pause(&asked(30_000), 9, 0), 30_000);
        assert_eq!(spread_pause(&asked(30_000), 9, u8::MAX), 42_000);
        assert_eq!(spread_pause(&asked(0), 1, 0), SHORTEST_ASKED);
        assert_eq!(spread_pause(&asked(u64::MAX), 1, 0), LONGEST_ASKED);
    }

    #[test]
    fn thousands_that_failed_together_do_not_come_back_together() {
        let ends: std::collections::BTreeSet<u64> =
            (0..1_000).map(|_| pause(&failure(Kind::Unreachable), 1)).collect();
        assert!(ends.len() > 100, "{} different pauses", ends.len());
        assert!(ends.iter().all(|end| (800..=1_200).contains(end)), "{ends:?}");
    }

    #[test]
    fn only_what_may_pass_by_itself_is_tried_for_ever() {
        assert!(
            may_pass(Kind::Unreachable) && may_pass(Kind::Conflict) && may_pass(Kind::TimedOut)
        );
        assert!(
            !may_pass(Kind::InvalidRequest)
                && !may_pass(Kind::NotFound)
                && !may_pass(Kind::Internal)
        );
    }
}

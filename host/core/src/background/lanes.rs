//! How lanes fare: how much of each may run at once, and whether what it reaches answers.
//!
//! The attack this file stops: a target that is down or hangs, at which all that waits for it is
//! tried again and again, so that it keeps workers from others, and so that each thing pauses
//! longer and longer and most of them still pause when the target is back. After some attempts in a
//! row that were not answered a lane rests; then one attempt at a time asks whether its target is
//! back, and the first answer opens it for all that wait. And a component that names lanes without
//! end: it fills what is remembered of its own mount, and no back-off of another is forgotten.
//!
//! It lives in memory: after a start each lane is as if nothing had been said of it.

use super::lane_order::mount_of;
use bulkhead_wire::failure::{Failure, Kind};
use bulkhead_wire::sync;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// Places of a lane of which nothing was said, and of one that has not answered since.
pub(super) const PLACES: usize = 4;
/// Most places of a lane: one that hangs must leave its mount a part of the share for others.
const MOST_PLACES: usize = 16;
/// Attempts in a row without an answer, after which a lane rests.
const PATIENCE: u32 = 3;
/// First rest; doubles with each attempt that is not answered either.
const FIRST_REST: Duration = Duration::from_secs(1);
/// Longest rest: so long after its return a target is asked at the latest.
const LONGEST_REST: Duration = Duration::from_secs(30);
/// Lanes of one mount of which anything is remembered.
const MOST_LANES: usize = 1_024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Lane {
    /// Places that its component said it may have.
    most: usize,
    /// Places that it has, more with each answer.
    open: usize,
    /// Attempts in a row without an answer, of those that ran side by side one.
    unanswered: u32,
    rests_until: Option<Instant>,
}

impl Default for Lane {
    fn default() -> Self {
        Self { most: PLACES, open: PLACES, unanswered: 0, rests_until: None }
    }
}

impl Lane {
    fn rest(&self, now: Instant) -> Option<Duration> {
        self.rests_until.filter(|until| *until > now).map(|until| until - now)
    }

    fn is_down(&self) -> bool {
        self.unanswered >= PATIENCE
    }

    /// Returns `true` if the last attempt was not answered.
    fn backs_off(&self) -> bool {
        self.unanswered > 0
    }
}

/// All lanes of which anything is known, by mount.
#[derive(Default)]
pub(super) struct Lanes {
    known: Mutex<BTreeMap<String, OfMount>>,
}

/// The lanes of one mount.
#[derive(Default)]
struct OfMount {
    /// By name, each with the number of its last change.
    lanes: BTreeMap<String, (Lane, u64)>,
    changes: u64,
}

impl OfMount {
    fn find(&self, name: &str) -> Lane {
        self.lanes.get(name).map(|(lane, _)| *lane).unwrap_or_default()
    }

    /// Stores the state of a lane. A full mount forgets the lane with the oldest change, lanes that
    /// back off last. If all of them back off, the state of a lane that does not is dropped.
    fn keep(&mut self, name: &str, lane: Lane) {
        if lane == Lane::default() {
            self.lanes.remove(name);
            return;
        }
        if self.lanes.len() >= MOST_LANES && !self.lanes.contains_key(name) {
            let first = self.lanes.iter().min_by_key(|(_, (it, at))| (it.backs_off(), *at));
            let Some((first, (forgotten, _))) = first else { return };
            if forgotten.backs_off() && !lane.backs_off() {
                return;
            }
            let first = first.clone();
            self.lanes.remove(&first);
        }
        self.changes += 1;
        self.lanes.insert(name.to_owned(), (lane, self.changes));
    }
}

/// Whether the failure says that the target gave no answer. What says itself when to come again has
/// answered.
pub(crate) fn is_silence(failure: &Failure) -> bool {
    matches!(failure.kind, Kind::Unreachable | Kind::TimedOut) && failure.retry_after.is_none()
}

/// Whether the failure is an answer of the target, or of the component, and not of what stands
/// before them.
pub(crate) fn is_answer(failure: &Failure) -> bool {
    !is_silence(failure)
        && !matches!(failure.kind, Kind::Conflict | Kind::Unavailable | Kind::Internal)
}

impl Lanes {
    /// Lets so much of the lane run at once as long as its target answers, within 1 and 16.
    pub(super) fn widen(&self, lane: &str, places: usize) {
        self.change(lane, |lane| lane.most = places.clamp(1, MOST_PLACES));
    }

    /// How much of the lane may run at once now.
    pub(super) fn places(&self, lane: &str, now: Instant) -> usize {
        let lane = self.find(lane);
        match (lane.rest(now), lane.is_down()) {
            (Some(_), _) => 0,
            (None, true) => 1,
            (None, false) => lane.open.min(lane.most),
        }
    }

    /// For how long a lane still rests whose target does not answer: zero while it is being asked.
    pub(super) fn rest(&self, lane: &str, now: Instant) -> Option<Duration> {
        let lane = self.find(lane);
        lane.is_down().then(|| lane.rest(now).unwrap_or_default())
    }

    /// Lets one attempt ask now whether the target is back. `true` where the lane rested.
    pub(super) fn ask_again(&self, lane: &str) -> bool {
        self.change(lane, |lane| lane.rests_until.take().is_some())
    }

    /// When the first of the lanes that rest has rested.
    pub(super) fn next_end(&self, now: Instant) -> Option<Duration> {
        let known = sync::lock(&self.known);
        let lanes = known.values().flat_map(|of_mount| of_mount.lanes.values());
        lanes.filter_map(|(lane, _)| lane.rest(now)).min()
    }

    /// The target answered, with a refusal too. `true` where the lane was down.
    pub(super) fn answered(&self, lane: &str) -> bool {
        self.change(lane, |lane| {
            let was_down = lane.is_down();
            let open = lane.open.saturating_add(1).min(lane.most.max(PLACES));
            *lane = Lane { open, unanswered: 0, rests_until: None, ..*lane };
            was_down
        })
    }

    /// The target did not answer. The rest that begins with it, if one does.
    pub(super) fn unanswered(&self, lane: &str, now: Instant) -> Option<Duration> {
        self.change(lane, |lane| {
            if lane.rest(now).is_some() {
                return None;
            }
            lane.open = PLACES;
            lane.unanswered = lane.unanswered.saturating_add(1);
            let beyond = lane.unanswered.checked_sub(PATIENCE)?;
            let rest = FIRST_REST.saturating_mul(1 << beyond.min(16)).min(LONGEST_REST);
            lane.rests_until = Some(now + rest);
            Some(rest)
        })
    }

    /// Forgets the lanes of a removed mount.
    pub(super) fn forget(&self, mount: &str) {
        sync::lock(&self.known).remove(mount);
    }

    fn find(&self, name: &str) -> Lane {
        let known = sync::lock(&self.known);
        known.get(mount_of(name)).map(|of_mount| of_mount.find(name)).unwrap_or_default()
    }

    fn change<T>(&self, name: &str, change: impl FnOnce(&mut Lane) -> T) -> T {
        let mut known = sync::lock(&self.known);
        let of_mount = known.entry(mount_of(name).to_owned()).or_default();
        let mut lane = of_mount.find(name);
        let changed = change(&mut lane);
        of_mount.keep(name, lane);
        if of_mount.lanes.is_empty() {
            known.remove(mount_of(name));
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::super::backoff;
    use super::*;

    const LANE: &str = "mount/orders";

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_lane_is_as_wide_as_its_target_allows_and_grows_with_its_answers() {
        let (lanes, now) = (Lanes::default(), Instant::now());
        assert_eq!(lanes.places(LANE, now), PLACES);
        lanes.widen(LANE, 7);
        assert_eq!(lanes.places(LANE, now), PLACES, "nothing was heard of its target yet");
        for _ in 0..9 {
            lanes.answered(LANE);
        }
        assert_eq!(lanes.places(LANE, now), 7);
        assert_eq!(lanes.unanswered(LANE, now), None);
        assert_eq!(lanes.places(LANE, now), PLACES, "until it is heard of again");
        lanes.widen(LANE, 1);
        assert_eq!(lanes.places(LANE, now), 1);
        lanes.widen(LANE, usize::MAX);
        for _ in 0..99 {
            lanes.answered(LANE);
        }
        assert_eq!(lanes.places(LANE, now), MOST_PLACES);
        lanes.widen(LANE, 0);
        assert_eq!(lanes.places(LANE, now), 1);
    }

    #[test]
    fn a_target_that_does_not_answer_is_asked_by_one_at_a_time_and_ever_more_seldom() {
        let (lanes, mut now) = (Lanes::default(), Instant::now());
        assert_eq!([1, 2].map(|_| lanes.unanswered(LANE, now)), [None, None]);
        assert_eq!((lanes.places(LANE, now), lanes.rest(LANE, now)), (PLACES, None));
        for rest in [1, 2, 4, 8, 16, 30, 30] {
            assert_eq!(lanes.unanswered(LANE, now), Some(seconds(rest)));
            assert_eq!(lanes.unanswered(LANE, now), None, "what ran beside it says nothing more");
            assert_eq!((lanes.places(LANE, now), lanes.next_end(now)), (0, Some(seconds(rest))));
            assert_eq!(lanes.rest(LANE, now), Some(seconds(rest)));
            now += seconds(rest);
            assert_eq!((lanes.places(LANE, now), lanes.next_end(now)), (1, None));
            assert_eq!(lanes.rest(LANE, now), Some(Duration::ZERO), "it is being asked");
        }
        assert_eq!(lanes.places("mount/another", now), PLACES);
        assert_eq!(lanes.unanswered(LANE, now), Some(seconds(30)));
        assert!(lanes.ask_again(LANE), "a caller asks");
        assert_eq!(lanes.places(LANE, now), 1);
        assert!(!lanes.ask_again(LANE));
        assert!(lanes.answered(LANE), "it was down");
        assert_eq!((lanes.places(LANE, now), lanes.rest(LANE, now)), (PLACES, None));
        assert!(!lanes.answered(LANE));
    }

    #[test]
    fn after_an_outage_of_ten_minutes_each_of_many_leases_is_tried_within_a_minute_and_a_half() {
        const OUTAGE: Duration = Duration::from_secs(600);
        const WAITING: usize = 50;
        let (lanes, began) = (Lanes::default(), Instant::now());
        let (mut now, mut attempts) = (began, 0);
        let mut due = [(began, 0_u32); WAITING];
        let silent = Failure::new(Kind::Unreachable, "it is away");
        while now < began + OUTAGE {
            for (at, tried) in &mut due {
                if *at <= now && lanes.places(LANE, now) > 0 {
                    lanes.unanswered(LANE, now);
                    *tried += 1;
                    attempts += 1;
                    *at = now + Duration::from_millis(backoff::pause(&silent, *tried));
                }
            }
            now += seconds(1);
        }
        assert!((20..40).contains(&attempts), "{attempts} in ten minutes");
        let rest = lanes.rest(LANE, now).unwrap();
        assert!(rest <= LONGEST_REST, "{rest:?}");
        let latest = due.iter().map(|(at, _)| *at).max().unwrap();
        assert!(latest <= now + seconds(90), "{:?}", latest - now);
    }

    #[test]
    fn only_a_target_without_an_answer_is_silent() {
        let failure = |kind| Failure::new(kind, "");
        for silent in [Kind::Unreachable, Kind::TimedOut] {
            assert!(is_silence(&failure(silent)) && !is_answer(&failure(silent)), "{silent:?}");
        }
        let later = Failure { retry_after: Some(1), ..failure(Kind::Unreachable) };
        assert!(!is_silence(&later) && is_answer(&later));
        for answer in [Kind::InvalidRequest, Kind::PermissionDenied, Kind::RateLimited] {
            assert!(is_answer(&failure(answer)), "{answer:?}");
        }
        for neither in [Kind::Conflict, Kind::Unavailable, Kind::Internal] {
            assert!(!is_silence(&failure(neither)) && !is_answer(&failure(neither)));
        }
    }

    fn count(lanes: &Lanes, mount: &str) -> usize {
        sync::lock(&lanes.known).get(mount).map_or(0, |of_mount| of_mount.lanes.len())
    }

    /// Returns `true` if the lane rests.
    fn rests(lanes: &Lanes, lane: &str) -> bool {
        lanes.rest(lane, Instant::now()).is_some()
    }

    fn silence(lanes: &Lanes, lane: &str) {
        (0..PATIENCE).for_each(|_| _ = lanes.unanswered(lane, Instant::now()));
    }

    #[test]
    fn lanes_that_a_mount_names_without_end_end_no_rest_of_another_mount_nor_of_its_own() {
        let lanes = Lanes::default();
        silence(&lanes, "other/down");
        silence(&lanes, LANE);
        (0..20 * MOST_LANES).for_each(|lane| lanes.widen(&format!("mount/{lane}"), 9));
        assert_eq!((count(&lanes, "mount"), count(&lanes, "other")), (MOST_LANES, 1));
        assert!(rests(&lanes, "other/down") && rests(&lanes, LANE));
        (0..MOST_LANES).for_each(|lane| silence(&lanes, &format!("mount/down {lane}")));
        lanes.widen("mount/wide", 9);
        assert_eq!((count(&lanes, "mount"), count(&lanes, "other")), (MOST_LANES, 1));
        assert!(!rests(&lanes, LANE), "the one that was silent longest ago");
        assert!(rests(&lanes, "other/down") && rests(&lanes, "mount/down 0"));
    }

    #[test]
    fn a_lane_as_it_was_and_those_of_a_mount_that_is_gone_are_forgotten() {
        let lanes = Lanes::default();
        lanes.unanswered(LANE, Instant::now());
        lanes.answered(LANE);
        assert!(sync::lock(&lanes.known).is_empty());
        silence(&lanes, LANE);
        lanes.forget("mount");
        assert!(sync::lock(&lanes.known).is_empty());
    }
}

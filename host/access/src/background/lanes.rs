//! State of lanes: the allowed concurrency of each lane, and whether its target answers.
//!
//! This file prevents repeated attempts at a dead or hanging target from occupying workers, and
//! from growing the pause of every waiting row so far that most still wait when the target is back.
//! After several unanswered attempts in a row a lane rests. Then a single attempt at a time probes
//! the target, and the first answer opens the lane for all waiting work.
//!
//! This file also prevents a component that names endless lanes from evicting the state of other
//! mounts: the memory of each mount is bounded separately, and lanes that back off are forgotten
//! last.
//!
//! The state lives in memory only; after a start every lane has the default state.
//!
//! Example. A thousand leases of the connection `orders` end in the same minute, each from
//! `GET /v1/database/creds/app`. The index of each row has the lane `<mount uuid>/orders`.
//! `Lanes::concurrency_limit` lets four revocations run at a time. With `max_open_connections` 10,
//! the component widens the lane (`clock.widen`), and each answer adds a place, up to 10.
//! PostgreSQL stops answering. After three unanswered revocations in a row, `Lanes::note_silence`
//! lets the lane rest for 1 s: the limit is 0, and afterwards 1, for a single probe. Each further
//! silence doubles the rest, up to 30 s. Leases of other connections and mounts end meanwhile,
//! because each lane has places of its own. The first answer to a probe, even a refusal, opens the
//! lane for the waiting revocations (`Lanes::note_answer`).

use super::lane_order::mount_of;
use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::sync;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// Default concurrency of a lane, and the concurrency after a missing answer.
pub(super) const DEFAULT_CONCURRENCY: usize = 4;
/// Maximum concurrency of a lane. A hanging lane must leave a part of the mount's share to other
/// lanes.
const MAX_CONCURRENCY: usize = 16;
/// Number of unanswered attempts in a row after which a lane rests.
const MAX_SILENT_ATTEMPTS: u32 = 3;
/// First rest; doubles with each further unanswered attempt.
const FIRST_REST: Duration = Duration::from_secs(1);
/// Maximum rest, and so the maximum delay until the first probe of a returned target.
const MAX_REST: Duration = Duration::from_secs(30);
/// Maximum number of lanes of a mount with remembered state.
const MAX_LANES: usize = 1_024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Lane {
    /// Maximum concurrency that the component set.
    most: usize,
    /// Present concurrency, which grows with each answer.
    open: usize,
    /// Number of unanswered attempts in a row. Concurrent attempts may count only once.
    unanswered: u32,
    rests_until: Option<Instant>,
}

impl Default for Lane {
    fn default() -> Self {
        Self {
            most: DEFAULT_CONCURRENCY,
            open: DEFAULT_CONCURRENCY,
            unanswered: 0,
            rests_until: None,
        }
    }
}

impl Lane {
    fn rest(&self, now: Instant) -> Option<Duration> {
        self.rests_until.filter(|until| *until > now).map(|until| until - now)
    }

    fn is_down(&self) -> bool {
        self.unanswered >= MAX_SILENT_ATTEMPTS
    }

    /// Returns `true` if the last attempt was not answered.
    fn backs_off(&self) -> bool {
        self.unanswered > 0
    }
}

/// All lanes with remembered state, by mount.
#[derive(Default)]
pub(super) struct Lanes {
    known: Mutex<BTreeMap<String, MountLanes>>,
}

/// The lanes of a mount.
#[derive(Default)]
struct MountLanes {
    /// Lanes by name, each with its state and the number of its last change.
    lanes: BTreeMap<String, (Lane, u64)>,
    changes: u64,
}

impl MountLanes {
    fn find(&self, name: &str) -> Lane {
        self.lanes.get(name).map(|(lane, _)| *lane).unwrap_or_default()
    }

    /// Stores the state of a lane. A full mount forgets the lane with the oldest change, lanes that
    /// back off last. If all lanes back off, the state of a lane that does not back off is dropped.
    fn keep(&mut self, name: &str, lane: Lane) {
        if lane == Lane::default() {
            self.lanes.remove(name);
            return;
        }
        if self.lanes.len() >= MAX_LANES && !self.lanes.contains_key(name) {
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

/// Returns whether the failure means that the target gave no answer. A failure with its own retry
/// time is an answer.
pub fn is_silence(failure: &Failure) -> bool {
    matches!(failure.kind, FailureKind::Unreachable | FailureKind::TimedOut)
        && failure.retry_after.is_none()
}

/// Returns whether the failure is an answer of the target or the component, not of the layers in
/// front.
pub fn is_answer(failure: &Failure) -> bool {
    !is_silence(failure)
        && !matches!(
            failure.kind,
            FailureKind::Conflict | FailureKind::Unavailable | FailureKind::Internal
        )
}

impl Lanes {
    /// Sets the maximum concurrency of a lane, clamped to 1 to 16.
    pub(super) fn set_concurrency(&self, lane: &str, places: usize) {
        self.change(lane, |lane| lane.most = places.clamp(1, MAX_CONCURRENCY));
    }

    /// Returns the present concurrency limit of the lane.
    pub(super) fn concurrency_limit(&self, lane: &str, now: Instant) -> usize {
        let lane = self.find(lane);
        match (lane.rest(now), lane.is_down()) {
            (Some(_), _) => 0,
            (None, true) => 1,
            (None, false) => lane.open.min(lane.most),
        }
    }

    /// Returns the remaining rest of a lane whose target does not answer; zero while an attempt
    /// probes the target.
    pub(super) fn rest(&self, lane: &str, now: Instant) -> Option<Duration> {
        let lane = self.find(lane);
        lane.is_down().then(|| lane.rest(now).unwrap_or_default())
    }

    /// Allows an attempt to probe the target now. Returns `true` if a rest was set.
    pub(super) fn ask_again(&self, lane: &str) -> bool {
        self.change(lane, |lane| lane.rests_until.take().is_some())
    }

    /// Returns the time until the first resting lane has rested.
    pub(super) fn next_end(&self, now: Instant) -> Option<Duration> {
        let mounts = sync::lock(&self.known);
        let lanes = mounts.values().flat_map(|of_mount| of_mount.lanes.values());
        lanes.filter_map(|(lane, _)| lane.rest(now)).min()
    }

    /// Notes an answer of the target; a refusal is an answer. Returns `true` if the lane was down.
    pub(super) fn note_answer(&self, lane: &str) -> bool {
        self.change(lane, |lane| {
            let was_down = lane.is_down();
            let open = lane.open.saturating_add(1).min(lane.most.max(DEFAULT_CONCURRENCY));
            *lane = Lane { open, unanswered: 0, rests_until: None, ..*lane };
            was_down
        })
    }

    /// Notes a missing answer. Returns the rest that starts now, if any.
    pub(super) fn note_silence(&self, lane: &str, now: Instant) -> Option<Duration> {
        self.change(lane, |lane| {
            if lane.rest(now).is_some() {
                return None;
            }
            lane.open = DEFAULT_CONCURRENCY;
            lane.unanswered = lane.unanswered.saturating_add(1);
            let beyond = lane.unanswered.checked_sub(MAX_SILENT_ATTEMPTS)?;
            let rest = FIRST_REST.saturating_mul(1 << beyond.min(16)).min(MAX_REST);
            lane.rests_until = Some(now + rest);
            Some(rest)
        })
    }

    /// Returns the number of lanes whose targets do not answer.
    pub(super) fn count_down(&self) -> usize {
        let mounts = sync::lock(&self.known);
        let lanes = mounts.values().flat_map(|of_mount| of_mount.lanes.values());
        lanes.filter(|(lane, _)| lane.is_down()).count()
    }

    /// Forgets the lanes of a removed mount.
    pub(super) fn forget(&self, mount: &str) {
        sync::lock(&self.known).remove(mount);
    }

    fn find(&self, name: &str) -> Lane {
        let mounts = sync::lock(&self.known);
        mounts.get(mount_of(name)).map(|of_mount| of_mount.find(name)).unwrap_or_default()
    }

    fn change<T>(&self, name: &str, change: impl FnOnce(&mut Lane) -> T) -> T {
        let mut mounts = sync::lock(&self.known);
        let of_mount = mounts.entry(mount_of(name).to_owned()).or_default();
        let mut lane = of_mount.find(name);
        let changed = change(&mut lane);
        of_mount.keep(name, lane);
        if of_mount.lanes.is_empty() {
            mounts.remove(mount_of(name));
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
    fn lane_concurrency_grows_with_answers_up_to_target() {
        let (lanes, now) = (Lanes::default(), Instant::now());
        assert_eq!(lanes.concurrency_limit(LANE, now), DEFAULT_CONCURRENCY);
        lanes.set_concurrency(LANE, 7);
        assert_eq!(
            lanes.concurrency_limit(LANE, now),
            DEFAULT_CONCURRENCY,
            "nothing was heard of its target yet"
        );
        for _ in 0..9 {
            lanes.note_answer(LANE);
        }
        assert_eq!(lanes.concurrency_limit(LANE, now), 7);
        assert_eq!(lanes.note_silence(LANE, now), None);
        assert_eq!(
            lanes.concurrency_limit(LANE, now),
            DEFAULT_CONCURRENCY,
            "until it is heard of again"
        );
        lanes.set_concurrency(LANE, 1);
        assert_eq!(lanes.concurrency_limit(LANE, now), 1);
        lanes.set_concurrency(LANE, usize::MAX);
        for _ in 0..99 {
            lanes.note_answer(LANE);
        }
        assert_eq!(lanes.concurrency_limit(LANE, now), MAX_CONCURRENCY);
        lanes.set_concurrency(LANE, 0);
        assert_eq!(lanes.concurrency_limit(LANE, now), 1);
    }

    #[test]
    fn silent_target_is_tried_singly_at_growing_intervals() {
        let (lanes, mut now) = (Lanes::default(), Instant::now());
        assert_eq!([1, 2].map(|_| lanes.note_silence(LANE, now)), [None, None]);
        assert_eq!(
            (lanes.concurrency_limit(LANE, now), lanes.rest(LANE, now)),
            (DEFAULT_CONCURRENCY, None)
        );
        for rest in [1, 2, 4, 8, 16, 30, 30] {
            assert_eq!(lanes.note_silence(LANE, now), Some(seconds(rest)));
            assert_eq!(
                lanes.note_silence(LANE, now),
                None,
                "a second silence at the same time adds no rest"
            );
            assert_eq!(
                (lanes.concurrency_limit(LANE, now), lanes.next_end(now)),
                (0, Some(seconds(rest)))
            );
            assert_eq!(lanes.rest(LANE, now), Some(seconds(rest)));
            now += seconds(rest);
            assert_eq!((lanes.concurrency_limit(LANE, now), lanes.next_end(now)), (1, None));
            assert_eq!(
                lanes.rest(LANE, now),
                Some(Duration::ZERO),
                "the lane has no rest while it is probed"
            );
        }
        assert_eq!(lanes.concurrency_limit("mount/another", now), DEFAULT_CONCURRENCY);
        assert_eq!(lanes.note_silence(LANE, now), Some(seconds(30)));
        assert!(lanes.ask_again(LANE), "a caller asks");
        assert_eq!(lanes.concurrency_limit(LANE, now), 1);
        assert!(!lanes.ask_again(LANE));
        assert!(lanes.note_answer(LANE), "the answer ends the rest of the lane");
        assert_eq!(
            (lanes.concurrency_limit(LANE, now), lanes.rest(LANE, now)),
            (DEFAULT_CONCURRENCY, None)
        );
        assert!(!lanes.note_answer(LANE));
    }

    #[test]
    fn leases_are_tried_within_90_seconds_after_outage() {
        const OUTAGE: Duration = Duration::from_secs(600);
        const WAITING: usize = 50;
        let (lanes, began) = (Lanes::default(), Instant::now());
        let (mut now, mut attempts) = (began, 0);
        let mut due = [(began, 0_u32); WAITING];
        let silent = Failure::new(FailureKind::Unreachable, "it is away");
        while now < began + OUTAGE {
            for (at, tried) in &mut due {
                if *at <= now && lanes.concurrency_limit(LANE, now) > 0 {
                    lanes.note_silence(LANE, now);
                    *tried += 1;
                    attempts += 1;
                    *at = now + Duration::from_millis(backoff::backoff_pause(&silent, *tried));
                }
            }
            now += seconds(1);
        }
        assert!((20..40).contains(&attempts), "{attempts} in ten minutes");
        let rest = lanes.rest(LANE, now).unwrap();
        assert!(rest <= MAX_REST, "{rest:?}");
        let latest = due.iter().map(|(at, _)| *at).max().unwrap();
        assert!(latest <= now + seconds(90), "{:?}", latest - now);
    }

    #[test]
    fn only_a_target_without_an_answer_is_silent() {
        let failure = |kind| Failure::new(kind, "");
        for silent in [FailureKind::Unreachable, FailureKind::TimedOut] {
            assert!(is_silence(&failure(silent)) && !is_answer(&failure(silent)), "{silent:?}");
        }
        let later = Failure { retry_after: Some(1), ..failure(FailureKind::Unreachable) };
        assert!(!is_silence(&later) && is_answer(&later));
        for answer in
            [FailureKind::InvalidRequest, FailureKind::PermissionDenied, FailureKind::RateLimited]
        {
            assert!(is_answer(&failure(answer)), "{answer:?}");
        }
        for neither in [FailureKind::Conflict, FailureKind::Unavailable, FailureKind::Internal] {
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
        (0..MAX_SILENT_ATTEMPTS).for_each(|_| _ = lanes.note_silence(lane, Instant::now()));
    }

    #[test]
    fn excess_lanes_of_mount_evict_no_resting_lane() {
        let lanes = Lanes::default();
        silence(&lanes, "other/down");
        silence(&lanes, LANE);
        (0..20 * MAX_LANES).for_each(|lane| lanes.set_concurrency(&format!("mount/{lane}"), 9));
        assert_eq!((count(&lanes, "mount"), count(&lanes, "other")), (MAX_LANES, 1));
        assert!(rests(&lanes, "other/down") && rests(&lanes, LANE));
        assert_eq!(lanes.count_down(), 2);
        (0..MAX_LANES).for_each(|lane| silence(&lanes, &format!("mount/down {lane}")));
        lanes.set_concurrency("mount/wide", 9);
        assert_eq!((count(&lanes, "mount"), count(&lanes, "other")), (MAX_LANES, 1));
        assert!(!rests(&lanes, LANE), "the one that was silent longest ago");
        assert!(rests(&lanes, "other/down") && rests(&lanes, "mount/down 0"));
    }

    #[test]
    fn answering_lanes_and_removed_mounts_lanes_are_forgotten() {
        let lanes = Lanes::default();
        lanes.note_silence(LANE, Instant::now());
        lanes.note_answer(LANE);
        assert!(sync::lock(&lanes.known).is_empty());
        silence(&lanes, LANE);
        lanes.forget("mount");
        assert!(sync::lock(&lanes.known).is_empty());
    }
}

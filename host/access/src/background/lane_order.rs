//! Round-robin order of due work: the kinds of work, the mounts, and the lanes of each mount.
//!
//! This file prevents starvation of a mount's last lanes. A mount limited to its share gets its
//! claims one by one. With a single ring for the lanes of all mounts, each claim of another mount
//! would send this mount back to its first lanes, and its last lanes would wait until the first
//! lanes are empty. Therefore each mount has its own ring.

use bulkhead_store::Space;
use std::collections::BTreeMap;

/// Maximum number of remembered positions, counted by kind of work and mount. At the maximum, the
/// positions of all mounts are reset.
const MOST_MOUNTS: usize = 4_096;
/// Kinds of work in lanes.
pub(super) const IN_LANES: [Space; 3] = [Space::Lease, Space::Reservation, Space::Timer];
/// A text greater than every lane name.
pub(super) const BEHIND_ALL: &str = "\u{10FFFF}";

/// The next kind, the next mount of each kind, and the next lane of each mount.
#[derive(Default)]
pub(super) struct LaneOrder {
    /// The kind that was served last.
    served: Option<Space>,
    mounts: BTreeMap<Space, String>,
    lanes: BTreeMap<(Space, String), String>,
}

/// A part of a ring: names from `first` (inclusive) to `end` (exclusive).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RingRange {
    pub(super) first: String,
    pub(super) end: String,
}

impl RingRange {
    /// Returns the rest of the part from `name` on; `None` if nothing is left.
    pub(super) fn rest_from(&self, name: String) -> Option<Self> {
        (name < self.end).then(|| Self { first: name.max(self.first.clone()), ..self.clone() })
    }
}

/// Returns the mount of a lane, which is the prefix of the lane's name.
pub(super) fn mount_of(lane: &str) -> &str {
    lane.split('/').next().unwrap_or_default()
}

/// Returns the first name after all lanes of the mount: `0` follows `/` in ASCII.
pub(super) fn end_of_mount(mount: &str) -> String {
    format!("{mount}0")
}

impl LaneOrder {
    /// Returns the kinds, starting after the kind that was served last.
    pub(super) fn kinds(&self, all: &[Space]) -> Vec<Space> {
        let last = self.served.and_then(|served| all.iter().position(|space| *space == served));
        let first = last.map_or(0, |last| last + 1);
        all.iter().cycle().skip(first).take(all.len()).copied().collect()
    }

    /// Returns the lanes of all mounts of a kind, starting with the next mount.
    pub(super) fn of_kind(&self, space: Space) -> Vec<RingRange> {
        ring_from(self.mounts.get(&space), String::new(), BEHIND_ALL.to_owned())
    }

    /// Returns the lanes of a mount, starting with the next lane.
    pub(super) fn of_mount(&self, space: Space, mount: &str) -> Vec<RingRange> {
        let turn = self.lanes.get(&(space, mount.to_owned()));
        ring_from(turn, mount.to_owned(), end_of_mount(mount))
    }

    /// Notes that work of this lane was started. The following lanes are next.
    pub(super) fn lane_began(&mut self, space: Space, lane: &str) {
        if self.lanes.len() >= MOST_MOUNTS {
            self.lanes.clear();
        }
        let mount = mount_of(lane);
        self.lanes.insert((space, mount.to_owned()), format!("{lane}\0"));
        self.mounts.insert(space, end_of_mount(mount));
    }

    /// Notes the first kind of work that a search started. The next search starts with the
    /// following kind.
    pub(super) fn kind_began(&mut self, space: Space) {
        self.served = Some(space);
    }
}

/// Returns the part from `turn` to the end, followed by the part from the start to `turn`.
fn ring_from(turn: Option<&String>, first: String, end: String) -> Vec<RingRange> {
    let Some(turn) = turn.filter(|turn| **turn > first) else {
        return vec![RingRange { first, end }];
    };
    vec![RingRange { first: turn.clone(), end }, RingRange { first, end: turn.clone() }]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(first: &str, end: &str) -> RingRange {
        RingRange { first: first.to_owned(), end: end.to_owned() }
    }

    #[test]
    fn each_mount_resumes_after_own_last_served_lane() {
        let mut order = LaneOrder::default();
        assert_eq!(order.of_kind(Space::Timer), [part("", BEHIND_ALL)]);
        assert_eq!(order.of_mount(Space::Timer, "a"), [part("a", "a0")]);
        order.lane_began(Space::Timer, "a/3");
        order.lane_began(Space::Timer, "b/1");
        assert_eq!(order.of_mount(Space::Timer, "a"), [part("a/3\0", "a0"), part("a", "a/3\0")]);
        assert_eq!(order.of_kind(Space::Timer), [part("b0", BEHIND_ALL), part("", "b0")]);
        assert_eq!(
            order.of_mount(Space::Lease, "a"),
            [part("a", "a0")],
            "each kind of work has its own order"
        );
    }

    #[test]
    fn the_kinds_of_work_take_turns() {
        let all = [Space::Lease, Space::Reservation, Space::Timer];
        let mut order = LaneOrder::default();
        assert_eq!(order.kinds(&all), all);
        order.kind_began(Space::Lease);
        assert_eq!(order.kinds(&all), [Space::Reservation, Space::Timer, Space::Lease]);
        assert_eq!(order.kinds(&all[..2]), [Space::Reservation, Space::Lease]);
        order.kind_began(Space::Timer);
        assert_eq!(order.kinds(&all), all);
    }

    #[test]
    fn lane_order_keeps_lanes_of_one_mount_together() {
        for lane in ["a", "a/", "a/\u{10FFFE}", "a/~"] {
            assert!(part("a", &end_of_mount("a")).rest_from(lane.to_owned()).is_some(), "{lane}");
            assert_eq!(mount_of(lane), "a");
        }
        assert_eq!(part("a", &end_of_mount("a")).rest_from("ab/x".to_owned()), None);
        assert_eq!(part("b", "c").rest_from("a".to_owned()), Some(part("b", "c")));
    }

    #[test]
    fn the_turns_of_many_mounts_are_bounded() {
        let mut order = LaneOrder::default();
        (0..3 * MOST_MOUNTS)
            .for_each(|mount| order.lane_began(Space::Timer, &format!("{mount}/x")));
        assert!(order.lanes.len() <= MOST_MOUNTS);
    }
}

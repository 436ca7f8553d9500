//! Counts of changes below prefixes.

use super::*;

#[test]
fn counts_rise_for_changes_below_prefix() {
    let followed = FollowedKeys::default();
    let (policies, mounts) = (followed.follow("policy/"), followed.follow("mount/"));
    followed.note_changes(&[
        Address::new(Space::Core, "policy/a"),
        Address::new(Space::Core, "policy/b"),
        Address::new(Space::Data, "mount/a"),
    ]);
    assert_eq!((policies.get(), mounts.get()), (1, 0));
    followed.note_gap();
    assert_eq!((followed.follow("policy/").get(), mounts.get()), (2, 1));
}

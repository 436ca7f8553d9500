//! Names that are counted, locked and forgotten.

use super::*;

const M: &str = "mount";
const POLICY: LockoutPolicy =
    LockoutPolicy { threshold: 3, duration: 60, counter_reset: 30, is_disabled: false };

#[test]
fn a_name_is_locked_by_its_failures_in_a_row_for_its_time() {
    let lockouts = Lockouts::default();
    assert!(!lockouts.are_counted(M, 0), "nothing costs a question beforehand");
    let count = |now| lockouts.count(M, "eve", POLICY, now);
    assert_eq!(
        [count(0), count(1), count(2)],
        [Counted::Noted, Counted::Noted, Counted::NowLocked]
    );
    assert!(lockouts.is_locked(M, "eve", 60_001), "for its duration from the last failure");
    assert_eq!(count(3), Counted::WasLocked, "a guess on its way does not make it longer");
    assert_eq!(lockouts.locked(M, 60_001), ["eve"]);
    assert!(!lockouts.is_locked(M, "bob", 3) && !lockouts.is_locked("other", "eve", 3));
    assert!(!lockouts.is_locked(M, "eve", 60_002));
    assert!(!lockouts.are_counted(M, 60_002));
    assert_eq!(count(60_003), Counted::Noted, "it begins anew");
}

#[test]
fn failures_are_forgotten_by_time_by_a_proof_and_by_an_operator() {
    let lockouts = Lockouts::default();
    let count = |now| lockouts.count(M, "eve", POLICY, now);
    assert_eq!([count(0), count(1)], [Counted::Noted; 2]);
    assert_eq!([count(30_001), count(30_002)], [Counted::Noted; 2], "the first two are too old");
    assert!(lockouts.forget(M, "eve"));
    assert_eq!([count(30_003), count(30_004)], [Counted::Noted; 2]);
    assert_eq!(count(30_005), Counted::NowLocked);
    assert!(lockouts.forget(M, "eve") && !lockouts.forget(M, "eve"));
    assert!(!lockouts.is_locked(M, "eve", 30_006));
}

#[test]
fn a_flood_of_names_takes_no_more_memory_and_frees_no_locked_name() {
    let lockouts = Lockouts::default();
    for now in 0..3 {
        lockouts.count(M, "eve", POLICY, now);
    }
    for number in 0..2 * NAMES_MAX as u64 {
        lockouts.count(M, &format!("name-{number}"), POLICY, 10 + number % 100);
    }
    assert_eq!(sync::lock(&lockouts.0)[M].names.len(), NAMES_MAX);
    assert!(lockouts.is_locked(M, "eve", 1_000));
    assert_eq!(lockouts.count(M, &"x".repeat(NAME_BYTES + 1), POLICY, 1), Counted::Noted);
    assert_eq!(sync::lock(&lockouts.0)[M].names.len(), NAMES_MAX);
}

#[test]
fn a_mount_that_locks_no_name_counts_none() {
    let (lockouts, off) = (Lockouts::default(), LockoutPolicy { is_disabled: true, ..POLICY });
    for now in 0..10 {
        assert_eq!(lockouts.count(M, "eve", off, now), Counted::Noted);
    }
    assert!(!lockouts.are_counted(M, 10));
}

#[test]
fn members_change_alone_and_nonsense_names_its_member() {
    let usual = LockoutPolicy::default();
    let changed = usual.changed_by(&json!({"lockout_threshold": "7", "lockout_duration": "1h"}));
    let expected = LockoutPolicy { threshold: 7, duration: 3_600, ..usual };
    assert_eq!(changed, Ok(expected));
    let sent_by_go = json!({"lockout_threshold": "", "lockout_counter_reset_duration": "30s",
        "lockout_disable": true});
    let changed = LockoutPolicy { counter_reset: 30, is_disabled: true, ..usual };
    assert_eq!(usual.changed_by(&sent_by_go), Ok(changed));
    assert_eq!(usual.changed_by(&Value::Object(usual.show())), Ok(usual), "what was read");
    for (given, named) in [
        (json!("5"), "must be an object"),
        (json!({"lockout_threshold": 0}), "lockout_threshold must be 1"),
        (json!({"lockout_threshold": "many"}), "lockout_threshold"),
        (json!({"lockout_duration": "soon"}), "lockout_duration"),
        (json!({"lockout_duration": 0}), "lockout_duration must be 1 second"),
        (json!({"lockout_disable": "perhaps"}), "lockout_disable"),
        (json!({"threshold": 5}), "\"threshold\""),
    ] {
        let why = usual.changed_by(&given).unwrap_err().message;
        assert!(why.contains(named), "{why}");
    }
}

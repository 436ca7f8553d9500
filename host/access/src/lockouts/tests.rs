//! Tests of `lockouts.rs`: counting, locking and forgetting of names.

use super::*;
use serde_json::{Value, json};

const M: &str = "mount";
const POLICY: LockoutPolicy =
    LockoutPolicy { threshold: 3, duration: 60, counter_reset: 30, is_disabled: false };

fn client(number: u64) -> Client {
    let [.., third, last] = number.to_be_bytes();
    Client::of([192, 0, third, last].into())
}

fn of<'a>(name: &'a str, number: u64) -> LoginName<'a> {
    LoginName { mount: M, name, client: client(number) }
}

/// Returns lockouts with a maximum of counters in all, and of a single client.
fn within(all: usize, of_client: usize) -> Lockouts {
    Lockouts::with_bounds(CounterBounds { all, of_client })
}

#[test]
fn consecutive_failures_lock_name_for_lockout_duration() {
    let lockouts = Lockouts::default();
    assert!(!lockouts.is_asked(M, client(1), 0), "nothing costs a question beforehand");
    let count = |now| lockouts.count(of("eve", 1), POLICY, now);
    assert_eq!(
        [count(0), count(1), count(2)],
        [FailureEffect::Noted, FailureEffect::Noted, FailureEffect::NowLocked]
    );
    assert!(lockouts.is_locked(M, "eve", 60_001), "for its duration from the last failure");
    assert_eq!(count(3), FailureEffect::WasLocked, "a guess on its way does not make it longer");
    assert_eq!(lockouts.locked(M, 60_001), ["eve"]);
    assert_eq!((lockouts.count_locked(60_001), lockouts.count_locked(60_002)), (1, 0));
    assert!(!lockouts.is_locked(M, "bob", 3) && !lockouts.is_locked("other", "eve", 3));
    assert!(!lockouts.is_locked(M, "eve", 60_002));
    assert!(!lockouts.is_asked(M, client(1), 60_002));
    assert_eq!(count(60_003), FailureEffect::Noted, "the counter begins again after its reset");
}

#[test]
fn failures_are_forgotten_after_reset_time_or_unlock() {
    let lockouts = Lockouts::default();
    let count = |now| lockouts.count(of("eve", 1), POLICY, now);
    assert_eq!([count(0), count(1)], [FailureEffect::Noted; 2]);
    assert_eq!(
        [count(30_001), count(30_002)],
        [FailureEffect::Noted; 2],
        "the first two are too old"
    );
    assert!(lockouts.forget(M, "eve"));
    assert_eq!([count(30_003), count(30_004)], [FailureEffect::Noted; 2]);
    assert_eq!(count(30_005), FailureEffect::NowLocked);
    assert!(lockouts.forget(M, "eve") && !lockouts.forget(M, "eve"));
    assert!(!lockouts.is_locked(M, "eve", 30_006));
}

#[test]
fn name_flood_keeps_memory_bounded_and_locks_held() {
    let lockouts = within(64, 64);
    for now in 0..3 {
        lockouts.count(of("eve", 1), POLICY, now);
    }
    for number in 0..200 {
        lockouts.count(of(&format!("name-{number}"), 1), POLICY, 10 + number % 100);
    }
    assert_eq!(sync::lock(&lockouts.table).len(), 64);
    assert!(lockouts.is_locked(M, "eve", 1_000));
    let long = "x".repeat(NAME_BYTES + 1);
    assert_eq!(lockouts.count(of(&long, 1), POLICY, 1), FailureEffect::Noted);
    assert_eq!(sync::lock(&lockouts.table).len(), 64);
    assert_eq!(lockouts.locked(M, 200_000), [""; 0]);
    assert!(sync::lock(&lockouts.table).is_empty(), "ended counters are removed");
}

#[test]
fn guesses_at_other_names_evict_no_counter() {
    for flooder in [1, 2] {
        let lockouts = within(64, 48);
        let guess = || lockouts.count(of("eve", 1), POLICY, 5);
        assert_eq!([guess(), guess()], [FailureEffect::Noted; 2]);
        for number in 0..10_000 {
            lockouts.count(of(&format!("name-{number}"), flooder), POLICY, 6);
        }
        assert_eq!(guess(), FailureEffect::NowLocked, "by client {flooder}");
    }
}

#[test]
fn client_with_most_names_yields_room_to_others() {
    let lockouts = within(64, 48);
    for number in 0..60 {
        lockouts.count(of(&format!("name-{number}"), number % 3), POLICY, 5);
    }
    for number in 0..1_000 {
        lockouts.count(of(&format!("other-{number}"), 9), POLICY, 6);
    }
    let remaining_names = |mine: u64| {
        let names = (0..60_u64).filter(|number| number % 3 == mine);
        let key = |number| lockouts.key(M, &format!("name-{number}"));
        names.filter(|number| sync::lock(&lockouts.table).get(&key(*number)).is_some()).count()
    };
    assert!(
        (0..3).all(|mine| remaining_names(mine) >= 15),
        "{:?}",
        [remaining_names(0), remaining_names(1), remaining_names(2)]
    );
}

#[test]
fn client_at_lock_maximum_tries_no_other_name() {
    let lockouts = within(64, 8);
    for number in 0..8 {
        (0..3).for_each(|now| {
            lockouts.count(of(&format!("name-{number}"), 1), POLICY, now);
        });
    }
    assert!(!lockouts.would_count(of("eve", 1)) && lockouts.would_count(of("name-1", 1)));
    assert_eq!(lockouts.count(of("eve", 1), POLICY, 3), FailureEffect::NoRoom);
    assert!(lockouts.is_asked("another mount", client(1), 3));
    assert!(lockouts.would_count(of("eve", 2)));
    assert_eq!(lockouts.count(of("eve", 2), POLICY, 3), FailureEffect::Noted);
    assert!(!lockouts.is_asked(M, client(1), 60_003), "the locks have ended");
}

#[test]
fn counter_room_covers_names_tried_within_reset_time() {
    let usual = LockoutPolicy::default().counter_reset;
    let tried = usize::try_from(1_000 + 50 * usual).unwrap();
    let CounterBounds { all, of_client } = CounterBounds::default();
    assert!(tried <= of_client && 2 * of_client <= all, "{tried} of {of_client}");
}

#[test]
fn a_mount_that_locks_no_name_counts_none() {
    let (lockouts, off) = (Lockouts::default(), LockoutPolicy { is_disabled: true, ..POLICY });
    for now in 0..10 {
        assert_eq!(lockouts.count(of("eve", 1), off, now), FailureEffect::Noted);
    }
    assert!(!lockouts.is_asked(M, client(1), 10));
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
    assert_eq!(
        usual.changed_by(&Value::Object(usual.show())),
        Ok(usual),
        "the shown settings are accepted unchanged"
    );
    for (settings, named) in [
        (json!("5"), "must be an object"),
        (json!({"lockout_threshold": 0}), "lockout_threshold must be 1"),
        (json!({"lockout_threshold": "many"}), "lockout_threshold"),
        (json!({"lockout_duration": "soon"}), "lockout_duration"),
        (json!({"lockout_duration": 0}), "lockout_duration must be 1 second"),
        (json!({"lockout_disable": "perhaps"}), "lockout_disable"),
        (json!({"threshold": 5}), "\"threshold\""),
    ] {
        let why = usual.changed_by(&settings).unwrap_err().message;
        assert!(why.contains(named), "{why}");
    }
}

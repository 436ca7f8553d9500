//! Tests of the conditions of mounts.

use super::*;

const NOW: u64 = 1_000_000;

#[test]
fn condition_codes_are_codes_of_health() {
    for (condition, code) in [
        (MountCondition::Unavailable, "unavailable"),
        (MountCondition::MigrationUnfinished, "migration-unfinished"),
        (MountCondition::Resting, "resting"),
        (MountCondition::RollbackFailed, "rollback-failed"),
        (MountCondition::RolledBack, "rolled-back"),
        (MountCondition::OnProbation, "on-probation"),
    ] {
        assert_eq!(condition.code(), code);
        assert_eq!(condition.health_code(), format!("mounts-{code}"));
    }
}

#[test]
fn gravest_condition_is_first() {
    let mut conditions = [
        MountCondition::OnProbation,
        MountCondition::Unavailable,
        MountCondition::RolledBack,
        MountCondition::MigrationUnfinished,
    ];
    conditions.sort();
    assert_eq!(conditions[0], MountCondition::MigrationUnfinished);
    assert_eq!(conditions[1], MountCondition::Unavailable);
}

#[test]
fn rest_words_show_begin_and_end() {
    let began = Instant::now();
    let rest = RestReading { crashes: 16, began, until: began + Duration::from_secs(10) };
    let (since, message) = rest_words(rest, NOW, began + Duration::from_secs(4));
    assert_eq!(since, Some(NOW - 4_000));
    assert_eq!(
        message,
        "the component crashed 16 times in a row; calls are refused for another 7 s"
    );
    let (since, message) = rest_words(rest, NOW, began + Duration::from_secs(64));
    assert_eq!(since, Some(NOW - 64_000));
    assert!(message.ends_with("the next call tries the component"), "{message}");
}

#[test]
fn rollback_words_name_both_versions() {
    let mut rollback = RollbackRecord {
        from: "2.0.0".to_owned(),
        to: String::new(),
        time: NOW,
        is_done: true,
        reason: "it crashed".to_owned(),
    };
    assert_eq!(
        rollback_words(&rollback),
        "the version of this server serves instead of version 2.0.0: it crashed"
    );
    rollback.is_done = false;
    let words = rollback_words(&rollback);
    assert_eq!(
        words,
        "version 2.0.0 serves on, and the version of this server does not: it crashed"
    );
}

//! A lease after failed attempts to end the lease.

use super::*;

/// Returns the first lease of the stored records.
fn stored_lease() -> LeaseRecord {
    let records = include_str!("../../../fixtures/records/lease.jsonl");
    LeaseRecord::from_bytes(records.lines().next().unwrap().as_bytes()).unwrap()
}

#[test]
fn first_due_time_survives_further_failures() {
    let failure = Failure::new(FailureKind::Unreachable, "it is away");
    let once = stored_lease().after_failure(EndReason::Expired, Some(7_000), &failure);
    let twice = once.after_failure(EndReason::Expired, Some(9_000), &failure);
    assert_eq!((twice.first_due, twice.attempts), (Some(7_000), 2));
    let conflict = Failure::new(FailureKind::Conflict, "another change was first");
    let lost = stored_lease().after_lost_race(EndReason::Expired, Some(5_000), &conflict);
    assert_eq!((lost.first_due, lost.attempts), (Some(5_000), 0));
    let failed = lost.after_failure(EndReason::Expired, Some(6_000), &failure);
    assert_eq!((failed.first_due, failed.attempts), (Some(5_000), 1));
    let stored = twice.to_bytes().unwrap();
    assert_eq!(LeaseRecord::from_bytes(&stored).unwrap().first_due, Some(7_000));
}

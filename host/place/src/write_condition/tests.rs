//! The condition of writes, over failures and successes.

use super::*;

fn full() -> WriteFailure {
    WriteFailure::Full(StoreFault::Unavailable("no room".into()))
}

#[test]
fn full_disk_lasts_until_a_write_is_stored() {
    let watch = WriteWatch::default();
    let mut changes = watch.subscribe();
    watch.note_end(TransactionOutcome::Committed);
    assert!(!changes.has_changed().unwrap(), "the condition is the same");
    watch.note_failure(&full());
    assert_eq!(*changes.borrow_and_update(), WriteCondition::DiskFull);
    watch.note_failure(&full());
    watch.note_end(TransactionOutcome::Conflict);
    watch.note_failure(&WriteFailure::Unknown("no answer".into()));
    assert!(!changes.has_changed().unwrap(), "nothing was stored");
    watch.note_end(TransactionOutcome::Committed);
    watch.note_stored_at(Instant::now());
    assert!(!changes.has_changed().unwrap(), "a small write may find room");
    watch.note_stored_at(Instant::now() + FULL_DISK_MEMORY);
    assert_eq!(*changes.borrow_and_update(), WriteCondition::Works);
}

#[test]
fn refusal_of_server_ends_with_stored_write() {
    let watch = WriteWatch::default();
    watch.note_failure(&WriteFailure::Refused(StoreFault::Unavailable("read-only".into())));
    watch.note_end(TransactionOutcome::Conflict);
    assert_eq!(watch.condition(), WriteCondition::Refused, "nothing was stored");
    assert_eq!(watch.refusal(), Some(StoreFault::Unavailable("read-only".into())));
    watch.note_end(TransactionOutcome::Committed);
    assert_eq!((watch.condition(), watch.refusal()), (WriteCondition::Works, None));
}

#[test]
fn refused_read_is_condition_until_later_write() {
    let watch = WriteWatch::default();
    watch.note_refused_read(StoreFault::Unavailable("no server".into()));
    watch.note_end(TransactionOutcome::Committed);
    assert_eq!(watch.condition(), WriteCondition::Refused, "reads may still be refused");
    watch.note_stored_at(Instant::now() + REFUSED_READ_MEMORY);
    assert_eq!(watch.condition(), WriteCondition::Works);
}

#[test]
fn stopped_writes_stay_stopped() {
    let watch = WriteWatch::default();
    watch.note_failure(&WriteFailure::stopped("db".as_ref(), "an I/O error"));
    watch.note_failure(&full());
    watch.note_end(TransactionOutcome::Committed);
    assert_eq!(watch.condition(), WriteCondition::Stopped);
}

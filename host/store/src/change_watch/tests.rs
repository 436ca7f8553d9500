//! Freshness of memory, after reads of changes and writes of the progress.

use std::future::pending;

use super::*;
use futures_util::FutureExt as _;

fn shared() -> ChangeWatch {
    ChangeWatch::new(Some("own".to_owned()))
}

#[test]
fn memory_is_fresh_after_read_and_written_progress() {
    let changes = shared();
    assert!(changes.check().is_err() && changes.is_progress_due());
    let (number, begun, known) = changes.begin().unwrap();
    changes.end((number, begun), known);
    assert!(changes.check().is_err(), "the database may not take writes any more");
    changes.note_progress(steady_milliseconds());
    assert_eq!(changes.check(), Ok(()));
    changes.note_progress(steady_milliseconds().saturating_sub(400));
    assert!(changes.check().is_err() && changes.is_progress_due());
    assert_eq!(ChangeWatch::new(None).check(), Ok(()));
}

#[test]
fn node_is_out_of_date_before_writer_answers() {
    assert!(PROGRESS_AGE + READ_PAUSE < FRESH_TIME && FRESH_TIME < IN_FORCE_TIME);
}

#[tokio::test]
async fn writer_waits_for_slowest_node_and_not_longer() {
    let changes = shared();
    let looks = AtomicU64::new(0);
    let look = || {
        let look = async { Ok(looks.fetch_add(1, Ordering::Relaxed) as i64) };
        look.boxed()
    };
    changes.await_others(3, look).await;
    assert_eq!(looks.load(Ordering::Relaxed), 4);
    changes.await_others(2, look).await;
    assert_eq!(looks.load(Ordering::Relaxed), 4, "known already");
    let begun = steady_milliseconds();
    changes.await_others(i64::MAX - 1, || pending().boxed()).await;
    assert!(is_older(begun, FRESH_TIME));
    changes.await_others(9, || async { Ok(i64::MAX) }.boxed()).await;
}

//! Freshness of memory, after reads of changes and writes of the progress.

use std::future::pending;

use super::*;
use futures_util::FutureExt as _;

fn shared() -> ChangeWatch {
    ChangeWatch::new(Some("own".to_owned()))
}

/// Reads the changes of other nodes, and the proof `shown`.
fn read(changes: &ChangeWatch, shown: Option<u64>) {
    let (number, begun, known) = changes.begin().unwrap();
    changes.end((number, begun), known, shown);
}

#[test]
fn memory_is_fresh_after_read_and_stored_proof() {
    let changes = shared();
    assert!(changes.check().is_err() && changes.is_progress_due());
    read(&changes, None);
    assert!(changes.check().is_err(), "the database may not take writes any more");
    let proof = changes.begin_proof().unwrap();
    changes.end_proof(proof);
    assert!(changes.check().is_err(), "another server may have stored the proof");
    read(&changes, Some(proof.number - 1));
    assert!(changes.check().is_err(), "another server may answer the reads");
    read(&changes, Some(proof.number));
    assert_eq!(changes.check(), Ok(()));
    changes.end_proof(StartedProof { begun: proof.begun.saturating_sub(400), ..proof });
    read(&changes, Some(proof.number));
    assert!(changes.check().is_err());
    changes.note_progress(steady_milliseconds());
    assert!(changes.check().is_err() && !changes.is_progress_due());
    assert_eq!(ChangeWatch::new(None).check(), Ok(()));
}

#[test]
fn node_is_out_of_date_before_writer_answers() {
    assert!(PROGRESS_AGE + READ_PAUSE < FRESH_TIME && FRESH_TIME < in_force_after(FRESH_TIME));
}

/// Returns a node that has read this commit.
fn node(seen: i64) -> OtherNode {
    OtherNode { seen, proof_time: QUICK_PROOF_TIME }
}

#[tokio::test]
async fn writer_waits_for_slowest_node_and_not_longer() {
    let changes = shared();
    let looks = AtomicU64::new(0);
    let look = || {
        let look = async { Ok(vec![node(9), node(looks.fetch_add(1, Ordering::Relaxed) as i64)]) };
        look.boxed()
    };
    changes.await_others(3, look).await;
    assert_eq!(looks.load(Ordering::Relaxed), 4);
    changes.await_others(2, look).await;
    assert_eq!(looks.load(Ordering::Relaxed), 4, "known already");
    changes.await_others(9, || async { Ok(Vec::new()) }.boxed()).await;
}

#[tokio::test]
async fn writer_waits_for_stored_proof_times() {
    for milliseconds in [400, 900] {
        let silent = OtherNode { seen: 1, proof_time: Duration::from_millis(milliseconds) };
        let (changes, begun) = (shared(), steady_milliseconds());
        changes.await_others(9, || async { Ok(vec![node(9), silent]) }.boxed()).await;
        assert!(is_older(begun, silent.in_force_time()));
    }
}

#[tokio::test]
async fn writer_without_look_waits_for_longest_proof_time() {
    let (changes, begun) = (shared(), steady_milliseconds());
    changes.await_others(9, || pending().boxed()).await;
    assert!(is_older(begun, MOST_PROOF_TIME));
}

#[tokio::test]
async fn close_ends_wait_for_proof() {
    let changes = shared();
    assert!(changes.closed().now_or_never().is_none());
    changes.close();
    changes.closed().await;
}

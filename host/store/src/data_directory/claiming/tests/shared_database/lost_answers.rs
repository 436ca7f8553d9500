//! Tests of commits with a lost answer while another node writes.

use super::answer_gate::AnswerGate;
use super::*;

/// Opens a pair whose node `one` reaches the server through the returned proxy.
async fn pair_behind_gate() -> (AnswerGate, Pair) {
    let (gate, scratch) = (AnswerGate::start().await, ScratchDirectory::on(TestDatabase::Postgres));
    scratch.open().await.close().await;
    let mut behind = scratch.beside();
    behind.change_place(|place| gate.before(place));
    // Without a renewal, the next commit is the commit of the test.
    let one = open_shared(&behind, IDLE).await.unwrap();
    let other = open_shared(&scratch, IDLE).await.unwrap();
    (gate, Pair { directories: (behind, scratch), one, other })
}

#[tokio::test]
async fn stored_commit_is_found_after_foreign_replacement() {
    let (gate, pair) = pair_behind_gate().await;
    put(&pair.one, data("m/gone"), "0").await;
    pair.catch_up().await;
    let mut unit = pair.one.begin();
    unit.put(data("m/a"), b"1".to_vec(), IndexColumns::default());
    unit.delete(data("m/gone"));
    gate.arm();
    let commit = tokio::spawn(unit.commit());
    gate.withheld().await;
    // Neither the stamp nor the absence is left.
    put(&pair.other, data("m/a"), "2").await;
    put(&pair.other, data("m/gone"), "2").await;
    gate.cut();
    assert_eq!(commit.await.unwrap().map(drop), Ok(()));
    pair.one.data().changes.await_next().await.unwrap();
    assert_eq!(body(&pair.one, &data("m/a")).await.unwrap(), "2", "executed once");
    put(&pair.one, data("m/a"), "3").await;
    pair.catch_up().await;
    assert_eq!(body(&pair.other, &data("m/a")).await.unwrap(), "3");
}

#[tokio::test]
async fn decision_precedes_next_write_of_same_node() {
    let (gate, pair) = pair_behind_gate().await;
    gate.arm();
    let first = tokio::spawn({
        let one = Arc::clone(&pair.one);
        async move { one.data().database.end_claims(&[]).await }
    });
    gate.withheld().await;
    let last = pair.one.data().database.own_commits();
    let second = pair.one.data();
    let second = second.database.forget_changes(last);
    gate.cut();
    let (first, second) = tokio::join!(first, second);
    assert!(first.unwrap().is_ok() && second.is_ok());
    assert_eq!(pair.one.data().database.own_commits(), last + 2);
}

//! Tests of the gate of a mount.

use super::*;

#[tokio::test]
async fn closing_gate_awaits_entered_calls_and_admits_none() {
    let gate = Arc::new(MountGate::default());
    let (one, other) = (gate.enter().await.unwrap(), gate.enter().await.unwrap());
    let closing = tokio::spawn({
        let gate = Arc::clone(&gate);
        async move { drop(gate.close().await) }
    });
    while gate.is_open() {
        tokio::task::yield_now().await;
    }
    assert!(gate.enter().await.is_none());
    drop(one);
    assert!(!closing.is_finished());
    drop(other);
    closing.await.unwrap();
    assert!(gate.enter().await.is_none(), "a closed gate stays closed");
    assert!(MountGate::new_closed().enter().await.is_none());
}

#[tokio::test]
async fn paused_gate_delays_requests_and_refuses_none() {
    let gate = Arc::new(MountGate::default());
    let inside = gate.enter().await.unwrap();
    let pausing = tokio::spawn({
        let gate = Arc::clone(&gate);
        async move { gate.pause().await }
    });
    tokio::task::yield_now().await;
    let waiting = tokio::spawn({
        let gate = Arc::clone(&gate);
        async move { gate.enter().await.is_some() }
    });
    tokio::task::yield_now().await;
    assert!(!pausing.is_finished() && !waiting.is_finished());
    drop(inside);
    let paused = pausing.await.unwrap();
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    assert!(gate.enter_within(Duration::ZERO).await.is_err(), "the wait for the gate times out");
    drop(paused);
    assert!(waiting.await.unwrap());
    assert!(gate.enter_within(Duration::ZERO).await.unwrap().is_some());
}

#[tokio::test]
async fn caller_waiting_for_closing_gate_stays_outside() {
    let gate = Arc::new(MountGate::default());
    drop(gate.enter_or_outwait().await.unwrap());
    let closed = gate.close().await;
    let waiting = tokio::spawn({
        let gate = Arc::clone(&gate);
        async move { gate.enter_or_outwait().await.is_none() }
    });
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    drop(closed);
    assert!(waiting.await.unwrap());
}

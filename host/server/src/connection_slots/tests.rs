//! The choice of the closed connection, and the counts.

use super::*;
use std::pin::pin;
use std::task::Poll;

const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

fn address(last: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, last])
}

/// Polls a future once.
async fn at_once<F: Future>(future: F) -> Poll<F::Output> {
    let mut future = pin!(future);
    std::future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await
}

async fn entered(slots: &Arc<ConnectionSlots>, peer: IpAddr) -> Arc<ConnectionSlot> {
    match at_once(slots.take(peer, false)).await {
        Poll::Ready(Some(slot)) => Arc::new(slot),
        _ => panic!("there is no slot for {peer}"),
    }
}

#[tokio::test]
async fn longest_idle_connection_closes_for_newcomer() {
    let slots = ConnectionSlots::new(3, 3);
    let all = [
        entered(&slots, address(1)).await,
        entered(&slots, address(2)).await,
        entered(&slots, HERE).await,
    ];
    // The first connection has served a request since, so the second has been idle longest.
    drop(all[0].begin_request().unwrap());
    let [first, second, third] = all;
    let mut newcomer = pin!(slots.take(address(4), false));
    assert!(at_once(newcomer.as_mut()).await.is_pending());
    assert_eq!(at_once(second.close_requested()).await, Poll::Ready(CloseMoment::AtOnce));
    assert!(second.begin_request().is_none(), "a closing connection begins no request");
    for stays in [&first, &third] {
        assert!(at_once(stays.close_requested()).await.is_pending());
    }
    drop(second);
    assert!(newcomer.await.is_some());
}

#[tokio::test]
async fn busy_connection_stays_and_newcomer_waits() {
    let slots = ConnectionSlots::new(1, 9);
    let slot = entered(&slots, address(1)).await;
    let busy = slot.begin_request().unwrap();
    let mut newcomer = pin!(slots.take(HERE, false));
    assert!(at_once(newcomer.as_mut()).await.is_pending());
    assert!(at_once(slot.close_requested()).await.is_pending());
    drop(busy);
    assert!(at_once(newcomer.as_mut()).await.is_pending());
    assert_eq!(at_once(slot.close_requested()).await, Poll::Ready(CloseMoment::AtOnce));
    drop(slot);
    assert!(newcomer.await.is_some());
}

#[tokio::test]
async fn connection_is_busy_until_last_request_ends() {
    let slots = ConnectionSlots::new(1, 9);
    let slot = entered(&slots, address(1)).await;
    let before = slot.idle_since().unwrap();
    let (first, second) = (slot.begin_request().unwrap(), slot.begin_request().unwrap());
    drop(first);
    assert_eq!(slot.idle_since(), None);
    let mut newcomer = pin!(slots.take(HERE, false));
    assert!(at_once(newcomer.as_mut()).await.is_pending());
    assert!(at_once(slot.close_requested()).await.is_pending());
    drop(second);
    assert!(slot.idle_since().unwrap() > before);
    assert!(at_once(newcomer.as_mut()).await.is_pending());
    assert_eq!(at_once(slot.close_requested()).await, Poll::Ready(CloseMoment::AtOnce));
}

#[tokio::test]
async fn capped_address_loses_own_idle_or_new_connection() {
    let slots = ConnectionSlots::new(10, 2);
    let other = entered(&slots, address(9)).await;
    let (old, young) = (entered(&slots, HERE).await, entered(&slots, HERE).await);
    let mut newcomer = pin!(slots.take(HERE, false));
    assert!(at_once(newcomer.as_mut()).await.is_pending());
    assert_eq!(at_once(old.close_requested()).await, Poll::Ready(CloseMoment::AtOnce));
    drop(old);
    let newest = Arc::new(newcomer.await.unwrap());
    let _all_busy = (young.begin_request().unwrap(), newest.begin_request().unwrap());
    assert!(matches!(at_once(slots.take(HERE, false)).await, Poll::Ready(None)));
    assert!(at_once(other.close_requested()).await.is_pending());
    assert!(
        matches!(at_once(slots.take(HERE, true)).await, Poll::Ready(Some(_))),
        "a proxy is not counted"
    );
}

#[tokio::test]
async fn a_network_of_ipv6_counts_as_one() {
    let slots = ConnectionSlots::new(10, 1);
    let first = entered(&slots, "2001:db8::1".parse().unwrap()).await;
    let _busy = first.begin_request().unwrap();
    let (same, next) = ("2001:db8::ffff:2".parse().unwrap(), "2001:db8:0:1::1".parse().unwrap());
    assert!(matches!(at_once(slots.take(same, false)).await, Poll::Ready(None)));
    entered(&slots, next).await;
}

#[tokio::test]
async fn closed_connections_free_slots_and_leave_no_state() {
    let slots = ConnectionSlots::new(2, 2);
    for round in 0..100 {
        drop(entered(&slots, address(round)).await);
    }
    let table = slots.lock();
    assert!(table.usage.is_empty() && table.free.len() == 2);
}

#[tokio::test]
async fn drain_closes_connections_after_their_answer() {
    let slots = ConnectionSlots::new(2, 2);
    let slot = entered(&slots, HERE).await;
    slots.drain();
    assert_eq!(at_once(slot.close_requested()).await, Poll::Ready(CloseMoment::AfterAnswer));
    assert!(slot.begin_request().is_some());
}

#[test]
fn there_are_as_many_slots_as_descriptors_allow() {
    for (descriptors, slots) in
        [(0, 16), (64, 16), (1_024, 768), (20_000, 4_096), (u64::MAX, 4_096)]
    {
        assert_eq!(slot_capacity(descriptors, MAX_CONNECTIONS), slots);
    }
}

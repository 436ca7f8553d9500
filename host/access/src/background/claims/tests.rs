//! Claims of one process, in memory.

use super::*;
use crate::background::claimed_addresses::{IN_LANES, WITHOUT_LANE};
use crate::background::lanes::DEFAULT_CONCURRENCY;
use bulkhead_store::Space;

fn lease(key: &str) -> Address {
    Address::new(Space::Lease, key)
}

#[test]
fn claimed_address_is_not_claimed_again_until_released() {
    let claims = Arc::new(Claims::default());
    let first = claims.claim_here(&lease("a")).unwrap();
    assert!(claims.claim_here(&lease("a")).is_none());
    drop(first);
    assert!(claims.claim_here(&lease("a")).is_some());
}

#[test]
fn a_full_lane_stalls_no_other() {
    let claims = Arc::new(Claims::default());
    let lane_claims: Vec<_> = (0..DEFAULT_CONCURRENCY)
        .map(|n| claim_due(&claims, &lease(&n.to_string()), "m/slow").unwrap())
        .collect();
    assert!(claim_due(&claims, &lease("x"), "m/slow").is_none());
    assert_eq!(claims.room(Space::Lease, "m/slow"), 0);
    assert_eq!(claims.count_claimed(Space::Lease, "m/slow"), DEFAULT_CONCURRENCY);
    assert!(claim_due(&claims, &lease("x"), "m/quick").is_some());
    drop(lane_claims);
    assert_eq!(claims.room(Space::Lease, "m/slow"), DEFAULT_CONCURRENCY);
    assert_eq!(claims.count_claimed(Space::Lease, "m/slow"), 0);
}

fn claim_due(claims: &Arc<Claims>, address: &Address, lane: &str) -> Option<Claim> {
    claims.claim_due_here(address, &(address.space, lane.to_owned()))
}

/// Claims as much as `mount` may have, in as many lanes as needed.
fn crowd(claims: &Arc<Claims>, mount: &str) -> Vec<Claim> {
    let claim = |n: usize| {
        let space = if n.is_multiple_of(2) { Space::Timer } else { Space::Lease };
        let address = Address::new(space, format!("{mount}/{n}"));
        claim_due(claims, &address, &format!("{mount}/lane {n}"))
    };
    (0..99).map_while(claim).collect()
}

#[test]
fn crowded_mount_leaves_places_for_other_mounts() {
    let claims = Arc::new(Claims::default());
    let crowds: Vec<Vec<Claim>> =
        (0..8).map(|mount| crowd(&claims, &format!("mount {mount}"))).collect();
    let shares: Vec<usize> = crowds.iter().map(Vec::len).collect();
    assert_eq!(shares, [22, 14, 10, 6, 4, 3, 2, 1]);
    assert!(claim_due(&claims, &lease("healthy"), "healthy/lane").is_some());
    drop(crowds);
    assert_eq!(crowd(&claims, "alone").len(), 22);
}

#[test]
fn full_lanes_leave_room_for_records_without_lane() {
    let claims = Arc::new(Claims::default());
    let mut lane_claims: Vec<Claim> = Vec::new();
    for mount in 0..IN_LANES {
        lane_claims.extend(crowd(&claims, &format!("mount {mount}")));
    }
    assert_eq!((lane_claims.len(), claims.has_room_in_lanes()), (IN_LANES, false));
    assert!(claim_due(&claims, &lease("x"), "another/lane").is_none());
    let token = |n: usize| claim_due(&claims, &Address::new(Space::Token, n.to_string()), "");
    let tokens: Vec<_> = (0..WITHOUT_LANE).map(|n| token(n).unwrap()).collect();
    assert!(token(WITHOUT_LANE).is_none());
    drop((lane_claims, tokens));
    assert!(claims.has_room_in_lanes());
    assert_eq!(claims.room(Space::Token, ""), WITHOUT_LANE);
}

#[test]
fn freed_place_or_skipped_record_wakes_worker() {
    let claims = Arc::new(Claims::default());
    let wakes = |claim: Claim| {
        let woken = claims.room_notice();
        tokio::pin!(woken);
        woken.as_mut().enable();
        drop(claim);
        woken.as_mut().enable()
    };
    assert!(!wakes(claims.claim_here(&lease("a")).unwrap()));
    let first = claims.claim_here(&lease("a")).unwrap();
    assert!(claim_due(&claims, &lease("a"), "m/lane").is_none());
    assert!(wakes(first), "the waiter that was passed over is woken");
    assert!(!wakes(claims.claim_here(&lease("a")).unwrap()));
    assert!(
        wakes(claim_due(&claims, &lease("a"), "m/lane").unwrap()),
        "the end of a claim wakes a waiter"
    );
    assert!(!wakes(claim_due(&claims, &lease("a"), "m/lane").unwrap().leave_lane()));
}

#[tokio::test]
async fn waiter_is_woken_when_claim_is_released() {
    let claims = Arc::new(Claims::default());
    let first = claims.claim_here(&lease("a")).unwrap();
    let waiting = tokio::spawn({
        let claims = Arc::clone(&claims);
        async move { claims.claim_in_turn(&lease("a")).await.unwrap().address().clone() }
    });
    tokio::task::yield_now().await;
    drop(first);
    assert_eq!(waiting.await.unwrap(), lease("a"));
}

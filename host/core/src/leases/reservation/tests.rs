//! A call whose reservation another node ends.

use super::super::record::{StoredLease, read_tolerantly};
use super::*;
use crate::testing::TemporaryStore;
use bulkhead_store::UnitFinish;
use bulkhead_wire::stored::Stored;

/// A call of this process that reserved a lease and reached its target.
struct CallOnOneNode {
    bed: TemporaryStore,
    reserved: LeaseReservation,
}

impl CallOnOneNode {
    async fn new(name: &str) -> Self {
        let bed = TemporaryStore::new(name).await;
        let records = include_str!("../../../fixtures/records/lease.jsonl");
        let first = LeaseRecord::from_bytes(records.lines().next().unwrap().as_bytes()).unwrap();
        let record = LeaseRecord { epoch: bed.store.epoch().to_owned(), reason: None, ..first };
        let address = Address::new(Space::Reservation, "m/call");
        let due = bed.store.now() + 3_600_000;
        let mut unit = bed.store.begin();
        put(&mut unit, &address, &record, due).unwrap();
        unit.commit().await.unwrap();
        let claim = Arc::new(Claims::default()).claim_here(&address);
        let tag = record.tag.clone();
        let reserved =
            LeaseReservation { tag, address, withdrawn: false, record, due, _claim: claim };
        Self { bed, reserved }
    }

    /// Returns the end of the call, with the confirmation before the commit.
    async fn confirming(&self) -> UnitFinish {
        let mut finish = self.bed.store.begin().finish();
        let unit = finish.restart_host_part();
        assert!(self.reserved.is_reserved(unit).await.unwrap());
        unit.delete(self.reserved.address.clone());
        put(unit, &Address::new(Space::Lease, "m/call"), &self.reserved.record, 1).unwrap();
        finish
    }

    /// Commits as the due work of another node, which has no claim of this process: deletes the
    /// reservation, or marks the reservation as ending.
    async fn end_elsewhere(&self, is_gone: bool) {
        let mut unit = self.bed.store.begin();
        let found = read(&mut unit, &self.reserved.address).await.unwrap().unwrap();
        let ending = LeaseRecord { reason: Some(EndReason::Undo), ..found };
        let now = unit.now();
        match is_gone {
            true => unit.delete(self.reserved.address.clone()),
            false => put(&mut unit, &self.reserved.address, &ending, now).unwrap(),
        }
        unit.commit().await.unwrap();
    }

    /// Returns the reason for the end of the reservation, and whether the end is due.
    async fn found(&self) -> Option<(Option<EndReason>, bool)> {
        let mut unit = self.bed.store.begin();
        let row = unit.get(&self.reserved.address).await.unwrap()?;
        let reason = LeaseRecord::parse(&row).unwrap().reason;
        Some((reason, row.index.due.unwrap() <= unit.now()))
    }
}

async fn reservation_ended_elsewhere_is_undone(name: &str, is_gone: bool) {
    let call = CallOnOneNode::new(name).await;
    let mut finish = call.confirming().await;
    call.end_elsewhere(is_gone).await;
    assert!(!finish.try_commit().await.unwrap(), "the confirmation conflicts");
    let unit = finish.restart_host_part();
    assert!(!call.reserved.is_reserved(unit).await.unwrap());
    drop(finish);
    // The effect may be later than the undo of the other node.
    undo_reservations(&call.bed.store, std::slice::from_ref(&call.reserved)).await.unwrap();
    assert_eq!(call.found().await, Some((Some(EndReason::Undo), true)));
    let lease = Address::new(Space::Lease, "m/call");
    let lease = read_tolerantly(&mut call.bed.store.begin(), &lease).await.unwrap();
    assert!(matches!(lease, StoredLease::Gone), "no lease without its credential");
    call.bed.end().await;
}

#[tokio::test]
async fn reservation_removed_by_other_node_is_undone() {
    reservation_ended_elsewhere_is_undone("reservation-gone", true).await;
}

#[tokio::test]
async fn reservation_ending_on_other_node_is_undone() {
    reservation_ended_elsewhere_is_undone("reservation-ending", false).await;
}

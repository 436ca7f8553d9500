//! Records of ended claims that are stored now or later, because a commit or a removal failed.
//!
//! This file prevents an outage of the database from leaving a task for each claim: one task of the
//! process removes all records in doubt, several in one commit, and ends with the last record.

use super::Claims;
use bulkhead_store::{Address, StoreFault};
use bulkhead_wire::sync;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use tokio::runtime::Handle;

/// Maximum number of records removed in one commit.
const PAGE: usize = 64;

/// The claimed addresses with records in doubt.
#[derive(Default)]
pub(super) struct DoubtfulRecords(Mutex<DoubtfulState>);

#[derive(Default)]
struct DoubtfulState {
    addresses: BTreeSet<Address>,
    /// True while the task runs.
    is_removing: bool,
}

impl DoubtfulRecords {
    /// Adds an address. Returns `true` if the caller must start the task.
    fn add(&self, address: &Address) -> bool {
        let mut state = sync::lock(&self.0);
        state.addresses.insert(address.clone());
        !std::mem::replace(&mut state.is_removing, true)
    }

    /// Returns whether the record of the claim of `address` is in doubt.
    pub(super) fn contains(&self, address: &Address) -> bool {
        sync::lock(&self.0).addresses.contains(address)
    }

    /// Returns some of the addresses; `None` if there are none, which ends the task.
    fn next_page(&self) -> Option<Vec<Address>> {
        let mut state = sync::lock(&self.0);
        let page: Vec<Address> = state.addresses.iter().take(PAGE).cloned().collect();
        state.is_removing = !page.is_empty();
        state.is_removing.then_some(page)
    }

    fn remove(&self, page: &[Address]) {
        let mut state = sync::lock(&self.0);
        for address in page {
            state.addresses.remove(address);
        }
    }
}

impl Claims {
    /// Leaves the record of a claim without work to the task. The address stays claimed until the
    /// removal.
    pub(super) fn leave_record(self: &Arc<Self>, address: &Address, runtime: &Handle) {
        self.lock().begin_release(address);
        if self.doubtful.add(address) {
            runtime.spawn(remove_records(Arc::clone(self)));
        }
        // Waiting callers count their patience from now on.
        self.freed.notify_waiters();
    }

    /// Returns the number of addresses whose records are in doubt.
    #[cfg(test)]
    pub(in crate::background) fn count_doubtful(&self) -> usize {
        sync::lock(&self.doubtful.0).addresses.len()
    }

    /// Gives back the addresses whose records are removed.
    fn end_doubt(&self, page: &[Address]) {
        self.doubtful.remove(page);
        let with_room = {
            let mut claimed = self.lock();
            page.iter().filter(|address| claimed.remove(address, None)).count()
        };
        match with_room > 0 {
            true => self.notify_of_room(),
            false => self.freed.notify_waiters(),
        }
    }
}

async fn remove_records(claims: Arc<Claims>) {
    while let Some(page) = claims.doubtful.next_page() {
        if let Some(records) = &claims.records {
            records.remove_doubtful(&page).await;
        }
        claims.end_doubt(&page);
    }
}

/// Returns the fault for a claim of an address whose record is in doubt.
pub(super) fn record_in_doubt() -> StoreFault {
    StoreFault::Unavailable(
        "the database has not confirmed the end of earlier work on the same record; try again \
         once the database answers"
            .to_owned(),
    )
}

//! Memory budget for the bodies of all requests, counted by their parsed size.
//!
//! This file prevents memory exhaustion by a body of the maximum size on every connection, and by
//! bodies that are small on the wire but 100 times as large when parsed. Small bodies are not
//! counted, because the number of connections bounds their memory.

use crate::client_usage::ClientUsage;
use bulkhead_wire::client::Client;
use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::size;
use bulkhead_wire::sync;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};

/// Maximum size of an uncounted body, in bytes.
const MAX_UNCOUNTED_BODY: u64 = 64 << 10;

/// Maximum number of bytes per address, unless a single body may be larger.
const PER_ADDRESS: u64 = 64 << 20;

/// Number of addresses that can use their maximum at the same time.
const FULL_USE_ADDRESSES: u64 = 4;

/// Retry delay for a body without room, in milliseconds.
const RETRY_AFTER: u64 = 1_000;

/// The memory budget for bodies being received or processed.
pub(crate) struct BodyBudget {
    per_client: u64,
    all: u64,
    in_use: Mutex<BodyUsage>,
}

#[derive(Default)]
struct BodyUsage {
    all: u64,
    by_client: ClientUsage,
}

impl BodyBudget {
    /// Creates a budget for bodies of up to `body_max` bytes each.
    pub(crate) fn new(body_max: u64) -> Arc<Self> {
        let per_client = PER_ADDRESS.max(body_max);
        let all = per_client.saturating_mul(FULL_USE_ADDRESSES);
        Arc::new(Self { per_client, all, in_use: Mutex::default() })
    }

    /// Begins a body from `address`, which holds no memory yet.
    pub(crate) fn begin(self: &Arc<Self>, address: IpAddr) -> BodyMemory {
        BodyMemory { budget: Arc::clone(self), client: Client::of(address), bytes: 0 }
    }

    fn lock(&self) -> MutexGuard<'_, BodyUsage> {
        sync::lock(&self.in_use)
    }
}

/// Memory held by a body, returned to the budget when dropped.
pub(crate) struct BodyMemory {
    budget: Arc<BodyBudget>,
    client: Client,
    bytes: u64,
}

impl BodyMemory {
    /// Reserves memory for a body of `size` bytes.
    ///
    /// # Errors
    /// 429 if the address would exceed its maximum, 503 if all addresses together would; both with
    /// a retry delay.
    pub(crate) fn grow_to(&mut self, size: u64) -> Result<(), Failure> {
        let more = size.saturating_sub(self.bytes);
        if size <= MAX_UNCOUNTED_BODY || more == 0 {
            return Ok(());
        }
        let mut in_use = self.budget.lock();
        if !in_use.by_client.take(self.client, more, self.budget.per_client) {
            return Err(over_budget(
                FailureKind::RateLimited,
                "your address",
                self.budget.per_client,
            ));
        }
        let all = in_use.all.saturating_add(more);
        if all > self.budget.all {
            in_use.by_client.give_back(self.client, more);
            return Err(over_budget(FailureKind::Unavailable, "all clients", self.budget.all));
        }
        in_use.all = all;
        self.bytes = size;
        Ok(())
    }

    /// Reserves memory for a body of `size` bytes once parsed.
    ///
    /// # Errors
    /// 413 if the body alone exceeds the maximum of an address; otherwise as
    /// [`BodyMemory::grow_to`].
    pub(crate) fn grow_to_parsed(&mut self, size: u64) -> Result<(), Failure> {
        let most = self.budget.per_client;
        if size <= most {
            return self.grow_to(size);
        }
        let (size, most) = (size >> 20, size::show(most));
        let message = format!(
            "the parsed body would take {size}MiB of memory; the most is {most}: send fewer values \
             at a time"
        );
        Err(Failure::new(FailureKind::TooLarge, message))
    }
}

fn over_budget(kind: FailureKind, senders: &str, most: u64) -> Failure {
    let most = size::show(most);
    let message = format!(
        "the bodies in flight from {senders} would take over {most}; send this request again later"
    );
    Failure { retry_after: Some(RETRY_AFTER), ..Failure::new(kind, message) }
}

impl Drop for BodyMemory {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        let mut in_use = self.budget.lock();
        in_use.all = in_use.all.saturating_sub(self.bytes);
        in_use.by_client.give_back(self.client, self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    fn holding(budget: &Arc<BodyBudget>, last: u8, size: u64) -> Result<BodyMemory, Failure> {
        let mut memory = budget.begin(address(last));
        memory.grow_to(size).map(|()| memory)
    }

    #[test]
    fn an_address_holds_its_part_and_others_theirs() {
        let budget = BodyBudget::new(32 * MIB);
        let mut first = holding(&budget, 1, 32 * MIB).unwrap();
        first.grow_to(64 * MIB).unwrap();
        let failure = holding(&budget, 1, MIB).err().unwrap();
        assert_eq!((failure.kind, failure.retry_after), (FailureKind::RateLimited, Some(1_000)));
        assert!(
            failure.message.contains("your address") && failure.message.contains("64MiB"),
            "{}",
            failure.message
        );
        assert!(first.grow_to(65 * MIB).is_err());
        let _others: Vec<BodyMemory> =
            (2..5).map(|last| holding(&budget, last, 64 * MIB).unwrap()).collect();
        let failure = holding(&budget, 5, MIB).err().unwrap();
        assert_eq!((failure.kind, failure.retry_after), (FailureKind::Unavailable, Some(1_000)));
        assert!(failure.message.contains("256MiB"), "{}", failure.message);
        holding(&budget, 5, MAX_UNCOUNTED_BODY).unwrap();
        drop(first);
        holding(&budget, 5, 64 * MIB).unwrap();
    }

    #[test]
    fn a_released_share_leaves_no_entry() {
        let budget = BodyBudget::new(MIB);
        for last in 0..100 {
            let mut memory = holding(&budget, last, MIB).unwrap();
            assert!(memory.grow_to(u64::MAX).is_err(), "refused, and not counted");
        }
        let in_use = budget.lock();
        assert!(in_use.all == 0 && in_use.by_client.is_empty());
    }

    #[test]
    fn parsed_body_size_counts_and_oversize_is_413() {
        let budget = BodyBudget::new(MIB);
        let mut memory = budget.begin(address(1));
        memory.grow_to(60 << 10).unwrap();
        memory.grow_to_parsed(40 * MIB).unwrap();
        let mut next = budget.begin(address(1));
        assert_eq!(next.grow_to_parsed(40 * MIB).unwrap_err().kind, FailureKind::RateLimited);
        let failure = next.grow_to_parsed(65 * MIB).unwrap_err();
        assert_eq!((failure.kind, failure.retry_after), (FailureKind::TooLarge, None));
        assert!(failure.message.contains("65MiB") && failure.message.contains("64MiB"));
    }

    #[test]
    fn largest_admitted_body_finds_room() {
        holding(&BodyBudget::new(1 << 30), 1, 1 << 30).unwrap();
    }
}

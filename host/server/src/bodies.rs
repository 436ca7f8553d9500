//! How much the bodies of all requests may take together, before anybody knows who sends them.
//!
//! The attack this file stops: as many of the largest bodies as there are connections, each without
//! a token, until the memory is full. Small bodies are not counted: they are bounded by the number
//! of connections.

use crate::households::{Household, Shares};
use bulkhead_wire::failure::{Failure, Kind};
use bulkhead_wire::size;
use bulkhead_wire::sync;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};

/// A body up to so many bytes is not counted.
const UNCOUNTED: u64 = 64 << 10;

/// What one address may hold, unless a single body may be larger.
const PER_ADDRESS: u64 = 64 << 20;

/// So many addresses can hold all that they may at the same time.
const ADDRESSES: u64 = 4;

/// When a body that there was no room for is worth another try, in milliseconds.
const RETRY_AFTER: u64 = 1_000;

/// The bodies that are being received or worked on.
pub(crate) struct Bodies {
    per_household: u64,
    all: u64,
    held: Mutex<Holdings>,
}

#[derive(Default)]
struct Holdings {
    all: u64,
    shares: Shares,
}

impl Bodies {
    /// Room for bodies of up to `body_max` bytes each.
    pub(crate) fn new(body_max: u64) -> Arc<Self> {
        let per_household = PER_ADDRESS.max(body_max);
        let all = per_household.saturating_mul(ADDRESSES);
        Arc::new(Self { per_household, all, held: Mutex::default() })
    }

    /// A body from `address`, that takes no room yet.
    pub(crate) fn begin(self: &Arc<Self>, address: IpAddr) -> Held {
        Held { bodies: Arc::clone(self), household: Household::of(address), bytes: 0 }
    }

    fn lock(&self) -> MutexGuard<'_, Holdings> {
        sync::lock(&self.held)
    }
}

/// Room that a body takes, given back when it is dropped.
pub(crate) struct Held {
    bodies: Arc<Bodies>,
    household: Household,
    bytes: u64,
}

impl Held {
    /// Takes room for a body that is `size` bytes long, or will be.
    ///
    /// # Errors
    /// 429 when the address would hold too much, 503 when all together would; both say when to try
    /// again.
    pub(crate) fn grow_to(&mut self, size: u64) -> Result<(), Failure> {
        let more = size.saturating_sub(self.bytes);
        if size <= UNCOUNTED || more == 0 {
            return Ok(());
        }
        let mut held = self.bodies.lock();
        if !held.shares.take(self.household, more, self.bodies.per_household) {
            return Err(full(Kind::RateLimited, "your address sends", self.bodies.per_household));
        }
        let all = held.all.saturating_add(more);
        if all > self.bodies.all {
            held.shares.give_back(self.household, more);
            return Err(full(Kind::Unavailable, "clients send", self.bodies.all));
        }
        held.all = all;
        self.bytes = size;
        Ok(())
    }
}

fn full(kind: Kind, whose: &str, most: u64) -> Failure {
    let most = size::show(most);
    let message = format!(
        "the bodies that {whose} at this moment would take over {most}; send this one again later"
    );
    Failure { retry_after: Some(RETRY_AFTER), ..Failure::new(kind, message) }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        let mut held = self.bodies.lock();
        held.all = held.all.saturating_sub(self.bytes);
        held.shares.give_back(self.household, self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    fn holding(bodies: &Arc<Bodies>, last: u8, size: u64) -> Result<Held, Failure> {
        let mut held = bodies.begin(address(last));
        held.grow_to(size).map(|()| held)
    }

    #[test]
    fn an_address_holds_its_part_and_others_theirs() {
        let bodies = Bodies::new(32 * MIB);
        let mut first = holding(&bodies, 1, 32 * MIB).unwrap();
        first.grow_to(64 * MIB).unwrap();
        let failure = holding(&bodies, 1, MIB).err().unwrap();
        assert_eq!((failure.kind, failure.retry_after), (Kind::RateLimited, Some(1_000)));
        assert!(
            failure.message.contains("your address") && failure.message.contains("64MiB"),
            "{}",
            failure.message
        );
        assert!(first.grow_to(65 * MIB).is_err());
        let _others: Vec<Held> =
            (2..5).map(|last| holding(&bodies, last, 64 * MIB).unwrap()).collect();
        let failure = holding(&bodies, 5, MIB).err().unwrap();
        assert_eq!((failure.kind, failure.retry_after), (Kind::Unavailable, Some(1_000)));
        assert!(failure.message.contains("256MiB"), "{}", failure.message);
        holding(&bodies, 5, UNCOUNTED).unwrap();
        drop(first);
        holding(&bodies, 5, 64 * MIB).unwrap();
    }

    #[test]
    fn what_is_given_back_leaves_nothing() {
        let bodies = Bodies::new(MIB);
        for last in 0..100 {
            let mut held = holding(&bodies, last, MIB).unwrap();
            assert!(held.grow_to(u64::MAX).is_err(), "refused, and not counted");
        }
        let held = bodies.lock();
        assert!(held.all == 0 && held.shares.is_empty());
    }

    #[test]
    fn the_largest_body_that_is_let_in_finds_room() {
        holding(&Bodies::new(1 << 30), 1, 1 << 30).unwrap();
    }
}

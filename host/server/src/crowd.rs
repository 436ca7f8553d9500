//! How many requests one client behind a proxy makes at a time.
//!
//! The attack this file stops: a client that asks a thousand things at once through a proxy, whose
//! connections are not counted by address (see [`crate::places`]), until nobody else behind that
//! proxy is served. It may make as many requests at a time as it could have connections if it came
//! by itself; on one connection there is one request at a time, so that clients without a proxy are
//! not counted here again.

use crate::households::{Household, Shares};
use bulkhead_wire::failure::{Failure, Kind};
use bulkhead_wire::sync;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};

/// When a refused request is worth another try, in milliseconds.
const RETRY_AFTER: u64 = 1_000;

/// The clients behind proxies that are being served.
pub(crate) struct Crowd {
    per_household: u64,
    served: Mutex<Shares>,
}

impl Crowd {
    /// Of whom each has so many requests at a time.
    pub(crate) fn new(per_address: usize) -> Arc<Self> {
        let per_household = u64::try_from(per_address).unwrap_or(u64::MAX);
        Arc::new(Self { per_household, served: Mutex::default() })
    }

    /// Counts a request of `client` until what is returned is dropped.
    ///
    /// # Errors
    /// 429 when it has as many as it may, with when to try again.
    pub(crate) fn enter(self: &Arc<Self>, client: IpAddr) -> Result<Served, Failure> {
        let household = Household::of(client);
        if self.lock().take(household, 1, self.per_household) {
            return Ok(Served { crowd: Arc::clone(self), household });
        }
        let message = format!(
            "your address has {} requests at this moment, the most that one address may; send this one again later",
            self.per_household
        );
        Err(Failure { retry_after: Some(RETRY_AFTER), ..Failure::new(Kind::RateLimited, message) })
    }

    fn lock(&self) -> MutexGuard<'_, Shares> {
        sync::lock(&self.served)
    }
}

/// A request that is counted.
pub(crate) struct Served {
    crowd: Arc<Crowd>,
    household: Household,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.crowd.lock().give_back(self.household, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_behind_a_proxy_has_its_part_and_others_theirs() {
        let (crowd, client) = (Crowd::new(2), IpAddr::from([192, 0, 2, 1]));
        let (_first, second) = (crowd.enter(client).unwrap(), crowd.enter(client).unwrap());
        let refused = crowd.enter(client).err().unwrap();
        assert_eq!((refused.kind, refused.retry_after), (Kind::RateLimited, Some(1_000)));
        assert!(refused.message.contains("2 requests"), "{}", refused.message);
        assert!(crowd.enter([192, 0, 2, 2].into()).is_ok());
        drop(second);
        assert!(crowd.enter(client).is_ok());
    }
}

//! How many requests one client behind a proxy makes at a time.
//!
//! The attack this file stops: a client that asks a thousand things at once through a proxy, whose
//! connections are not counted by address (see [`crate::connection_slots`]), until no other client
//! behind that proxy is served. It may make as many requests at a time as it could have connections
//! if it came by itself; on one connection there is one request at a time, so that clients without
//! a proxy are not counted here again.

use crate::client_usage::ClientUsage;
use bulkhead_wire::client::Client;
use bulkhead_wire::failure::{Failure, Kind};
use bulkhead_wire::sync;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};

/// When a refused request is worth another try, in milliseconds.
const RETRY_AFTER: u64 = 1_000;

/// How many requests of each client behind a proxy are being served.
pub(crate) struct ClientConcurrency {
    per_client: u64,
    usage: Mutex<ClientUsage>,
}

impl ClientConcurrency {
    /// So many requests at a time for each client.
    pub(crate) fn new(per_address: usize) -> Arc<Self> {
        let per_client = u64::try_from(per_address).unwrap_or(u64::MAX);
        Arc::new(Self { per_client, usage: Mutex::default() })
    }

    /// Counts a request from `address` until what is returned is dropped.
    ///
    /// # Errors
    /// 429 when it has as many as it may, with when to try again.
    pub(crate) fn admit(self: &Arc<Self>, address: IpAddr) -> Result<CountedRequest, Failure> {
        let client = Client::of(address);
        if self.lock().take(client, 1, self.per_client) {
            return Ok(CountedRequest { concurrency: Arc::clone(self), client });
        }
        let message = format!(
            "your address has {} requests at this moment, the most that one address may; \
             send this one again later",
            self.per_client
        );
        Err(Failure { retry_after: Some(RETRY_AFTER), ..Failure::new(Kind::RateLimited, message) })
    }

    fn lock(&self) -> MutexGuard<'_, ClientUsage> {
        sync::lock(&self.usage)
    }
}

/// A request that is counted.
pub(crate) struct CountedRequest {
    concurrency: Arc<ClientConcurrency>,
    client: Client,
}

impl Drop for CountedRequest {
    fn drop(&mut self) {
        self.concurrency.lock().give_back(self.client, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_behind_a_proxy_has_its_part_and_others_theirs() {
        let (concurrency, client) = (ClientConcurrency::new(2), IpAddr::from([192, 0, 2, 1]));
        let (_first, second) =
            (concurrency.admit(client).unwrap(), concurrency.admit(client).unwrap());
        let refused = concurrency.admit(client).err().unwrap();
        assert_eq!((refused.kind, refused.retry_after), (Kind::RateLimited, Some(1_000)));
        assert!(refused.message.contains("2 requests"), "{}", refused.message);
        assert!(concurrency.admit([192, 0, 2, 2].into()).is_ok());
        drop(second);
        assert!(concurrency.admit(client).is_ok());
    }
}

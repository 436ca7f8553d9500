//! How many requests one client makes at a time, where its connections do not say so.
//!
//! The attacks this file stops: a client that asks a thousand things at once through a proxy, whose
//! connections are not counted by address (see [`crate::connection_slots`]), until no other client
//! behind that proxy is served; and one that asks over HTTP/2 and takes each question back at once,
//! so that what was begun for it goes on without a place on its connection. It may make as many
//! requests at a time as it could have connections; on one connection of HTTP/1.1 there is one
//! request at a time, so that clients without a proxy are not counted there again.

use crate::client_usage::ClientUsage;
use bulkhead_wire::client::Client;
use bulkhead_wire::failure::{Failure, Kind};
use bulkhead_wire::sync;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};

/// When a refused request is worth another try, in milliseconds.
const RETRY_AFTER: u64 = 1_000;

/// Counted requests at a time, of all clients: as many as there are connections at most.
const MOST: u64 = 4096;

/// How many requests of each client are being served.
pub(crate) struct ClientConcurrency {
    per_client: u64,
    usage: Mutex<Usage>,
}

#[derive(Default)]
struct Usage {
    of_each: ClientUsage,
    of_all: u64,
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
    /// 429 when it has as many as it may, 503 when all clients together have, with when to try
    /// again.
    pub(crate) fn admit(self: &Arc<Self>, address: IpAddr) -> Result<CountedRequest, Failure> {
        let client = Client::of(address);
        let mut usage = self.lock();
        if usage.of_all >= MOST {
            let message = format!(
                "{MOST} requests are being served at this moment, the most that there may be; \
                 send this one again later"
            );
            return Err(later(Kind::Unavailable, message));
        }
        if !usage.of_each.take(client, 1, self.per_client) {
            let message = format!(
                "your address has {} requests at this moment, the most that one address may; \
                 send this one again later",
                self.per_client
            );
            return Err(later(Kind::RateLimited, message));
        }
        usage.of_all += 1;
        Ok(CountedRequest { concurrency: Arc::clone(self), client })
    }

    fn lock(&self) -> MutexGuard<'_, Usage> {
        sync::lock(&self.usage)
    }
}

fn later(kind: Kind, message: String) -> Failure {
    Failure { retry_after: Some(RETRY_AFTER), ..Failure::new(kind, message) }
}

/// A request that is counted.
pub(crate) struct CountedRequest {
    concurrency: Arc<ClientConcurrency>,
    client: Client,
}

impl Drop for CountedRequest {
    fn drop(&mut self) {
        let mut usage = self.concurrency.lock();
        usage.of_each.give_back(self.client, 1);
        usage.of_all = usage.of_all.saturating_sub(1);
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
    #[test]
    fn all_clients_together_have_a_bound() {
        let concurrency = ClientConcurrency::new(usize::MAX);
        let of = |number: u64| {
            let [.., third, last] = number.to_be_bytes();
            concurrency.admit([192, 0, third, last].into())
        };
        let mut all: Vec<_> = (0..MOST).map(|number| of(number).unwrap()).collect();
        assert_eq!(of(MOST).err().unwrap().kind, Kind::Unavailable);
        all.pop();
        assert!(of(MOST).is_ok());
    }
}

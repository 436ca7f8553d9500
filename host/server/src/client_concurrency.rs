//! Limit on the simultaneous requests of a client, for proxies and for HTTP/2.
//!
//! This file prevents 2 attacks:
//! - A client behind a proxy sends thousands of requests at once, and no other client behind that
//!   proxy is served. The connections of a proxy are not counted by address (see
//!   [`crate::connection_slots`]).
//! - An HTTP/2 client cancels each request at once, and the work continues without a place on the
//!   connection.
//!
//! A client may have as many simultaneous requests as connections. A direct HTTP/1.1 connection
//! carries a single request at a time and is not counted here again.

use crate::client_usage::ClientUsage;
use bulkhead_wire::client::Client;
use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::sync;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};

/// Retry delay after a refusal, in milliseconds.
const RETRY_AFTER: u64 = 1_000;

/// Maximum number of counted requests of all clients: the maximum number of connections.
const MAX_COUNTED_REQUESTS: u64 = 4096;

/// The number of requests in progress, for each client and in total.
pub(crate) struct ClientConcurrency {
    per_client: u64,
    usage: Mutex<ConcurrencyUsage>,
}

#[derive(Default)]
struct ConcurrencyUsage {
    of_each: ClientUsage,
    of_all: u64,
}

impl ClientConcurrency {
    /// Creates a limit of `per_address` simultaneous requests for each client.
    pub(crate) fn new(per_address: usize) -> Arc<Self> {
        let per_client = u64::try_from(per_address).unwrap_or(u64::MAX);
        Arc::new(Self { per_client, usage: Mutex::default() })
    }

    /// Counts a request from `address` until the returned guard is dropped.
    ///
    /// # Errors
    /// 429 if the client is at its limit, 503 if all clients together have [`MAX_COUNTED_REQUESTS`]
    /// requests; both with a retry delay.
    pub(crate) fn admit(self: &Arc<Self>, address: IpAddr) -> Result<CountedRequest, Failure> {
        let client = Client::of(address);
        let mut usage = self.lock();
        if usage.of_all >= MAX_COUNTED_REQUESTS {
            let message = format!(
                "{MAX_COUNTED_REQUESTS} requests are being served at this moment, the maximum; \
                 send this request again later"
            );
            return Err(retry_failure(FailureKind::Unavailable, message));
        }
        if !usage.of_each.take(client, 1, self.per_client) {
            let message = format!(
                "your address has {} requests at this moment, the maximum of an address; send this \
                 request again later",
                self.per_client
            );
            return Err(retry_failure(FailureKind::RateLimited, message));
        }
        usage.of_all += 1;
        Ok(CountedRequest { concurrency: Arc::clone(self), client })
    }

    fn lock(&self) -> MutexGuard<'_, ConcurrencyUsage> {
        sync::lock(&self.usage)
    }
}

fn retry_failure(kind: FailureKind, message: String) -> Failure {
    Failure { retry_after: Some(RETRY_AFTER), ..Failure::new(kind, message) }
}

/// The guard of a counted request.
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
    fn proxied_client_is_bounded_without_limiting_others() {
        let (concurrency, client) = (ClientConcurrency::new(2), IpAddr::from([192, 0, 2, 1]));
        let (_first, second) =
            (concurrency.admit(client).unwrap(), concurrency.admit(client).unwrap());
        let refused = concurrency.admit(client).err().unwrap();
        assert_eq!((refused.kind, refused.retry_after), (FailureKind::RateLimited, Some(1_000)));
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
        let mut all: Vec<_> = (0..MAX_COUNTED_REQUESTS).map(|number| of(number).unwrap()).collect();
        assert_eq!(of(MAX_COUNTED_REQUESTS).err().unwrap().kind, FailureKind::Unavailable);
        all.pop();
        assert!(of(MAX_COUNTED_REQUESTS).is_ok());
    }
}

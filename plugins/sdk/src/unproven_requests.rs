//! Requests to a provider that callers cause before they have proven anything.
//!
//! The attack this file stops: forged tokens with invented subjects, each of which costs the
//! provider a request and uses up the quota that the mount's honest callers need. A client has a
//! number of refused requests in a minute. Only refusals count, so that many honest callers behind
//! one address do not hinder each other; simultaneous requests may exceed the number.

use crate::call::Call;
use crate::database_plugin::StoreTime;
use crate::host::Host;
use bulkhead_wire::client::Client;
use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::hexadecimal;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// Maximum number of unproven requests of a client in a window.
pub const MAX_REQUESTS: u32 = 30;
/// Length of a window, in seconds.
const WINDOW_SECS: u32 = 60;

/// The refused requests of a client. Concurrent calls may lose a count, which favours the client.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct UnprovenRequests {
    requests: u32,
    /// Store time of the first request.
    begun: StoreTime,
}

/// Checks that the caller may cause a request.
///
/// # Errors
/// Rate limited, with the time until the end of the window, if the caller's client has the maximum
/// of refused requests. Failures of the cache.
pub fn admit(host: &dyn Host, call: &Call) -> Result<(), Failure> {
    let Some(found) = find(host, call)?.filter(|found| found.requests >= MAX_REQUESTS) else {
        return Ok(());
    };
    let end = found.begun.saturating_add(u64::from(WINDOW_SECS) * 1_000);
    let message = format!(
        "{MAX_REQUESTS} logins from this address in a minute asked the provider about unknown \
         tokens; try again later, with a token known to the provider"
    );
    let retry_after = Some(end.saturating_sub(host.clock().now()).max(1_000));
    Err(Failure { retry_after, ..Failure::new(FailureKind::RateLimited, message) })
}

/// Counts a request that [`admit`] let pass if the request ended with a refusal. A proof, and a
/// provider that does not answer, do not count.
///
/// # Errors
/// Failures of the cache.
pub fn settle<T>(host: &dyn Host, call: &Call, proof: &Result<T, Failure>) -> Result<(), Failure> {
    let refusals = [FailureKind::InvalidRequest, FailureKind::PermissionDenied];
    if !proof.as_ref().is_err_and(|why| refusals.contains(&why.kind)) {
        return Ok(());
    }
    let begun = host.clock().now();
    let found = find(host, call)?.unwrap_or(UnprovenRequests { requests: 0, begun });
    let counted = UnprovenRequests { requests: found.requests.saturating_add(1), ..found };
    let bytes = serde_json::to_vec(&counted)
        .map_err(|_| Failure::internal("a count cannot be written as JSON"))?;
    host.cache().put(&key(call), &bytes, WINDOW_SECS)
}

/// Returns the requests of the present window.
fn find(host: &dyn Host, call: &Call) -> Result<Option<UnprovenRequests>, Failure> {
    let bytes = host.cache().get(&key(call))?;
    let found: Option<UnprovenRequests> =
        bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let now = host.clock().now();
    let is_present =
        |found: &UnprovenRequests| now < found.begun.saturating_add(u64::from(WINDOW_SECS) * 1_000);
    Ok(found.filter(is_present))
}

/// Returns the cache key of the caller's client. Callers without an address share a key.
fn key(call: &Call) -> String {
    let address: Option<IpAddr> = call.caller.remote_address.parse().ok();
    match address.map(Client::of) {
        Some(client) => {
            let client = format!("{client:?}");
            format!("unproven-requests/{}", hexadecimal::text(client.as_bytes()))
        }
        None => "unproven-requests/none".to_owned(),
    }
}

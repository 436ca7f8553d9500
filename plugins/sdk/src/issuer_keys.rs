//! Public keys of a token issuer, kept in memory by key id.
//!
//! The attacks this file stops:
//!
//! - Tokens with invented key ids, each of which would cost the issuer and this server a request.
//!   Unknown ids cost at most one request per minute, counted from the second set on.
//! - A key that the issuer has withdrawn but that is trusted forever. A set is kept for a day at
//!   most, regardless of the issuer's lifetime, and fetched again after half of its time, so that a
//!   short outage of the issuer does not refuse valid tokens.
//! - A set so large that finding a key takes a long time.
//!
//! A key is found only by the set's origin and the key id, never by other parts of a token.

use crate::host::{Host, LogLevel};
use crate::http::Response;
use crate::provider::nonsense;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::hexadecimal;
use std::collections::BTreeMap;

/// Default lifetime of a kept set, if the issuer states none, in seconds.
const DEFAULT_TTL_SECS: u64 = 3_600;
/// Minimum and maximum lifetime of a kept set, in seconds.
const MIN_TTL_SECS: u64 = 300;
const MAX_TTL_SECS: u64 = 86_400;
/// Minimum time between two fetches caused by unknown ids, in seconds.
const REFETCH_INTERVAL_SECS: u32 = 60;
/// Maximum number of keys in a set, and maximum size of the set in bytes.
const MAX_KEYS: usize = 100;
const MAX_SET_BYTES: usize = 256 << 10;

/// A fetched set of keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FetchedKeys {
    /// Keys by id, each a JWK or PEM.
    pub keys: BTreeMap<String, String>,
    /// Lifetime that the issuer states, in seconds; see [`lifetime`].
    pub lifetime: Option<u64>,
}

/// Returns the lifetime of a response in seconds: the `max-age` of `cache-control`.
#[must_use]
pub fn lifetime(answer: &Response) -> Option<u64> {
    let control = answer.header("cache-control")?;
    let age = control.split(',').find_map(|part| part.trim().strip_prefix("max-age="))?;
    age.trim().parse().ok()
}

/// Returns the key `id` of the set at `endpoint`. `fetch` fetches the set and should take less than
/// ten seconds, because other callers that wait then start their own fetch.
///
/// `endpoint` names the set and is not secret. If a write of the configuration must drop the kept
/// set, `endpoint` also contains a number that grows with each write.
///
/// # Errors
/// Those of the cache; the failure of `fetch`; unreachable for a set that is too large.
pub fn find(
    host: &dyn Host,
    endpoint: &str,
    id: &str,
    fetch: impl Fn() -> Result<FetchedKeys, Failure>,
) -> Result<Option<String>, Failure> {
    find_admitted(host, endpoint, id, || Ok(()), fetch)
}

/// As [`find`], for an endpoint that an unproven token chose. `admit` is called before the caller
/// causes a fetch; its failure is returned, and leaves no mark of a fetch behind, so that a caller
/// over a limit keeps no new key from others.
///
/// # Errors
/// As [`find`]; the failure of `admit`.
pub fn find_admitted(
    host: &dyn Host,
    endpoint: &str,
    id: &str,
    admit: impl Fn() -> Result<(), Failure>,
    fetch: impl Fn() -> Result<FetchedKeys, Failure>,
) -> Result<Option<String>, Failure> {
    let digest = host.crypto().digest("sha256", endpoint.as_bytes())?;
    let digest = hexadecimal::text(&digest);
    let (set, quiet) = (format!("issuer-keys/{digest}"), format!("unknown-keys/{digest}"));
    if host.cache().get(&set)?.is_none() {
        admit()?;
    }
    let Some(keys) = host.cache().get_or_lead(&set)? else {
        return Ok(fetched(host, &set, &fetch)?.remove(id));
    };
    if let Some(mut newer) = refreshed(host, &set, &fetch)? {
        return Ok(newer.remove(id));
    }
    if let Some(key) = read(&keys)?.remove(id) {
        return Ok(Some(key));
    }
    admit()?;
    if host.cache().get_or_lead(&quiet)?.is_some() {
        // The leading call, or a call within the last minute, has fetched the newest set.
        let keys = host.cache().get(&set)?.unwrap_or(keys);
        return Ok(read(&keys)?.remove(id));
    }
    let again = fetched(host, &set, &fetch);
    // Also after a failure, so that an issuer that is down is asked no more often.
    host.cache().put(&quiet, b"asked", REFETCH_INTERVAL_SECS)?;
    Ok(again?.remove(id))
}

/// Fetches the set again after half of its time. `None` if the set is young or the fetch fails.
fn refreshed(
    host: &dyn Host,
    set: &str,
    fetch: impl Fn() -> Result<FetchedKeys, Failure>,
) -> Result<Option<BTreeMap<String, String>>, Failure> {
    let young = young(set);
    if host.cache().get(&young)?.is_some() {
        return Ok(None);
    }
    // First, so that concurrent calls do not fetch, too. After a failure, the next attempt is in a
    // minute.
    host.cache().put(&young, b"asked", REFETCH_INTERVAL_SECS)?;
    match fetched(host, set, fetch) {
        Ok(keys) => Ok(Some(keys)),
        Err(why) => {
            host.log().write(LogLevel::Warn, "issuer-keys-not-refreshed", &[("why", &why.message)]);
            Ok(None)
        }
    }
}

/// Returns the key of the marker that exists for half of a set's time.
fn young(set: &str) -> String {
    format!("young-{set}")
}

fn fetched(
    host: &dyn Host,
    set: &str,
    fetch: impl Fn() -> Result<FetchedKeys, Failure>,
) -> Result<BTreeMap<String, String>, Failure> {
    let FetchedKeys { keys, lifetime } = fetch()?;
    let bytes = serde_json::to_vec(&keys)
        .map_err(|_| Failure::internal("a set of keys cannot be written as JSON"))?;
    if keys.len() > MAX_KEYS || bytes.len() > MAX_SET_BYTES {
        return Err(nonsense("the set of keys has more than 100 keys, or more than 256 KiB"));
    }
    let keep = lifetime.unwrap_or(DEFAULT_TTL_SECS).clamp(MIN_TTL_SECS, MAX_TTL_SECS);
    let keep = u32::try_from(keep).unwrap_or(REFETCH_INTERVAL_SECS);
    host.cache().put(set, &bytes, keep)?;
    host.cache().put(&young(set), b"fetched", keep / 2)?;
    Ok(keys)
}

fn read(keys: &[u8]) -> Result<BTreeMap<String, String>, Failure> {
    serde_json::from_slice(keys).map_err(|_| Failure::internal("a kept set of keys does not parse"))
}

#[cfg(test)]
mod tests;

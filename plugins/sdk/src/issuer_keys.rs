//! The public keys of a tokens' issuer, kept in memory by their ids.
//!
//! The attacks this file stops: tokens of made-up keys, each of which would cost the issuer, and
//! us, a request (an unknown id costs one in a minute at most, counted from the second set on); a
//! key that its issuer has withdrawn and that is trusted for ever (a set is kept for a day at most,
//! however long its issuer says, and asked for again after half of its time, so that an issuer
//! which is down for a while keeps none out); and a set so large that finding a key in it takes a
//! while. Keys are found by where they came from and their id, and by nothing that a token brings
//! along.

use crate::host::{Host, Level};
use crate::http::Response;
use crate::provider::nonsense;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::hexadecimal;
use std::collections::BTreeMap;

/// Seconds that a set is kept where its issuer does not say.
const USUAL: u64 = 3_600;
/// Least and most that a set is kept, in seconds.
const SHORTEST: u64 = 300;
const LONGEST: u64 = 86_400;
/// Seconds in which unknown ids cost one request.
const QUIET: u32 = 60;
/// Keys of a set, and bytes of all of them.
const KEYS: usize = 100;
const BYTES: usize = 256 << 10;

/// A set as it was fetched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fetched {
    /// By id, each a JWK or PEM.
    pub keys: BTreeMap<String, String>,
    /// Seconds for which the issuer says that the set holds; see [`lifetime`].
    pub lifetime: Option<u64>,
}

/// The seconds that an answer may be kept, by its `cache-control`.
#[must_use]
pub fn lifetime(answer: &Response) -> Option<u64> {
    let control = answer.header("cache-control")?;
    let age = control.split(',').find_map(|part| part.trim().strip_prefix("max-age="))?;
    age.trim().parse().ok()
}

/// Returns the key with that id in the set of `endpoint`. `fetch` gets the set; it should take less
/// than ten seconds, after which others that wait begin, too.
///
/// `endpoint` names the set and is no secret. Where an operator writes the configuration anew to
/// drop what is kept, `endpoint` also holds a number that grows with each write.
///
/// # Errors
/// As the cache; what `fetch` fails with; unreachable for a set that is too large.
pub fn find(
    host: &dyn Host,
    endpoint: &str,
    id: &str,
    fetch: impl Fn() -> Result<Fetched, Failure>,
) -> Result<Option<String>, Failure> {
    let digest = host.crypto().digest("sha256", endpoint.as_bytes())?;
    let digest = hexadecimal::text(&digest);
    let (set, quiet) = (format!("issuer-keys/{digest}"), format!("unknown-keys/{digest}"));
    let Some(keys) = host.cache().get_or_lead(&set)? else {
        return Ok(fetched(host, &set, &fetch)?.remove(id));
    };
    if let Some(mut newer) = refreshed(host, &set, &fetch)? {
        return Ok(newer.remove(id));
    }
    if let Some(key) = read(&keys)?.remove(id) {
        return Ok(Some(key));
    }
    if host.cache().get_or_lead(&quiet)?.is_some() {
        // The call that led, or one within the last minute, has fetched what there is.
        let keys = host.cache().get(&set)?.unwrap_or(keys);
        return Ok(read(&keys)?.remove(id));
    }
    let again = fetched(host, &set, &fetch);
    // Also where it failed: an issuer that is down is asked no oftener.
    host.cache().put(&quiet, b"asked", QUIET)?;
    Ok(again?.remove(id))
}

/// The set, fetched again, where half of its time is over and its issuer answers.
fn refreshed(
    host: &dyn Host,
    set: &str,
    fetch: impl Fn() -> Result<Fetched, Failure>,
) -> Result<Option<BTreeMap<String, String>>, Failure> {
    let young = young(set);
    if host.cache().get(&young)?.is_some() {
        return Ok(None);
    }
    // First, so that others do not ask as well; where it fails it is tried again in a minute.
    host.cache().put(&young, b"asked", QUIET)?;
    match fetched(host, set, fetch) {
        Ok(keys) => Ok(Some(keys)),
        Err(why) => {
            host.log().write(Level::Warn, "issuer-keys-not-refreshed", &[("why", &why.message)]);
            Ok(None)
        }
    }
}

/// What is kept for half of the time of a set.
fn young(set: &str) -> String {
    format!("young-{set}")
}

fn fetched(
    host: &dyn Host,
    set: &str,
    fetch: impl Fn() -> Result<Fetched, Failure>,
) -> Result<BTreeMap<String, String>, Failure> {
    let Fetched { keys, lifetime } = fetch()?;
    let bytes = serde_json::to_vec(&keys)
        .map_err(|_| Failure::internal("a set of keys cannot be written as JSON"))?;
    if keys.len() > KEYS || bytes.len() > BYTES {
        return Err(nonsense("the set of keys has more than 100 keys, or more than 256 KiB"));
    }
    let keep = lifetime.unwrap_or(USUAL).clamp(SHORTEST, LONGEST);
    let keep = u32::try_from(keep).unwrap_or(QUIET);
    host.cache().put(set, &bytes, keep)?;
    host.cache().put(&young(set), b"fetched", keep / 2)?;
    Ok(keys)
}

fn read(keys: &[u8]) -> Result<BTreeMap<String, String>, Failure> {
    serde_json::from_slice(keys).map_err(|_| Failure::internal("a kept set of keys does not parse"))
}

#[cfg(test)]
mod tests;

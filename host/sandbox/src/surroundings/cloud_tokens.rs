//! Tokens of the machine that are kept until shortly before their end, for all mounts that are
//! granted them.
//!
//! The faults that this file stops: a metadata service, which answers a few questions a second,
//! asked by each of a thousand logins; and calls that wait for one that hangs, each as long as the
//! first. Of many that want the same token one asks, and what it is refused holds for those that
//! waited.

use super::cloud::{Cloud, Given};
use bulkhead_wire::failure::{Failure, Kind};
use bulkhead_wire::sync;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;
use zeroize::Zeroizing;

/// Tokens that are kept: clouds and audiences.
const MOST: usize = 64;
/// A token that ends sooner is asked for anew: Google's service gives a new one four minutes before
/// the end of the old.
const MARGIN: u64 = 225_000;
/// How long a refusal holds for calls that waited for it.
const REFUSED: Duration = Duration::from_secs(1);

/// The tokens of all clouds and audiences.
#[derive(Default)]
pub(crate) struct CloudTokens {
    places: Mutex<BTreeMap<Key, Place>>,
}

type Key = (Cloud, String);

struct Place {
    kept: Arc<tokio::sync::Mutex<Kept>>,
    used: Instant,
}

/// What is kept for one cloud and audience. No `Debug`: it holds a token.
#[derive(Default)]
pub(crate) struct Kept {
    token: Option<(Zeroizing<String>, u64)>,
    refused: Option<(Failure, Instant)>,
}

impl CloudTokens {
    /// What is kept for `audience`: its holder asks the cloud where it has nothing, and all others
    /// wait for it.
    pub(crate) fn of(
        &self,
        cloud: Cloud,
        audience: &str,
        used: Instant,
    ) -> Arc<tokio::sync::Mutex<Kept>> {
        let (mut places, key) = (sync::lock(&self.places), (cloud, audience.to_owned()));
        if !places.contains_key(&key) && places.len() >= MOST {
            let oldest = places.iter().min_by_key(|(_, place)| place.used);
            let oldest = oldest.map(|(key, _)| key.clone());
            oldest.map(|key| places.remove(&key));
        }
        let place = places.entry(key).or_insert_with(|| Place { kept: Arc::default(), used });
        place.used = used;
        Arc::clone(&place.kept)
    }

    /// Forgets all of them.
    pub(crate) fn clear(&self) {
        sync::lock(&self.places).clear();
    }
}

impl Kept {
    /// What need not be asked: a token that does not end soon, or what the last question was
    /// refused, a moment ago.
    pub(crate) fn answer(&self, now: u64, at: Instant) -> Option<Result<Given, Failure>> {
        if let Some(given) = self.token_beyond(now.saturating_add(MARGIN)) {
            return Some(Ok(given));
        }
        let (refused, since) = self.refused.as_ref()?;
        let is_recent = at.saturating_duration_since(*since) < REFUSED;
        is_recent.then(|| Err(refused.clone()))
    }

    /// Keeps what was answered. A service that fails for a while costs nothing while the token
    /// before holds.
    pub(crate) fn keep(
        &mut self,
        answer: Result<Given, Failure>,
        now: u64,
        at: Instant,
    ) -> Result<Given, Failure> {
        let refused = match answer {
            Ok(given) => {
                self.token = Some((Zeroizing::new(given.token.clone()), given.expires));
                self.refused = None;
                return Ok(given);
            }
            Err(refused) => refused,
        };
        if refused.kind == Kind::InvalidRequest {
            self.token = None;
        }
        self.refused = Some((refused.clone(), at));
        self.token_beyond(now).ok_or(refused)
    }

    fn token_beyond(&self, time: u64) -> Option<Given> {
        let (token, expires) = self.token.as_ref().filter(|(_, expires)| *expires > time)?;
        Some(Given { token: token.to_string(), expires: *expires })
    }
}

#[cfg(test)]
mod tests;

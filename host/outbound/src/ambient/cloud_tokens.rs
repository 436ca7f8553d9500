//! Tokens of the machine, cached until shortly before their expiry, for all mounts that are granted
//! them.
//!
//! This file prevents a thousand logins from each asking a metadata service that answers a few
//! requests per second. This file also prevents calls from waiting for a hanging service one after
//! another, each for the full timeout. Of many calls for the same token, a single call asks, and a
//! refusal applies to all calls that waited.

use super::cloud::{CloudProvider, ExpiringToken};
use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::sync;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;
use zeroize::Zeroizing;

/// Maximum number of cached tokens, by cloud and audience.
const MAX_CACHED_TOKENS: usize = 64;
/// Remaining lifetime, in milliseconds, below which a token is requested again: Google's service
/// gives a new token four minutes before the expiry of the old token.
const RENEWAL_MARGIN_MS: u64 = 225_000;
/// Time for which a refusal applies to calls that waited for it.
const REFUSAL_TIME: Duration = Duration::from_secs(1);

/// The tokens of all clouds and audiences.
#[derive(Default)]
pub struct CloudTokens {
    places: Mutex<BTreeMap<TokenKey, TokenSlot>>,
}

type TokenKey = (CloudProvider, String);

struct TokenSlot {
    kept: Arc<tokio::sync::Mutex<CachedToken>>,
    used: Instant,
}

/// The cached result for a cloud and an audience. No `Debug`, because of the token.
#[derive(Default)]
pub struct CachedToken {
    token: Option<(Zeroizing<String>, u64)>,
    refused: Option<(Failure, Instant)>,
}

impl CloudTokens {
    /// Returns the entry for `audience`. The call that holds the entry's lock asks the cloud if the
    /// entry is empty; all others wait.
    pub fn of(
        &self,
        cloud: CloudProvider,
        audience: &str,
        used: Instant,
    ) -> Arc<tokio::sync::Mutex<CachedToken>> {
        let (mut places, key) = (sync::lock(&self.places), (cloud, audience.to_owned()));
        if !places.contains_key(&key) && places.len() >= MAX_CACHED_TOKENS {
            let oldest = places.iter().min_by_key(|(_, place)| place.used);
            let oldest = oldest.map(|(key, _)| key.clone());
            oldest.map(|key| places.remove(&key));
        }
        let place = places.entry(key).or_insert_with(|| TokenSlot { kept: Arc::default(), used });
        place.used = used;
        Arc::clone(&place.kept)
    }

    /// Drops all tokens.
    pub fn clear(&self) {
        sync::lock(&self.places).clear();
    }
}

impl CachedToken {
    /// Returns a cached token that does not expire soon, or a recent refusal.
    pub fn cached_answer(&self, now: u64, at: Instant) -> Option<Result<ExpiringToken, Failure>> {
        if let Some(token) = self.token_valid_after(now.saturating_add(RENEWAL_MARGIN_MS)) {
            return Some(Ok(token));
        }
        let (refused, since) = self.refused.as_ref()?;
        let is_recent = at.saturating_duration_since(*since) < REFUSAL_TIME;
        is_recent.then(|| Err(refused.clone()))
    }

    /// Caches the answer. If the service fails, returns the previous token while the token is valid
    /// and was not refused.
    pub fn store_answer(
        &mut self,
        answer: Result<ExpiringToken, Failure>,
        now: u64,
        at: Instant,
    ) -> Result<ExpiringToken, Failure> {
        let refused = match answer {
            Ok(token) => {
                self.token = Some((Zeroizing::new(token.token.clone()), token.expires));
                self.refused = None;
                return Ok(token);
            }
            Err(refused) => refused,
        };
        if refused.kind == FailureKind::InvalidRequest {
            self.token = None;
        }
        self.refused = Some((refused.clone(), at));
        self.token_valid_after(now).ok_or(refused)
    }

    fn token_valid_after(&self, time: u64) -> Option<ExpiringToken> {
        let (token, expires) = self.token.as_ref().filter(|(_, expires)| *expires > time)?;
        Some(ExpiringToken { token: token.to_string(), expires: *expires })
    }
}

#[cfg(test)]
mod tests;

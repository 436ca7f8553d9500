//! The `cache` import: the mount's bounded cache in memory.

use crate::bindings::secrets_engine::bulkhead::plugin::cache::Host;
use crate::cache::{CacheLookup, ValueCache};
use crate::contract::Failure;
use crate::grants::Act;
use crate::limits;
use crate::state::{CallState, refusal};
use bulkhead_wire::failure::{Failure as Refused, quoted};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use zeroize::Zeroizing;

type CachedValue = Option<Vec<u8>>;

impl Host for CallState {
    fn get(&mut self, key: String) -> wasmtime::Result<Result<CachedValue, Failure>> {
        granted!(self, Act::Cache);
        if let Err(refused) = check(&key) {
            return Ok(Err(refused));
        }
        let found = cache(self).get(&key, Instant::now());
        read(self, found)
    }

    async fn get_or_lead(&mut self, key: String) -> wasmtime::Result<Result<CachedValue, Failure>> {
        granted!(self, Act::Cache);
        if let Err(refused) = check(&key) {
            return Ok(Err(refused));
        }
        if self.leads.contains_key(&key) {
            // The call holds the lead, so waiting would be waiting for itself.
            let found = cache(self).get(&key, Instant::now());
            return read(self, found);
        }
        // The lead is kept until the call ends.
        self.charge(key.len().saturating_add(limits::CACHE_ENTRY_BYTES))?;
        let until = self.context.deadline.min(Instant::now() + limits::CACHE_LEAD_TIME);
        match cache(self).get_or_lead(&key, until).await {
            CacheLookup::Value(value) => read(self, Some(value)),
            CacheLookup::Lead(lead) => {
                self.leads.insert(key, lead);
                Ok(Ok(None))
            }
        }
    }

    fn put(
        &mut self,
        key: String,
        value: Vec<u8>,
        ttl: u32,
    ) -> wasmtime::Result<Result<(), Failure>> {
        granted!(self, Act::Cache);
        let value = Zeroizing::new(value);
        if let Err(refused) = check(&key).and_then(|()| check_value(&value, ttl)) {
            return Ok(Err(refused));
        }
        let room = self.limits().cache_bytes;
        let until = Instant::now() + Duration::from_secs(ttl.into());
        cache(self).put(&key, value, until, room);
        self.resources.caches.evict_down_to(limits::CACHES_BYTES);
        self.leads.remove(&key);
        Ok(Ok(()))
    }

    fn remove(&mut self, key: String) -> wasmtime::Result<Result<(), Failure>> {
        granted!(self, Act::Cache);
        if let Err(refused) = check(&key) {
            return Ok(Err(refused));
        }
        cache(self).remove(&key);
        self.leads.remove(&key);
        Ok(Ok(()))
    }
}

fn cache(state: &CallState) -> Arc<ValueCache> {
    state.resources.caches.of(state.mount(), &state.plugin.digest)
}

/// Returns the value that was found. The copy that the host held is charged to the call.
fn read(
    state: &mut CallState,
    found: Option<Zeroizing<Vec<u8>>>,
) -> wasmtime::Result<Result<CachedValue, Failure>> {
    state.charge(found.as_ref().map_or(0, |value| value.len()))?;
    Ok(Ok(found.map(|mut value| std::mem::take(&mut *value))))
}

fn check(key: &str) -> Result<(), Failure> {
    if (1..=limits::KEY_BYTES).contains(&key.len()) && !key.chars().any(char::is_control) {
        return Ok(());
    }
    let key = quoted(key);
    Err(refusal(&Refused::invalid(format!(
        "{key} is not a key of the cache: 1 to 512 bytes of printable text"
    ))))
}

fn check_value(value: &[u8], ttl: u32) -> Result<(), Failure> {
    if value.len() > limits::VALUE_BYTES {
        let bytes = value.len();
        return Err(refusal(&Refused::invalid(format!(
            "a value in the cache has at most 1 MiB; this has {bytes} bytes"
        ))));
    }
    if !(1..=limits::CACHE_SECONDS).contains(&ttl) {
        let message = format!(
            "a value is kept for 1 to {} seconds; {ttl} were asked for",
            limits::CACHE_SECONDS
        );
        return Err(refusal(&Refused::invalid(message)));
    }
    Ok(())
}

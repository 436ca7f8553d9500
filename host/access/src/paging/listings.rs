//! Listings under construction.
//!
//! This file prevents a few listings of thousands of entries from taking the memory of the process.
//! A listing is read page by page, and only the text is kept, even if the caller asks for all
//! names. A listing of more than [`MAX_UNSLOTTED_BYTES`] bytes needs a slot and waits for a free
//! slot; a listing of more than [`MAX_LISTING_BYTES`] bytes is refused, with advice on paging.

use super::Paging;
use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::listing::Listing;
use bulkhead_wire::size;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum number of long listings at the same time.
const MAX_LONG_LISTINGS: usize = 2;
/// Maximum size of a listing without a slot, in bytes.
const MAX_UNSLOTTED_BYTES: usize = 64 << 10;
/// Maximum size of a listing, in bytes.
const MAX_LISTING_BYTES: usize = 16 << 20;
/// Memory of a name in a sorted set beside the text, in bytes.
const OF_A_NAME: usize = 48;
/// Retry-after value if no slot is free, in milliseconds.
const RETRY_AFTER: u64 = 1_000;

/// The slots of long listings.
pub struct ListingSlots {
    slots: Arc<Semaphore>,
    /// Maximum time that a listing waits for a slot.
    slot_timeout: Duration,
}

impl ListingSlots {
    /// Creates the slots, all free.
    pub fn new(patience: Duration) -> Arc<Self> {
        Arc::new(Self {
            slots: Arc::new(Semaphore::new(MAX_LONG_LISTINGS)),
            slot_timeout: patience,
        })
    }

    fn room(self: &Arc<Self>) -> ListingMemory {
        ListingMemory { listings: Arc::clone(self), bytes: 0, slot: None }
    }
}

/// The memory of one listing.
struct ListingMemory {
    listings: Arc<ListingSlots>,
    bytes: usize,
    slot: Option<Arc<OwnedSemaphorePermit>>,
}

impl ListingMemory {
    /// Counts `bytes` more, and takes a slot if necessary.
    ///
    /// # Errors
    /// 413 if the listing is too long, 503 if no slot becomes free.
    async fn reserve_bytes(&mut self, bytes: usize) -> Result<(), Failure> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > MAX_LISTING_BYTES {
            return Err(Failure::new(
                FailureKind::TooLarge,
                format!(
                    "the listing is longer than {}; ask for parts with limit, and with after, the \
                     last name of the part before",
                    size::show(u64::try_from(MAX_LISTING_BYTES).unwrap_or(u64::MAX))
                ),
            ));
        }
        if self.bytes > MAX_UNSLOTTED_BYTES && self.slot.is_none() {
            let slots = Arc::clone(&self.listings.slots);
            let slot =
                tokio::time::timeout(self.listings.slot_timeout, slots.acquire_owned()).await;
            self.slot = Some(Arc::new(slot.ok().and_then(Result::ok).ok_or_else(busy_failure)?));
        }
        Ok(())
    }

    fn shrink(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// Returns the finished listing, which keeps the slot. `None` if the listing is empty.
    fn finish(self, keys: String, key_info: Option<String>, entries: usize) -> Option<Listing> {
        let room = self.slot.map(|slot| -> Arc<dyn std::any::Any + Send + Sync> { slot });
        (entries > 0).then_some(Listing { keys, key_info, entries, room })
    }
}

fn busy_failure() -> Failure {
    let message = "too many long listings are asked for at once; try again later, or ask for parts \
                   with after and limit";
    Failure { retry_after: Some(RETRY_AFTER), ..Failure::new(FailureKind::Unavailable, message) }
}

/// The text of a listing; keys must be added in order.
pub struct ListingText {
    room: ListingMemory,
    keys: String,
    key_info: Option<String>,
    entries: usize,
}

impl ListingText {
    /// Begins a listing of names.
    pub fn of_names(listings: &Arc<ListingSlots>) -> Self {
        let keys = "[".to_owned();
        Self { room: listings.room(), keys, key_info: None, entries: 0 }
    }

    /// Begins a listing of names with an object for each name.
    pub fn with_info(listings: &Arc<ListingSlots>) -> Self {
        Self { key_info: Some("{".to_owned()), ..Self::of_names(listings) }
    }

    /// Returns the number of added keys.
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// Adds a key with its object.
    ///
    /// # Errors
    /// As [`ListingMemory::reserve_bytes`].
    pub async fn add(&mut self, key: &str, info: &Map<String, Value>) -> Result<(), Failure> {
        let name = Value::from(key).to_string();
        let info = self.key_info.as_ref().map(|_| format!("{name}:{}", json(info)));
        let bytes = name.len() + info.as_ref().map_or(0, |info| info.len() + 1) + 1;
        self.room.reserve_bytes(bytes).await?;
        let comma = if self.entries > 0 { "," } else { "" };
        self.keys.extend([comma, &name]);
        if let (Some(all), Some(info)) = (&mut self.key_info, info) {
            all.extend([comma, &info]);
        }
        self.entries += 1;
        Ok(())
    }

    /// Returns the finished listing; `None` if there is no key.
    pub fn end(mut self) -> Option<Listing> {
        self.keys.push(']');
        if let Some(info) = &mut self.key_info {
            info.push('}');
        }
        let Self { room, keys, key_info, entries } = self;
        room.finish(keys, key_info, entries)
    }
}

fn json(info: &Map<String, Value>) -> String {
    // All keys of the object are texts, so serialisation cannot fail.
    serde_json::to_string(info).unwrap_or_else(|_| "{}".to_owned())
}

/// The smallest names that match the paging, added in any order.
pub struct SortedNames {
    room: ListingMemory,
    paging: Paging,
    found: BTreeSet<String>,
}

impl SortedNames {
    /// Creates an empty set.
    pub fn new(listings: &Arc<ListingSlots>, paging: Paging) -> Self {
        Self { room: listings.room(), paging, found: BTreeSet::new() }
    }

    /// Adds a name, if the name belongs to the requested part.
    ///
    /// # Errors
    /// As [`ListingText::add`].
    pub async fn add(&mut self, name: String) -> Result<(), Failure> {
        if name <= self.paging.after || self.found.contains(&name) {
            return Ok(());
        }
        let is_full = self.found.len() >= self.paging.limit;
        if is_full && self.found.last().is_some_and(|last| name > *last) {
            return Ok(());
        }
        if is_full && let Some(last) = self.found.pop_last() {
            self.room.shrink(last.len() + OF_A_NAME);
        }
        self.room.reserve_bytes(name.len() + OF_A_NAME).await?;
        self.found.insert(name);
        Ok(())
    }

    /// Returns the finished listing; `None` if there is no name.
    pub fn end(self) -> Option<Listing> {
        let Self { room, mut found, .. } = self;
        let entries = found.len();
        let mut keys = "[".to_owned();
        // Each name is freed when its text is written.
        while let Some(name) = found.pop_first() {
            keys.extend([if keys.len() > 1 { "," } else { "" }, &Value::from(name).to_string()]);
        }
        keys.push(']');
        room.finish(keys, None, entries)
    }
}

#[cfg(test)]
mod tests;

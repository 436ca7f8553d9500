//! Listings that are being made.
//!
//! The attack this file stops: a few listings of thousands of entries that take the memory of the
//! process. A listing is read page by page, whether the caller asks for a part or for all, and its
//! text alone is held. Beyond a few KiB it takes a slot, of which there are few, and waits for
//! one where all are taken; beyond its bound it is refused, in words that say how to ask for parts.

use super::Paging;
use bulkhead_wire::failure::{Failure, Kind};
use bulkhead_wire::listing::Listing;
use bulkhead_wire::size;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Long listings that are made at a time.
const SLOTS: usize = 2;
/// Bytes that a listing takes without a slot.
const FREE: usize = 64 << 10;
/// Longest listing, in bytes.
const MOST: usize = 16 << 20;
/// Bytes that a name in a sorted set takes beside its text.
const OF_A_NAME: usize = 48;
/// How long a request may be asked to wait before it tries again, in milliseconds.
const RETRY_AFTER: u64 = 1_000;

/// The slots of long listings.
pub(crate) struct Listings {
    slots: Arc<Semaphore>,
    /// How long a listing waits for a slot.
    patience: Duration,
}

impl Listings {
    /// Creates the slots, all free.
    pub(crate) fn new(patience: Duration) -> Arc<Self> {
        Arc::new(Self { slots: Arc::new(Semaphore::new(SLOTS)), patience })
    }

    fn room(self: &Arc<Self>) -> Room {
        Room { listings: Arc::clone(self), bytes: 0, slot: None }
    }
}

/// The memory of one listing.
struct Room {
    listings: Arc<Listings>,
    bytes: usize,
    slot: Option<Arc<OwnedSemaphorePermit>>,
}

impl Room {
    /// Takes so many bytes more.
    ///
    /// # Errors
    /// 413 for a listing that is too long, 503 where no slot becomes free.
    async fn grow(&mut self, bytes: usize) -> Result<(), Failure> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > MOST {
            return Err(Failure::new(
                Kind::TooLarge,
                format!(
                    "the listing is longer than {}; ask for parts of it with limit, and with \
                     after, the last name of the part before",
                    size::show(u64::try_from(MOST).unwrap_or(u64::MAX))
                ),
            ));
        }
        if self.bytes > FREE && self.slot.is_none() {
            let slots = Arc::clone(&self.listings.slots);
            let slot = tokio::time::timeout(self.listings.patience, slots.acquire_owned()).await;
            self.slot = Some(Arc::new(slot.ok().and_then(Result::ok).ok_or_else(busy)?));
        }
        Ok(())
    }

    fn shrink(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// Returns the finished listing, which keeps the slot; `None` without an entry.
    fn finish(self, keys: String, key_info: Option<String>, entries: usize) -> Option<Listing> {
        let room = self.slot.map(|slot| -> Arc<dyn std::any::Any + Send + Sync> { slot });
        (entries > 0).then_some(Listing { keys, key_info, entries, room })
    }
}

fn busy() -> Failure {
    let message = "too many long listings are asked for at once; try again later, or ask for parts \
                   with after and limit";
    Failure { retry_after: Some(RETRY_AFTER), ..Failure::new(Kind::Unavailable, message) }
}

/// A listing that is made in the order of its keys.
pub(crate) struct ListingText {
    room: Room,
    keys: String,
    key_info: Option<String>,
    entries: usize,
}

impl ListingText {
    /// Begins a listing of names.
    pub(crate) fn of_names(listings: &Arc<Listings>) -> Self {
        let keys = "[".to_owned();
        Self { room: listings.room(), keys, key_info: None, entries: 0 }
    }

    /// Begins a listing of names with an object for each name.
    pub(crate) fn with_info(listings: &Arc<Listings>) -> Self {
        Self { key_info: Some("{".to_owned()), ..Self::of_names(listings) }
    }

    /// Number of keys so far.
    pub(crate) fn entries(&self) -> usize {
        self.entries
    }

    /// Adds a key, and what is told of it.
    ///
    /// # Errors
    /// As [`Room::grow`].
    pub(crate) async fn add(
        &mut self,
        key: &str,
        info: &Map<String, Value>,
    ) -> Result<(), Failure> {
        let name = Value::from(key).to_string();
        let info = self.key_info.as_ref().map(|_| format!("{name}:{}", json(info)));
        let bytes = name.len() + info.as_ref().map_or(0, |info| info.len() + 1) + 1;
        self.room.grow(bytes).await?;
        let comma = if self.entries > 0 { "," } else { "" };
        self.keys.extend([comma, &name]);
        if let (Some(all), Some(info)) = (&mut self.key_info, info) {
            all.extend([comma, &info]);
        }
        self.entries += 1;
        Ok(())
    }

    /// The whole listing; `None` without a key.
    pub(crate) fn end(mut self) -> Option<Listing> {
        self.keys.push(']');
        if let Some(info) = &mut self.key_info {
            info.push('}');
        }
        let Self { room, keys, key_info, entries } = self;
        room.finish(keys, key_info, entries)
    }
}

fn json(info: &Map<String, Value>) -> String {
    // Its keys are texts, so that it can always be written.
    serde_json::to_string(info).unwrap_or_else(|_| "{}".to_owned())
}

/// The smallest names that were asked for, found in any order.
pub(crate) struct SortedNames {
    room: Room,
    paging: Paging,
    found: BTreeSet<String>,
}

impl SortedNames {
    /// None yet.
    pub(crate) fn new(listings: &Arc<Listings>, paging: Paging) -> Self {
        Self { room: listings.room(), paging, found: BTreeSet::new() }
    }

    /// Adds a name, if it is asked for.
    ///
    /// # Errors
    /// As [`ListingText::add`].
    pub(crate) async fn add(&mut self, name: String) -> Result<(), Failure> {
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
        self.room.grow(name.len() + OF_A_NAME).await?;
        self.found.insert(name);
        Ok(())
    }

    /// The whole listing; `None` without a name.
    pub(crate) fn end(self) -> Option<Listing> {
        let Self { room, mut found, .. } = self;
        let entries = found.len();
        let mut keys = "[".to_owned();
        // Each name goes as its text comes.
        while let Some(name) = found.pop_first() {
            keys.extend([if keys.len() > 1 { "," } else { "" }, &Value::from(name).to_string()]);
        }
        keys.push(']');
        room.finish(keys, None, entries)
    }
}

#[cfg(test)]
mod tests;

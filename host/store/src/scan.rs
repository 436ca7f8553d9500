//! Scans over keys, page by page, for tasks that work through many records. A task holds a single
//! page in memory, and no commit checks the keys of a scan again.
//!
//! A scan sees every record that exists from its start to its end. A record that is added or
//! removed meanwhile is seen or not, depending on the position of the scan.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::store::Store;
use bulkhead_record::fault::StoreFault;
use bulkhead_record::range::KeyRange;
use bulkhead_record::record::{Address, Space};

/// Default number of keys per page.
const PAGE: u32 = 100;

/// A scan over keys, created by [`Store::scan`]. The caller asks for pages until there are none.
pub struct PrefixScan {
    store: Arc<Store>,
    space: Space,
    prefix: String,
    after: String,
    limit: u32,
    is_over: bool,
}

/// A scan over the records of an owner, created by [`Store::scan_owned`]. The caller asks for pages
/// until there are none.
pub struct OwnedScan {
    store: Arc<Store>,
    space: Space,
    owner: String,
    /// The number of the last row seen.
    after: i64,
    limit: u32,
    is_over: bool,
}

impl Store {
    /// Returns a scan over the keys of `space` that begin with `prefix`, in the order of their
    /// bytes.
    pub fn scan(self: &Arc<Self>, space: Space, prefix: impl Into<String>) -> PrefixScan {
        PrefixScan {
            store: Arc::clone(self),
            space,
            prefix: prefix.into(),
            after: String::new(),
            limit: PAGE,
            is_over: false,
        }
    }

    /// Returns a scan over the keys of `space` that belong to `owner`, in the order of their first
    /// write, found by index. An empty owner owns nothing.
    pub fn scan_owned(self: &Arc<Self>, space: Space, owner: impl Into<String>) -> OwnedScan {
        OwnedScan {
            store: Arc::clone(self),
            space,
            owner: owner.into(),
            after: 0,
            limit: PAGE,
            is_over: false,
        }
    }
}

impl PrefixScan {
    /// Sets the maximum number of keys per page; 0 returns no pages.
    #[must_use]
    pub fn by(self, limit: u32) -> PrefixScan {
        PrefixScan { limit, ..self }
    }

    /// Returns the next page, never empty; `None` at the end.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the database cannot be read. The caller can ask for the same
    /// page again.
    pub async fn page(&mut self) -> Result<Option<Vec<Address>>, StoreFault> {
        if self.is_over {
            return Ok(None);
        }
        let range = KeyRange::new(self.space, &self.prefix, &self.after);
        let keys = self.store.list(&range, self.limit).await?;
        self.is_over = is_last(keys.len(), self.limit);
        if let Some(last) = keys.last() {
            self.after.clone_from(last);
        }
        Ok(addresses(self.space, keys))
    }

    /// Continues after `key`, which may lie anywhere, to skip the keys between.
    pub fn skip_to(&mut self, key: impl Into<String>) {
        self.after = key.into();
        self.is_over = false;
    }
}

impl OwnedScan {
    /// Sets the maximum number of keys per page; 0 returns no pages.
    #[must_use]
    pub fn by(self, limit: u32) -> OwnedScan {
        OwnedScan { limit, ..self }
    }

    /// Returns the next page, never empty; `None` at the end.
    ///
    /// # Errors
    /// As [`PrefixScan::page`].
    pub async fn page(&mut self) -> Result<Option<Vec<Address>>, StoreFault> {
        if self.is_over {
            return Ok(None);
        }
        let rows = self.store.owned((self.space, &self.owner), self.after, self.limit).await?;
        self.is_over = is_last(rows.len(), self.limit);
        if let Some((last, _)) = rows.last() {
            self.after = *last;
        }
        Ok(addresses(self.space, rows.into_iter().map(|(_, key)| key)))
    }
}

/// Returns `true` if nothing follows a page of `found` keys.
fn is_last(found: usize, limit: u32) -> bool {
    found == 0 || u32::try_from(found).is_ok_and(|found| found < limit)
}

/// Returns the addresses of `keys`; `None` for no keys.
fn addresses(space: Space, keys: impl IntoIterator<Item = String>) -> Option<Vec<Address>> {
    let addresses: Vec<Address> = keys.into_iter().map(|key| Address::new(space, key)).collect();
    (!addresses.is_empty()).then_some(addresses)
}

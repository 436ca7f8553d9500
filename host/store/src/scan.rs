//! Scans over keys, page by page, for tasks that work through many records. A task holds a single
//! page in memory, and no commit checks the keys of a scan again.
//!
//! A scan sees every record that exists from its start to its end. A record that is added or
//! removed meanwhile is seen or not, depending on the position of the scan.

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::IndexColumns;
    use crate::testing::{ScratchDirectory, data, put, put_indexed};

    fn keys(page: Vec<Address>) -> Vec<String> {
        page.into_iter().map(|address| address.key).collect()
    }

    async fn pages(mut scan: PrefixScan) -> Vec<Vec<String>> {
        let mut pages = Vec::new();
        while let Some(page) = scan.page().await.unwrap() {
            pages.push(keys(page));
        }
        pages
    }

    async fn owned(mut scan: OwnedScan) -> Vec<Vec<String>> {
        let mut pages = Vec::new();
        while let Some(page) = scan.page().await.unwrap() {
            pages.push(keys(page));
        }
        pages
    }

    async fn filled(scratch: &ScratchDirectory) -> Arc<Store> {
        let store = scratch.open().await;
        for key in ["b/1", "a/1", "a/3", "a/2"] {
            let index = IndexColumns { owner: "token".into(), ..IndexColumns::default() };
            put_indexed(&store, data(key), "x", index).await;
        }
        put(&store, data("a/0"), "of nobody").await;
        put(&store, Address::new(Space::Core, "a/9"), "of another kind").await;
        store
    }

    #[tokio::test]
    async fn walk_gives_each_prefix_key_once_in_order() {
        let scratch = ScratchDirectory::new();
        let store = filled(&scratch).await;
        for (limit, expected) in [
            (2, vec![vec!["a/0", "a/1"], vec!["a/2", "a/3"]]),
            (3, vec![vec!["a/0", "a/1", "a/2"], vec!["a/3"]]),
            (99, vec![vec!["a/0", "a/1", "a/2", "a/3"]]),
        ] {
            assert_eq!(
                pages(store.scan(Space::Data, "a/").by(limit)).await,
                expected,
                "by {limit}"
            );
        }
        for nothing in [store.scan(Space::Data, "c"), store.scan(Space::Data, "a").by(0)] {
            assert!(pages(nothing).await.is_empty());
        }
    }

    #[tokio::test]
    async fn owner_records_are_listed_once_in_creation_order() {
        let scratch = ScratchDirectory::new();
        let store = filled(&scratch).await;
        let scan = |owner: &str| store.scan_owned(Space::Data, owner);
        assert_eq!(owned(scan("token").by(3)).await, [vec!["b/1", "a/1", "a/3"], vec!["a/2"]]);
        assert_eq!(owned(scan("token").by(4)).await, [["b/1", "a/1", "a/3", "a/2"]]);
        for nothing in [scan(""), scan("nobody"), scan("token").by(0)] {
            assert!(owned(nothing).await.is_empty());
        }
        // A record that leaves its owner is left out; a rewritten record keeps its place.
        let index = IndexColumns { owner: "token".into(), ..IndexColumns::default() };
        put_indexed(&store, data("b/1"), "y", index).await;
        put(&store, data("a/1"), "on its own").await;
        assert_eq!(owned(scan("token")).await, [["b/1", "a/3", "a/2"]]);
    }

    #[tokio::test]
    async fn scan_continues_at_given_key_even_after_end() {
        let scratch = ScratchDirectory::new();
        let store = filled(&scratch).await;
        let mut scan = store.scan(Space::Data, "");
        assert_eq!(scan.page().await.unwrap().unwrap().len(), 5);
        assert_eq!(scan.page().await.unwrap(), None);
        scan.skip_to("a/\u{10ffff}");
        assert_eq!(scan.page().await.unwrap().unwrap(), [data("b/1")]);
        scan.skip_to("z");
        assert_eq!(scan.page().await.unwrap(), None);
    }
}

//! Scans over keys, page by page, as of each moment: a task that works through many records holds a
//! page of them and no more, and nothing of the scan is remembered that a commit would have to
//! check.
//!
//! A scan sees every record that is there from its beginning to its end. One that comes or goes
//! meanwhile is seen or not, as its key lies before or behind the place where the scan is.

use std::sync::Arc;

use crate::fault::StoreFault;
use crate::range::KeyRange;
use crate::record::{Address, Space};
use crate::store::Store;

/// Keys that are read at a time.
const PAGE: u32 = 100;

/// A scan, made by [`Store::scan`] or [`Store::scan_owned`]; asked for its pages until there is
/// none.
pub struct Scan {
    store: Arc<Store>,
    space: Space,
    over: Over,
    after: String,
    limit: u32,
    is_over: bool,
}

/// Which keys of the space.
enum Over {
    Prefix(String),
    Owner(String),
}

impl Store {
    /// A scan over the keys of `space` that begin with `prefix`, in the order of their bytes.
    pub fn scan(self: &Arc<Self>, space: Space, prefix: impl Into<String>) -> Scan {
        Scan::new(self, space, Over::Prefix(prefix.into()))
    }

    /// A scan over the keys of `space` that belong to `owner`, in the order of their bytes, found
    /// by index. An empty owner owns nothing.
    pub fn scan_owned(self: &Arc<Self>, space: Space, owner: impl Into<String>) -> Scan {
        Scan::new(self, space, Over::Owner(owner.into()))
    }
}

impl Scan {
    fn new(store: &Arc<Store>, space: Space, over: Over) -> Scan {
        Scan {
            store: Arc::clone(store),
            space,
            over,
            after: String::new(),
            limit: PAGE,
            is_over: false,
        }
    }

    /// The same scan, with at most `limit` keys a page; 0 scans nowhere.
    #[must_use]
    pub fn by(self, limit: u32) -> Scan {
        Scan { limit, ..self }
    }

    /// The next page, never empty; `None` at the end.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] when the database cannot be read. The same page can be asked for
    /// again.
    pub async fn page(&mut self) -> Result<Option<Vec<Address>>, StoreFault> {
        if self.is_over {
            return Ok(None);
        }
        let keys = match &self.over {
            Over::Prefix(prefix) => {
                self.store.list(&KeyRange::new(self.space, prefix, &self.after), self.limit).await?
            }
            Over::Owner(owner) => {
                self.store.owned(self.space, owner, &self.after, self.limit).await?
            }
        };
        self.is_over = u32::try_from(keys.len()).is_ok_and(|found| found < self.limit);
        let Some(last) = keys.last() else {
            self.is_over = true;
            return Ok(None);
        };
        self.after.clone_from(last);
        Ok(Some(keys.into_iter().map(|key| Address::new(self.space, key)).collect()))
    }

    /// Goes on behind `key`, which may be anywhere: to leave out what lies between.
    pub fn skip_to(&mut self, key: impl Into<String>) {
        self.after = key.into();
        self.is_over = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Index;
    use crate::testing::{Scratch, data, put, put_indexed};

    async fn pages(mut scan: Scan) -> Vec<Vec<String>> {
        let mut pages = Vec::new();
        while let Some(page) = scan.page().await.unwrap() {
            pages.push(page.into_iter().map(|address| address.key).collect());
        }
        pages
    }

    async fn filled(scratch: &Scratch) -> Arc<Store> {
        let store = scratch.open().await;
        for key in ["a/1", "a/2", "a/3", "b/1"] {
            let index = Index { owner: "token".into(), ..Index::default() };
            put_indexed(&store, data(key), "x", index).await;
        }
        put(&store, data("a/0"), "of nobody").await;
        put(&store, Address::new(Space::Core, "a/9"), "of another kind").await;
        store
    }

    #[tokio::test]
    async fn a_walk_gives_every_key_of_its_prefix_or_owner_once_and_in_order() {
        let scratch = Scratch::new();
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
        let owned = pages(store.scan_owned(Space::Data, "token").by(3)).await;
        assert_eq!(owned, [vec!["a/1", "a/2", "a/3"], vec!["b/1"]]);
        for nothing in [
            store.scan(Space::Data, "c"),
            store.scan_owned(Space::Data, ""),
            store.scan(Space::Data, "a").by(0),
        ] {
            assert!(pages(nothing).await.is_empty());
        }
    }

    #[tokio::test]
    async fn a_scan_goes_on_where_it_is_sent_also_after_its_end() {
        let scratch = Scratch::new();
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

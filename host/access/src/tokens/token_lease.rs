//! Leases of tokens: a token is its own lease, with the path of the request that made it and the
//! key of its row as the id.
//!
//! This file prevents a lease id from giving a token away: the key of the row is a keyed hash,
//! which neither authenticates nor leads back to the token or its accessor.

use super::record::{TokenRecord, read};
use super::table::Tokens;
use bulkhead_store::{Address, Space, Unit};
use bulkhead_wire::failure::Failure;
use std::sync::Arc;

/// A token that has a lease.
pub struct TokenLease {
    /// Key of the token's row: the last part of the id.
    pub key: String,
    /// The token's record.
    pub record: Arc<TokenRecord>,
}

impl TokenLease {
    /// Returns the token's lease; `None` for a token that never expires, has ended, or wraps an
    /// answer.
    fn of(key: &str, record: Arc<TokenRecord>, now_ms: u64) -> Option<Self> {
        let has_lease =
            record.expires.is_some() && record.is_alive(now_ms) && !record.is_wrapping();
        has_lease.then(|| Self { key: key.to_owned(), record })
    }
}

impl Tokens {
    /// Returns the token with this lease id.
    ///
    /// # Errors
    /// The store's failure.
    pub async fn find_lease(
        &self,
        unit: &mut Unit,
        id: &str,
    ) -> Result<Option<TokenLease>, Failure> {
        let Some((path, key)) = id.rsplit_once('/') else { return Ok(None) };
        let found = read(unit, key).await?.filter(|record| record.path == path);
        Ok(found.and_then(|record| TokenLease::of(key, record, self.store.now())))
    }

    /// Returns the leases of a page of token rows. A row that cannot be read is logged and left
    /// out.
    ///
    /// # Errors
    /// The store's failure.
    pub async fn leases_of(&self, page: &[Address]) -> Result<Vec<TokenLease>, Failure> {
        let (mut unit, now) = (self.store.begin(), self.store.now());
        let mut leases = Vec::new();
        for Address { key, .. } in page {
            let record = self.read_or_log(&mut unit, key).await?;
            leases.extend(record.and_then(|record| TokenLease::of(key, record, now)));
        }
        Ok(leases)
    }

    /// Returns the pages of all token rows.
    pub fn pages(&self) -> bulkhead_store::PrefixScan {
        self.store.scan(Space::Token, "")
    }
}

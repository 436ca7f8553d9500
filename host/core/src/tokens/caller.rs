//! A token that was presented and holds.

use super::keys;
use super::record::{TokenRecord, TokenType};
use super::uses::Use;
use bulkhead_store::Store;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::secret::Secret;
use std::sync::Arc;

/// A token that was presented and holds.
#[derive(Clone)]
pub(crate) struct Caller {
    /// Keyed hash that stands for the token wherever it must be told from others. Of a service
    /// token it is the key of its row, too.
    pub(crate) hash: String,
    pub(crate) record: Arc<TokenRecord>,
    pub(crate) kind: TokenType,
    /// The use that the request took; `None` for tokens whose uses are not counted.
    pub(super) counted: Option<Arc<Use>>,
    /// No other request can begin after this one.
    pub(super) has_last_use: bool,
}

impl Caller {
    /// A service token, whose row is under `key`.
    pub(crate) fn service(key: String, record: Arc<TokenRecord>) -> Self {
        Self { hash: key, record, kind: TokenType::Service, counted: None, has_last_use: false }
    }

    pub(super) fn batch(store: &Store, token: &Secret, record: TokenRecord) -> Self {
        let hash = keys::of_batch(store.hashes(), token);
        Self {
            hash,
            record: Arc::new(record),
            kind: TokenType::Batch,
            counted: None,
            has_last_use: false,
        }
    }

    /// Key of the token row that owns the leases of this caller: its own, or its parent's where it
    /// has none. Empty for a batch token without a parent, whose leases stand alone.
    pub(crate) fn owner(&self) -> &str {
        match self.kind {
            TokenType::Service => &self.hash,
            TokenType::Batch => self.record.parent.as_deref().unwrap_or_default(),
        }
    }

    /// When leases of this caller end at the latest although their owner lives on, in milliseconds:
    /// with the batch token that asked for them.
    pub(crate) fn longest_lease(&self) -> Option<u64> {
        match self.kind {
            TokenType::Service => None,
            TokenType::Batch => self.record.expires.map(|expires| expires.saturating_mul(1000)),
        }
    }

    /// Refuses a secret that would end with the very request that asks for it (decision H9).
    ///
    /// # Errors
    /// 400 when the request has the token's last use.
    pub(crate) fn may_hold_leases(&self) -> Result<(), Failure> {
        if self.has_last_use {
            return Err(Failure::invalid(
                "no secret was made, because the token had one use left and the secret would have \
                 ended with it; \
                 use a token with more uses",
            ));
        }
        Ok(())
    }
}

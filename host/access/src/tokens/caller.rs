//! The caller of a request: a valid token and its record.

use super::keys;
use super::record::{TokenRecord, TokenType};
use super::uses::TokenUse;
use bulkhead_store::Store;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::secret::Secret;
use std::sync::Arc;

/// A valid token that a request presented.
#[derive(Clone)]
pub struct Caller {
    /// Keyed hash that identifies the token. For a service token the hash is also its row key.
    pub hash: String,
    /// The stored token.
    pub record: Arc<TokenRecord>,
    /// Service or batch.
    pub kind: TokenType,
    /// The use that the request took; `None` if the token's uses are not counted.
    pub(super) counted: Option<Arc<TokenUse>>,
    /// True if the request has the token's last use: no other request can begin.
    pub(super) has_last_use: bool,
}

impl Caller {
    /// Returns the caller of a service token with the row key `key`.
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

    /// Returns the key of the token row that owns this caller's leases: the token's own row, or the
    /// parent's row for a batch token. Empty for a batch token without a parent; its leases have no
    /// owner.
    pub fn lease_owner(&self) -> &str {
        match self.kind {
            TokenType::Service => &self.hash,
            TokenType::Batch => self.record.parent.as_deref().unwrap_or_default(),
        }
    }

    /// Returns the time by which this caller's leases must end even if their owner lives on, in
    /// milliseconds: the expiry of the batch token.
    pub fn longest_lease(&self) -> Option<u64> {
        match self.kind {
            TokenType::Service => None,
            TokenType::Batch => self.record.expires.map(|expires| expires.saturating_mul(1000)),
        }
    }

    /// Refuses a secret that would end together with the request that asks for the secret (decision
    /// H9).
    ///
    /// # Errors
    /// 400 if the request has the token's last use.
    pub fn may_hold_leases(&self) -> Result<(), Failure> {
        if self.has_last_use {
            return Err(Failure::invalid(
                "no secret was made, because the token had one use left and the secret would have \
                 ended with the token; use a token with more uses",
            ));
        }
        Ok(())
    }
}

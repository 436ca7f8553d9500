//! The caller for whom a wrapped answer is stored, and the limits of the stored bytes.
//!
//! This file prevents a caller with the policy `default` from filling the disk: everything that is
//! wrapped counts for its caller, and for all callers together, until the answer is opened or its
//! token ends. A stored answer counts for the entity of the caller, so that another login of the
//! same person adds no room.

use crate::tokens::Caller;
use bulkhead_store::{Store, StoredLimit};
use bulkhead_wire::failure::Failure;
use std::sync::Arc;

/// Key of the bytes of all callers, in the store.
pub(super) const PREFIX: &str = "wrapped-content/";
/// Maximum bytes of the wrapped answers of a caller.
const MAX_CALLER_BYTES: u64 = 32 << 20;
/// Maximum bytes of the wrapped answers of all callers.
const MAX_WRAPPED_BYTES: u64 = 2 << 30;
/// The payer of an answer to a caller without token and entity.
const UNAUTHENTICATED_CALLERS: &str = "strangers";

/// A caller for whom wrapped answers count, as a segment of keys.
pub struct WrappingPayer(String);

impl WrappingPayer {
    /// Returns the entity of the caller, or the token of a caller without an entity.
    pub fn of_caller(caller: &Caller) -> Self {
        match caller.record.entity_id.as_str() {
            "" => Self(format!("token-{}", caller.hash)),
            entity => Self::of_entity(entity),
        }
    }

    /// Returns the entity that a login proved.
    pub fn of_entity(entity: &str) -> Self {
        match entity {
            "" => Self(UNAUTHENTICATED_CALLERS.to_owned()),
            entity => Self(format!("entity-{entity}")),
        }
    }

    /// Returns the segment of keys.
    pub(super) fn segment(&self) -> &str {
        &self.0
    }

    /// Returns the limits of this caller and of all callers.
    pub(super) fn limits(&self) -> [Arc<StoredLimit>; 2] {
        let own = StoredLimit {
            counter: format!("{PREFIX}{}", self.0),
            most: MAX_CALLER_BYTES,
            name: "response wrapping for this caller".to_owned(),
            remedy: "open or revoke wrapping tokens, or wait until some expire; a shorter \
                     wrapping TTL frees the bytes earlier"
                .to_owned(),
        };
        let all = StoredLimit {
            counter: PREFIX.to_owned(),
            most: MAX_WRAPPED_BYTES,
            name: "response wrapping for all callers".to_owned(),
            remedy: "wait until wrapping tokens are opened or expire, or ask an operator to \
                     revoke some by accessor"
                .to_owned(),
        };
        [Arc::new(own), Arc::new(all)]
    }

    /// Checks, before a request is served, that its answer can be stored.
    ///
    /// # Errors
    /// 429 with the limit that is reached; the store's failure.
    pub async fn assert_room(&self, store: &Store) -> Result<(), Failure> {
        for limit in self.limits() {
            store.assert_room(&limit).await?;
        }
        Ok(())
    }
}

//! The tokens of an open store, with the handles for working on tokens.

use super::counts::TokenCounts;
use super::uses::TokenUses;
use crate::background::{BackgroundState, Claims};
use crate::log::Log;
use crate::sealing::SealSignal;
use bulkhead_store::Store;
use std::sync::Arc;

/// The tokens of an open store.
pub struct Tokens {
    pub(super) store: Arc<Store>,
    pub(super) claims: Arc<Claims>,
    pub(super) sealing: SealSignal,
    pub(super) log: Arc<dyn Log>,
    /// Counts of creations, renewals and ends.
    pub counts: TokenCounts,
    /// Running requests of tokens whose uses are counted.
    pub(super) uses: Arc<TokenUses>,
}

impl Tokens {
    /// Creates the tokens of a newly opened store.
    pub fn new(work: &BackgroundState) -> Arc<Self> {
        Arc::new(Self {
            store: Arc::clone(&work.store),
            claims: Arc::clone(&work.claims),
            sealing: work.sealing.clone(),
            log: Arc::clone(&work.log),
            counts: TokenCounts::default(),
            uses: Arc::default(),
        })
    }
}

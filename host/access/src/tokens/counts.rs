//! Counts of tokens since the service was opened.

use super::record::{TokenRecord, TokenType};
use crate::lifecycle_metrics::{EndCause, LifecycleCounts};

/// Counts of tokens by type. The end of a batch token, which is not stored, is not counted.
#[derive(Debug, Default)]
pub struct TokenCounts {
    service: LifecycleCounts,
    batch: LifecycleCounts,
}

impl TokenCounts {
    /// Returns the counts of the tokens of a type.
    #[must_use]
    pub fn of(&self, kind: TokenType) -> &LifecycleCounts {
        match kind {
            TokenType::Service => &self.service,
            TokenType::Batch => &self.batch,
        }
    }
}

impl TokenRecord {
    /// Returns the cause of the end of an ended token, as of `now_ms`.
    pub(super) fn end_cause(&self, now_ms: u64) -> EndCause {
        if self.used_up.is_some() || self.uses_left == Some(0) {
            return EndCause::UsedUp;
        }
        match self.expires {
            Some(expires) if expires.saturating_mul(1000) <= now_ms => EndCause::Expired,
            _ => EndCause::Revoked,
        }
    }
}

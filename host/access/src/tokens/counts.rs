//! Counts of tokens since the service was opened.

use super::record::{TokenEnding, TokenRecord, TokenType};
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
    /// Returns the record with its end at `now_ms`. A token that is already ending keeps its
    /// [`TokenEnding`] and its cause. The cause is stored, because the row may be removed later
    /// than the end, after the lifetime is over.
    pub(super) fn ended_at(&self, now_ms: u64, ending: TokenEnding) -> Self {
        let ended = Some(self.ended.unwrap_or(ending));
        let end_cause = match self.ended {
            None => Some(self.cause_at(now_ms)),
            Some(_) => self.end_cause,
        };
        Self { ended, end_cause, ..self.clone() }
    }

    /// Returns the cause of an end at `now_ms`. Only the last use sets `used_up`, so a token that
    /// is revoked without a use left is used up as well.
    fn cause_at(&self, now_ms: u64) -> EndCause {
        let is_over = |expires: u64| expires.saturating_mul(1000) <= now_ms;
        match (self.used_up, self.expires) {
            (Some(_), _) => EndCause::UsedUp,
            (None, Some(expires)) if is_over(expires) => EndCause::Expired,
            (None, _) => EndCause::Revoked,
        }
    }

    /// Returns the cause of the end of an ended token that is removed at `now_ms`. A token that an
    /// earlier release ended has no stored cause.
    pub(super) fn removal_cause(&self, now_ms: u64) -> EndCause {
        self.end_cause.unwrap_or_else(|| self.cause_at(now_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bulkhead_wire::stored::Stored;

    /// Returns a stored token that expires at 100 s and has not ended.
    fn token() -> TokenRecord {
        let written = include_str!("../../fixtures/records/token.jsonl");
        let record = TokenRecord::from_bytes(written.lines().next().unwrap().as_bytes()).unwrap();
        TokenRecord { expires: Some(100), used_up: None, ended: None, end_cause: None, ..record }
    }

    #[test]
    fn cause_of_end_stays_until_removal() {
        let last_use = TokenRecord { uses_left: Some(0), used_up: Some(40_000), ..token() };
        let without_uses = TokenRecord { uses_left: Some(0), ..token() };
        for (token, ended_at, cause) in [
            (token(), 99_999, EndCause::Revoked),
            (token(), 100_000, EndCause::Expired),
            (without_uses, 50_000, EndCause::Revoked),
            (last_use, 50_000, EndCause::UsedUp),
        ] {
            let ended = token.ended_at(ended_at, TokenEnding::Alone);
            assert_eq!(ended.removal_cause(200_000), cause);
            let again = ended.ended_at(200_000, TokenEnding::WithChildren);
            assert_eq!((again.ended, again.removal_cause(0)), (Some(TokenEnding::Alone), cause));
        }
        let earlier = TokenRecord { ended: Some(TokenEnding::Alone), ..token() };
        assert_eq!(earlier.removal_cause(100_000), EndCause::Expired);
    }
}

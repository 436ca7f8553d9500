//! Search for tokens whose end was lost.
//!
//! Normally the search finds nothing, because ends are due work stored in the rows themselves. In a
//! restored or edited store the search ends rows that are expired or marked as ended, and children
//! whose parent row is gone. Rows that cannot be read are logged and left.

use super::end::begin_end;
use super::record::{TokenEnding, TokenRecord, address, read, try_commit};
use super::table::Tokens;
use crate::background::Claim;
use crate::log::cause;
use bulkhead_store::{Address, Space, Unit};
use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::log_level::LogLevel;
use std::sync::Arc;

impl Tokens {
    /// Starts the search in the background; returns `false` if a search is already running.
    pub fn begin_tidy(self: &Arc<Self>) -> bool {
        // Not the key of a token; this address stands for the search of this process.
        let Some(turn) = self.claims.claim_here(&address("tidy")) else { return false };
        tokio::spawn(Arc::clone(self).tidy(turn));
        true
    }

    async fn tidy(self: Arc<Self>, _turn: Claim) {
        match self.search_tokens().await {
            Ok(TokenTidyCounts { seen, ended }) => {
                self.log.line(
                    LogLevel::Info,
                    "token-tidy",
                    &[("seen", seen.to_string()), ("ended", ended.to_string())],
                );
            }
            Err(failure) => self.log.line(LogLevel::Warn, "token-tidy-stopped", &[cause(&failure)]),
        }
    }

    async fn search_tokens(&self) -> Result<TokenTidyCounts, Failure> {
        let (mut found, mut scan) = (TokenTidyCounts::default(), self.store.scan(Space::Token, ""));
        while let Some(page) = scan.page().await? {
            // Page by page, so that a seal does not wait for the whole scan.
            let Ok(_in_flight) = self.sealing.enter() else {
                return Err(Failure::new(FailureKind::Unavailable, "the service is being sealed"));
            };
            for Address { key, .. } in &page {
                found.seen += 1;
                match self.end_lost(key).await {
                    Ok(ended) => found.ended += usize::from(ended),
                    Err(failure) if failure.kind == FailureKind::Internal => {
                        self.log.line(LogLevel::Error, "token-unreadable", &[cause(&failure)]);
                    }
                    Err(failure) => return Err(failure),
                }
            }
        }
        Ok(found)
    }

    /// Ends the token if its end was lost. A token that is already ending becomes due once more,
    /// which is harmless.
    async fn end_lost(&self, key: &str) -> Result<bool, Failure> {
        loop {
            let mut unit = self.store.begin();
            let Some(record) = read(&mut unit, key).await? else { return Ok(false) };
            let is_late = record.due_time().is_some_and(|due| due <= self.store.now())
                && !self.uses.is_running(key);
            if record.ended.is_none() && !is_late && !is_abandoned(&mut unit, &record).await? {
                return Ok(false);
            }
            begin_end(&mut unit, key, &record, TokenEnding::WithChildren)?;
            if try_commit(unit).await? {
                return Ok(true);
            }
        }
    }
}

/// Counts of a search.
#[derive(Default)]
struct TokenTidyCounts {
    seen: usize,
    ended: usize,
}

/// Returns true if the token's parent row is gone. An ending parent ends or releases its children
/// itself.
async fn is_abandoned(unit: &mut Unit, record: &TokenRecord) -> Result<bool, Failure> {
    let Some(parent) = &record.parent else { return Ok(false) };
    Ok(unit.get(&address(parent)).await?.is_none())
}

//! Looking for tokens whose end was lost.
//!
//! Nothing should be found: ends are due work, which is kept in the rows themselves. What is found
//! all the same, in a store that was restored or edited, is ended: rows that are past their end or
//! marked as ended, and children whose parent has no row any more. Rows that do not open are told
//! in the log and left.

use super::end::begin_end;
use super::record::{Ending, TokenRecord, address, read, try_commit};
use super::table::Tokens;
use crate::background::Claim;
use crate::log::cause;
use bulkhead_store::{Address, Space, Unit};
use bulkhead_wire::failure::{Failure, Kind};
use std::sync::Arc;

impl Tokens {
    /// Begins to look, in the background; `false` when that is under way already.
    pub(crate) fn begin_tidy(self: &Arc<Self>) -> bool {
        // Not the key of any token: it stands for the work.
        let Some(turn) = self.claims.claim(&address("tidy")) else { return false };
        tokio::spawn(Arc::clone(self).tidy(turn));
        true
    }

    async fn tidy(self: Arc<Self>, _turn: Claim) {
        match self.look().await {
            Ok(Found { seen, ended }) => {
                self.log.line(
                    "info",
                    "token-tidy",
                    &[("seen", seen.to_string()), ("ended", ended.to_string())],
                );
            }
            Err(failure) => self.log.line("warn", "token-tidy-stopped", &[cause(&failure)]),
        }
    }

    async fn look(&self) -> Result<Found, Failure> {
        let (mut found, mut scan) = (Found::default(), self.store.scan(Space::Token, ""));
        while let Some(page) = scan.page().await? {
            // One page at a time: a seal does not wait for all of them.
            let Ok(_in_flight) = self.sealing.enter() else {
                return Err(Failure::new(Kind::Unavailable, "the service is being sealed"));
            };
            for Address { key, .. } in &page {
                found.seen += 1;
                match self.end_lost(key).await {
                    Ok(ended) => found.ended += usize::from(ended),
                    Err(failure) if failure.kind == Kind::Internal => {
                        self.log.line("error", "token-unreadable", &[cause(&failure)]);
                    }
                    Err(failure) => return Err(failure),
                }
            }
        }
        Ok(found)
    }

    /// Ends the token if its end was lost. One whose end is under way is due once more, which does
    /// no harm.
    async fn end_lost(&self, key: &str) -> Result<bool, Failure> {
        loop {
            let mut unit = self.store.begin();
            let Some(record) = read(&mut unit, key).await? else { return Ok(false) };
            let is_late =
                record.due().is_some_and(|due| due <= self.store.now()) && !self.uses.any(key);
            if record.ended.is_none() && !is_late && !is_abandoned(&mut unit, &record).await? {
                return Ok(false);
            }
            begin_end(&mut unit, key, &record, Ending::WithChildren)?;
            if try_commit(unit).await? {
                return Ok(true);
            }
        }
    }
}

/// What a look found.
#[derive(Default)]
struct Found {
    seen: usize,
    ended: usize,
}

/// A child whose parent is gone. One that is ending takes its children along, or lets them go, by
/// itself.
async fn is_abandoned(unit: &mut Unit, record: &TokenRecord) -> Result<bool, Failure> {
    let Some(parent) = &record.parent else { return Ok(false) };
    Ok(unit.get(&address(parent)).await?.is_none())
}

//! Looking for tokens whose end was lost.
//!
//! Nothing should be found: ends are due work, which is kept in the rows themselves. What is found
//! all the same, in a store that was restored or edited, is ended: rows that are past their end or
//! marked as ended, and children whose parent has no row any more. Rows that do not open are told
//! in the log and left.

use super::{Ending, TokenRecord, address, begin_end, read, try_commit};
use crate::core::Core;
use bulkhead_store::{Address, Space, Unit};
use bulkhead_wire::failure::{Failure, Kind};
use std::sync::Arc;

/// Begins to look, in the background; `false` when somebody does already.
pub(crate) fn begin(core: &Arc<Core>) -> bool {
    // Not the key of any token: it stands for the work.
    let Some(turn) = core.claims.claim(&address("tidy")) else { return false };
    let core = Arc::clone(core);
    tokio::spawn(async move {
        match look(&core).await {
            Ok(Found { seen, ended }) => {
                core.log.line(
                    "info",
                    "token-tidy",
                    &[("seen", seen.to_string()), ("ended", ended.to_string())],
                );
            }
            Err(failure) => {
                core.log.line("warn", "token-tidy-stopped", &[("cause", failure.message)])
            }
        }
        drop(turn);
    });
    true
}

/// What a look found.
#[derive(Default)]
struct Found {
    seen: usize,
    ended: usize,
}

async fn look(core: &Arc<Core>) -> Result<Found, Failure> {
    let (mut found, mut scan) = (Found::default(), core.store.scan(Space::Token, ""));
    while let Some(page) = scan.page().await? {
        // One page at a time: nobody who wants to seal the service waits for all of them.
        let Ok(_in_flight) = Arc::clone(&core.process.in_flight).try_read_owned() else {
            return Err(Failure::new(Kind::Unavailable, "the service is being sealed"));
        };
        for Address { key, .. } in &page {
            found.seen += 1;
            match end_lost(core, key).await {
                Ok(ended) => found.ended += usize::from(ended),
                Err(failure) if failure.kind == Kind::Internal => {
                    core.log.line("error", "token-unreadable", &[("cause", failure.message)]);
                }
                Err(failure) => return Err(failure),
            }
        }
    }
    Ok(found)
}

/// Ends the token if its end was lost. One whose end is under way is due once more, which does no
/// harm.
async fn end_lost(core: &Core, key: &str) -> Result<bool, Failure> {
    loop {
        let mut unit = core.store.begin();
        let Some(record) = read(&mut unit, key).await? else { return Ok(false) };
        let is_late =
            record.due().is_some_and(|due| due <= core.store.now()) && !core.tokens.uses.any(key);
        if record.ended.is_none() && !is_late && !is_abandoned(&mut unit, &record).await? {
            return Ok(false);
        }
        begin_end(&mut unit, key, &record, Ending::WithChildren)?;
        if try_commit(unit).await? {
            return Ok(true);
        }
    }
}

/// A child whose parent is gone. One that is ending takes its children along, or lets them go, by
/// itself.
async fn is_abandoned(unit: &mut Unit, record: &TokenRecord) -> Result<bool, Failure> {
    let Some(parent) = &record.parent else { return Ok(false) };
    Ok(unit.get(&address(parent)).await?.is_none())
}

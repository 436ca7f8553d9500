//! Unfinished work of dead processes: reservations and guards name the epoch of their process.
//!
//! This file prevents a start from undoing the work of another process: only rows of dead epochs
//! are found (decision T62).

use bulkhead_store::{Address, Record, Store, StoreFault};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Rows of dead processes.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct DeadWork {
    /// The rows. Another process may change a row meanwhile, so that the commit that ends the work
    /// reads the row again and compares the row's epoch with `epochs`.
    pub rows: Vec<Address>,
    /// The dead epochs of the rows. The empty epoch stands for rows without an epoch.
    pub epochs: BTreeSet<String>,
}

/// Returns the rows of `page` with dead epochs. `epoch_of` returns the epoch of a row; an empty
/// epoch, of a row of an earlier release, is dead. A damaged row counts as dead, so that the caller
/// reports the damage.
///
/// The living epochs are read after the rows. A process commits a row only while its epoch lives,
/// and no dead epoch lives again: an epoch that is missing in the later reading is dead for ever.
/// In the other order, a process that starts between the readings would count as dead. On a node
/// that shares its database, only rows of earlier openings of the same data directory are dead
/// work: a process on another machine may have lost only its database, and still call a target.
/// Rows without an epoch and damaged rows are none there, and are due by themselves.
///
/// # Errors
/// [`StoreFault::Unavailable`] if the database cannot be read.
pub async fn find_dead_work(
    store: &Arc<Store>,
    page: Vec<Address>,
    epoch_of: impl Fn(&Record) -> String,
) -> Result<DeadWork, StoreFault> {
    let mut unit = store.begin();
    let mut found = Vec::with_capacity(page.len());
    for row in page {
        match unit.get(&row).await {
            Ok(Some(record)) => found.push((row, epoch_of(&record))),
            Ok(None) => {}
            Err(StoreFault::Damaged(_)) => found.push((row, String::new())),
            Err(fault) => return Err(fault),
        }
    }
    let living = store.living_epochs().await?;
    let has_ended = |epoch: &str| match store.is_shared() {
        true => store.is_of_earlier_opening(epoch),
        false => true,
    };
    let is_dead = |epoch: &str| !living.contains(epoch) && has_ended(epoch);
    let dead = found.into_iter().filter(|(_, epoch)| is_dead(epoch));
    let (rows, epochs) = dead.unzip();
    Ok(DeadWork { rows, epochs })
}

#[cfg(test)]
mod tests;

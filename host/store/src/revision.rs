//! The revision of a mount: a small number that grows by one with each commit to the mount's data,
//! in commit order (decision F3); the contract with components calls it the index. A record of such
//! a mount says at which revision it was made and at which it was changed last.
//!
//! The committer assigns it, because only there the order is known: a unit that counted for itself
//! would conflict with every other of its mount. So these records are sealed by the committer too;
//! the numbers are under their seal, and a record that does not open hands no number on.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::body::Body;
use crate::fault::StoreFault;
use crate::record::{Address, Index, Record, Space};
use crate::rows::SealedRow;
use crate::script::{Answers, Script};
use crate::seal::Seal;
use crate::statements::Asked;

/// What a unit changes in the data of a mount that has revisions.
pub(crate) struct RevisedWrites {
    /// Where the mount's counter is.
    pub(crate) counter: Address,
    /// What it puts, to be numbered and sealed. What it deletes needs neither.
    pub(crate) puts: Vec<(Address, Record)>,
}

/// Where the counter of `mount` is. The key is part of the stored format.
pub(crate) fn counter(mount: &str) -> Address {
    Address::new(Space::Core, format!("index/{mount}"))
}

/// The revision that a counter's record holds; 0 where there is none yet. It is stored as eight
/// bytes, the highest first.
///
/// # Errors
/// [`StoreFault::Damaged`] when it holds something else.
pub(crate) fn parse(counter: &Address, record: Option<&Record>) -> Result<u64, StoreFault> {
    let Some(record) = record else { return Ok(0) };
    let bytes =
        record.body.as_slice().try_into().map_err(|_| StoreFault::Damaged(counter.clone()))?;
    Ok(u64::from_be_bytes(bytes))
}

/// What the units of one group find and leave of counters and of numbered records, as far as
/// numbering needs it.
#[derive(Default)]
pub(crate) struct Revisions<'a> {
    counts: BTreeMap<&'a Address, Result<u64, StoreFault>>,
    /// At which revision each record was made; `None` where there is none, or one without a number.
    created: BTreeMap<&'a Address, Result<Option<u64>, StoreFault>>,
}

/// The rows of one numbered unit: of its counter, then of what it puts.
pub(crate) struct Numbered<'a> {
    pub(crate) revision: u64,
    pub(crate) rows: Vec<(&'a Address, SealedRow)>,
}

/// What is asked of the units that count revisions: their counters, and what they put.
pub(crate) struct AskedRevisions<'a> {
    counters: Asked<'a>,
    puts: Asked<'a>,
}

impl<'a> AskedRevisions<'a> {
    /// Asks for what the units are going to change; without such units for nothing.
    ///
    /// # Errors
    /// As [`Script::bind`].
    pub(crate) fn of(
        script: &mut Script,
        units: impl Iterator<Item = &'a RevisedWrites> + Clone,
    ) -> Result<Self, sqlx::Error> {
        let counters = Asked::rows(script, units.clone().map(|unit| &unit.counter))?;
        let puts = units.flat_map(|unit| &unit.puts).map(|(address, _)| address);
        Ok(AskedRevisions { counters, puts: Asked::rows(script, puts)? })
    }
}

impl<'a> Revisions<'a> {
    /// Reads what was found.
    ///
    /// # Errors
    /// As SQLite reports them. A row that does not open is an error only of the units that change
    /// it.
    pub(crate) fn read(
        asked: &AskedRevisions<'a>,
        answers: &Answers,
        seal: &Seal,
    ) -> Result<Self, sqlx::Error> {
        let mut revisions = Revisions::default();
        for (address, row) in asked.counters.sealed(answers)? {
            let opened = row.and_then(|row| row.open(seal));
            let count = opened.and_then(|record| parse(address, Some(&record)));
            revisions.counts.insert(address, count);
        }
        for (address, row) in asked.puts.sealed(answers)? {
            let opened = row.and_then(|row| row.open(seal));
            let created = opened.map(|record| (record.created > 0).then_some(record.created));
            revisions.created.insert(address, created);
        }
        Ok(revisions)
    }

    /// Numbers and seals what one unit writes.
    ///
    /// # Errors
    /// [`StoreFault::Damaged`] when the counter or a record that is replaced does not open;
    /// [`StoreFault::Unavailable`] when it cannot be sealed. Nothing is counted then.
    pub(crate) fn number(
        &self,
        seal: &Seal,
        writes: &'a RevisedWrites,
    ) -> Result<Numbered<'a>, StoreFault> {
        let before = self.counts.get(&writes.counter).cloned().unwrap_or(Ok(0))?;
        let revision = before.saturating_add(1);
        let body = Body::new(revision.to_be_bytes().to_vec());
        let count = Record::unwritten(body, Index::default());
        let mut rows = vec![(&writes.counter, SealedRow::of(seal, &writes.counter, &count)?)];
        for (address, record) in &writes.puts {
            let created = self.created.get(address).cloned().unwrap_or(Ok(None))?;
            let created = created.unwrap_or(revision);
            let record = Record { created, modified: revision, ..record.clone() };
            rows.push((address, SealedRow::of(seal, address, &record)?));
        }
        Ok(Numbered { revision, rows })
    }

    /// Takes note of what [`Revisions::number`] gave, for the units that come after in the same
    /// group.
    pub(crate) fn remember(&mut self, writes: &'a RevisedWrites, numbered: &Numbered<'a>) {
        self.counts.insert(&writes.counter, Ok(numbered.revision));
        for (address, _) in &writes.puts {
            let created = self.created.entry(address).or_insert(Ok(None));
            if let Ok(created) = created {
                created.get_or_insert(numbered.revision);
            }
        }
    }

    /// Takes note that nothing numbered is at `address` any more: it was deleted, or put by a unit
    /// that counts no revisions.
    pub(crate) fn forget(&mut self, address: &'a Address) {
        self.created.insert(address, Ok(None));
    }
}

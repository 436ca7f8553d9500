//! The revision of a mount: a number that grows by 1 with each commit to the mount's data, in
//! commit order (decision F3). The contract with components calls it the index. A record of such a
//! mount carries the revisions of its creation and last change.
//!
//! The committer assigns the revision, because only the committer knows the order: units that
//! counted for themselves would all conflict on the mount's counter. The committer therefore seals
//! these records as well. The seal covers the numbers, and no number is taken from a record that
//! does not open.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::mem;

use bulkhead_record::body::RecordBody;
use bulkhead_record::committed_state::{CommittedState, StateQuestions};
use bulkhead_record::fault::StoreFault;
use bulkhead_record::record::{Address, IndexColumns, Record, Space};
use bulkhead_record::rows::SealedRow;
use bulkhead_record::seal::Seal;

/// The changes of a unit to the data of a mount with revisions.
pub(crate) struct RevisedWrites {
    /// The address of the mount's counter.
    pub(crate) counter: Address,
    /// The records to number and seal. Deleted records need neither.
    pub(crate) puts: Vec<(Address, Record)>,
}

/// Returns the address of the counter of `mount`. The key is part of the stored format.
pub(crate) fn counter(mount: &str) -> Address {
    Address::new(Space::Core, format!("index/{mount}"))
}

/// Returns the revision in a counter's record; 0 if there is no record. Stored as 8 bytes,
/// big-endian.
///
/// # Errors
/// [`StoreFault::Damaged`] if the record holds something else.
pub(crate) fn parse(counter: &Address, record: Option<&Record>) -> Result<u64, StoreFault> {
    let Some(record) = record else { return Ok(0) };
    let bytes =
        record.body.as_slice().try_into().map_err(|_| StoreFault::Damaged(counter.clone()))?;
    Ok(u64::from_be_bytes(bytes))
}

/// The counters and the creation revisions of records during the planning of a group.
#[derive(Default)]
pub(crate) struct RevisionPlan<'a> {
    counts: BTreeMap<&'a Address, Result<u64, StoreFault>>,
    /// The revision at which each record was created; `None` if there is no record or no number.
    created: BTreeMap<&'a Address, Result<Option<u64>, StoreFault>>,
}

/// The rows of a numbered unit: the counter, then the records put.
pub(crate) struct NumberedRows<'a> {
    pub(crate) revision: u64,
    pub(crate) rows: Vec<(&'a Address, SealedRow)>,
}

/// Asks for the rows of the counters and records that the units change; without such units, for
/// none.
pub(crate) fn ask<'a>(
    questions: &mut StateQuestions<'a>,
    units: impl Iterator<Item = &'a RevisedWrites>,
) {
    for unit in units {
        questions.rows.insert(&unit.counter);
        questions.rows.extend(unit.puts.iter().map(|(address, _)| address));
    }
}

impl<'a> RevisionPlan<'a> {
    /// Takes the rows that [`ask`] asked for from the committed state. A row that does not open
    /// fails only the units changing the row.
    pub(crate) fn read(
        units: impl Iterator<Item = &'a RevisedWrites>,
        committed: &mut CommittedState<'a>,
        seal: &Seal,
    ) -> Self {
        let (mut revisions, mut rows) = (RevisionPlan::default(), mem::take(&mut committed.rows));
        for counter in units.map(|unit| &unit.counter) {
            let Some(row) = rows.remove(counter) else { continue };
            let opened = row.and_then(|row| row.open(seal));
            let count = opened.and_then(|record| parse(counter, Some(&record)));
            revisions.counts.insert(counter, count);
        }
        for (address, row) in rows {
            let opened = row.and_then(|row| row.open(seal));
            let created = opened.map(|record| (record.created > 0).then_some(record.created));
            revisions.created.insert(address, created);
        }
        revisions
    }

    /// Numbers and seals the records put by a unit.
    ///
    /// # Errors
    /// [`StoreFault::Damaged`] if the counter or a replaced record does not open;
    /// [`StoreFault::Unavailable`] if a record cannot be sealed. With an error, nothing is counted.
    pub(crate) fn number(
        &self,
        seal: &Seal,
        writes: &'a RevisedWrites,
    ) -> Result<NumberedRows<'a>, StoreFault> {
        let before = self.counts.get(&writes.counter).cloned().unwrap_or(Ok(0))?;
        let revision = before.saturating_add(1);
        let body = RecordBody::new(revision.to_be_bytes().to_vec());
        let count = Record::unwritten(body, IndexColumns::default());
        let mut rows = vec![(&writes.counter, SealedRow::of(seal, &writes.counter, &count)?)];
        for (address, record) in &writes.puts {
            let created = self.created.get(address).cloned().unwrap_or(Ok(None))?;
            let created = created.unwrap_or(revision);
            let record = Record { created, modified: revision, ..record.clone() };
            rows.push((address, SealedRow::of(seal, address, &record)?));
        }
        Ok(NumberedRows { revision, rows })
    }

    /// Remembers the result of [`RevisionPlan::number`] for later units of the same group.
    pub(crate) fn remember(&mut self, writes: &'a RevisedWrites, numbered: &NumberedRows<'a>) {
        self.counts.insert(&writes.counter, Ok(numbered.revision));
        for (address, _) in &writes.puts {
            let created = self.created.entry(address).or_insert(Ok(None));
            if let Ok(created) = created {
                created.get_or_insert(numbered.revision);
            }
        }
    }

    /// Notes that `address` holds no numbered record any more: it was deleted, or put by a unit
    /// that counts no revisions.
    pub(crate) fn forget(&mut self, address: &'a Address) {
        self.created.insert(address, Ok(None));
    }
}

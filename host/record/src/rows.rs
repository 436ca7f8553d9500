//! Rows of the record table: seals a record into a row, and opens a row.
//!
//! This file prevents the use of an edited database. The seal's label contains every column of the
//! row, so a row opens only with the address, stamp and index columns with which the row was
//! written.

use crate::cipher::{self, AssociatedData};
use crate::fault::StoreFault;
use crate::record::{Address, IndexColumns, Record, Stamp};
use crate::seal::Seal;

/// A sealed row.
#[derive(Clone)]
pub struct SealedRow {
    /// The place of the record.
    pub address: Address,
    /// The stamp of this write.
    pub stamp: Stamp,
    /// Store time in milliseconds, never negative.
    pub due: Option<i64>,
    /// Lane of the due work.
    pub lane: String,
    /// Owner of the record.
    pub owner: String,
    /// The revision of the mount at which the record was created; `None` if the mount has no
    /// revisions.
    pub created: Option<i64>,
    /// The revision of the mount at which the record was last changed.
    pub modified: Option<i64>,
    /// The sealed body.
    pub sealed: Vec<u8>,
}

impl SealedRow {
    /// Seals a record under a new stamp.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if there is no randomness or the body is too long to be sealed.
    pub fn of(seal: &Seal, address: &Address, record: &Record) -> Result<SealedRow, StoreFault> {
        let mut row = SealedRow {
            address: address.clone(),
            stamp: Stamp(cipher::random()?),
            due: record.index.due.map(column),
            lane: record.index.lane.clone(),
            owner: record.index.owner.clone(),
            created: (record.created > 0).then(|| column(record.created)),
            modified: (record.modified > 0).then(|| column(record.modified)),
            sealed: Vec::new(),
        };
        row.sealed = seal.seal(row.label(seal), &record.body)?;
        Ok(row)
    }

    /// Opens the row.
    ///
    /// # Errors
    /// [`StoreFault::Damaged`] if any column differs from the column that was written.
    pub fn open(self, seal: &Seal) -> Result<Record, StoreFault> {
        let Some(body) = seal.open(self.label(seal), &self.sealed) else {
            return Err(StoreFault::Damaged(self.address));
        };
        let number = |column: Option<i64>| column.and_then(|number| u64::try_from(number).ok());
        let index = IndexColumns { due: number(self.due), lane: self.lane, owner: self.owner };
        let created = number(self.created).unwrap_or_default();
        Ok(Record {
            body: body.into(),
            index,
            created,
            modified: number(self.modified).unwrap_or_default(),
            stamp: Some(self.stamp),
        })
    }

    /// Returns the label: everything that the seal covers besides the body. The order is part of
    /// the stored format.
    fn label(&self, seal: &Seal) -> AssociatedData {
        let label = seal
            .label("record")
            .text(self.address.space.name())
            .text(&self.address.key)
            .field(&self.stamp.0);
        let number = |label: AssociatedData, column: Option<i64>| match column {
            Some(number) => label.field(&number.to_be_bytes()),
            None => label.field(&[]),
        };
        let label = number(label, self.due).text(&self.lane).text(&self.owner);
        number(number(label, self.created), self.modified)
    }
}

/// Converts a number to the signed integer of a column, capped at the maximum.
pub fn column(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

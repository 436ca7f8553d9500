//! Rows of the table of records as stored, without a judgement of their content: for copies and
//! checks of a whole database.

use crate::fault::StoreFault;
use crate::record::{Address, Space, Stamp};
use crate::rows::SealedRow;

/// A row; an error for a row with a column of another type, which does not end the reading.
pub(crate) type RawRecordResult = Result<RawRecord, StoreFault>;

/// The reason why a new database did not take rows.
pub(crate) enum FillFault {
    /// Two rows have the same address, or the same name.
    SameName,
    Failed(StoreFault),
}

/// A row of `record` as stored.
#[derive(PartialEq, Eq)]
#[cfg_attr(test, derive(Clone, Debug))]
pub(crate) struct RawRecord {
    pub(crate) space: i64,
    pub(crate) key: String,
    pub(crate) stamp: Vec<u8>,
    pub(crate) due: Option<i64>,
    pub(crate) lane: String,
    pub(crate) owner: String,
    pub(crate) created: Option<i64>,
    pub(crate) modified: Option<i64>,
    pub(crate) sealed: Vec<u8>,
}

impl RawRecord {
    /// Returns the number of bytes of the longest columns.
    pub(crate) fn size(&self) -> usize {
        self.key.len().saturating_add(self.sealed.len())
    }

    /// Returns the row for opening.
    ///
    /// # Errors
    /// The name of the record, if its kind or its stamp has a form that was never written.
    pub(crate) fn into_sealed(self) -> Result<SealedRow, String> {
        let space = Space::of_number(self.space);
        let stamp = self.stamp.try_into().ok().map(Stamp);
        let (Some(space), Some(stamp)) = (space, stamp) else {
            return Err(match space {
                Some(space) => Address::new(space, self.key).to_string(),
                None => format!("{}:{}", self.space, self.key),
            });
        };
        Ok(SealedRow {
            address: Address::new(space, self.key),
            stamp,
            due: self.due,
            lane: self.lane,
            owner: self.owner,
            created: self.created,
            modified: self.modified,
            sealed: self.sealed,
        })
    }
}

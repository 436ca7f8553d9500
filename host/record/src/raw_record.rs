//! Rows of the table of records as stored, without a judgement of their content: for copies and
//! checks of a whole database.

use crate::fault::StoreFault;
use crate::record::{Address, Space, Stamp};
use crate::rows::SealedRow;

/// A row; an error for a row with a column of another type, which does not end the reading.
pub type RawRecordResult = Result<RawRecord, StoreFault>;

/// The reason why a new database did not take rows.
pub enum FillFault {
    /// Two rows have the same address, or the same name.
    SameName,
    /// Another fault.
    Failed(StoreFault),
}

/// A row of `record` as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawRecord {
    /// Number of the kind.
    pub space: i64,
    /// Key below the kind.
    pub key: String,
    /// Stamp of the last write.
    pub stamp: Vec<u8>,
    /// Store time in milliseconds.
    pub due: Option<i64>,
    /// Lane of the due work.
    pub lane: String,
    /// Owner of the record.
    pub owner: String,
    /// Revision of the mount at the first write.
    pub created: Option<i64>,
    /// Revision of the mount at the last write.
    pub modified: Option<i64>,
    /// The sealed body.
    pub sealed: Vec<u8>,
}

impl RawRecord {
    /// Returns the number of bytes of the longest columns.
    pub fn size(&self) -> usize {
        self.key.len().saturating_add(self.sealed.len())
    }

    /// Returns the row for opening.
    ///
    /// # Errors
    /// The name of the record, if its kind or its stamp has a form that was never written.
    pub fn into_sealed(self) -> Result<SealedRow, String> {
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

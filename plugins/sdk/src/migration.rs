//! Migration of stored data to another schema, in as many steps as the data need.
//!
//! ```
//! use bulkhead_sdk::migration::MigrationSteps;
//! use bulkhead_sdk::{Context, Failure, Host, stored};
//! use serde::{Deserialize, Serialize};
//!
//! /// A note of schema 1.
//! #[derive(Serialize, Deserialize)]
//! struct OldNote { text: String }
//!
//! #[derive(Serialize, Deserialize)]
//! struct Note { lines: Vec<String> }
//!
//! # impl bulkhead_sdk::wire::stored::Stored for OldNote { const KIND: &'static str = "note"; }
//! # impl bulkhead_sdk::wire::stored::Stored for Note { const KIND: &'static str = "note"; }
//! fn migrate(host: &dyn Host, _context: &Context, _from: u32) -> Result<(), Failure> {
//!     let mut steps = MigrationSteps::begin(host)?;
//!     steps.table("note/", |_name, old: OldNote| {
//!         Ok(Some(Note { lines: old.text.lines().map(str::to_owned).collect() }))
//!     })?;
//!     steps.end()
//! }
//! # let host = bulkhead_sdk::testbed::TestHost::default();
//! # assert!(migrate(&host, &Context::default(), 1).is_err());
//! ```
//!
//! Each record is transformed exactly once: the host commits the records of a step together with
//! the cursor behind them. Data that fit into one step are migrated in one commit, together with
//! the swap of the version.

use crate::host::Host;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::stored::Stored;

/// Maximum number of records of a step. The host commits at most 2,048 rows at once, and
/// `transform` may write rows of its own.
const RECORDS: u32 = 500;
/// Bytes of values, read and written, after which a step ends. The host commits at most 3 MiB.
const BYTES: usize = 1 << 20;

/// The steps of a migration: tables are transformed in a fixed order, record by record.
pub struct MigrationSteps<'h> {
    host: &'h dyn Host,
    start: MigrationCursor,
    /// The number of tables so far.
    tables: usize,
    records: u32,
    bytes: usize,
    /// Cursor of the next step, once this step is full.
    next: Option<MigrationCursor>,
}

/// The place of a record: the number of its table, and its name.
#[derive(Clone, Default, PartialEq, Eq)]
struct MigrationCursor {
    table: usize,
    /// The last record that was transformed; empty for none.
    after: String,
}

impl MigrationCursor {
    fn parse(text: &str) -> Option<Self> {
        let (table, after) = text.split_once('/')?;
        Some(Self { table: table.parse().ok()?, after: after.to_owned() })
    }

    fn text(&self) -> String {
        format!("{}/{}", self.table, self.after)
    }
}

impl<'h> MigrationSteps<'h> {
    /// Begins the step of this call of `migrate`.
    ///
    /// # Errors
    /// Unsupported outside `migrate`; internal if the cursor was not made by these steps.
    pub fn begin(host: &'h dyn Host) -> Result<Self, Failure> {
        let start = match host.migration().cursor()? {
            None => MigrationCursor::default(),
            Some(text) => MigrationCursor::parse(&text).ok_or_else(|| {
                Failure::internal(format!(
                    "the migration stopped at {text:?}, where this version cannot go on; finish \
                     the migration with another version"
                ))
            })?,
        };
        Ok(Self { host, start, tables: 0, records: 0, bytes: 0, next: None })
    }

    /// Transforms each record below `prefix` that this step has room for. `transform` gets the name
    /// of the record, which is its key without the prefix, and returns the record of the new
    /// schema, or `None` to remove the record. Call this method for the same tables in the same
    /// order in each step, whether they still have records or not.
    ///
    /// `transform` must not add records below `prefix`, which later steps would transform again.
    ///
    /// # Errors
    /// As [`get`](trait.Storage.html#method.get), for each record; the failure of `transform`.
    pub fn table<Old: Stored, New: Stored>(
        &mut self,
        prefix: &str,
        mut transform: impl FnMut(&str, Old) -> Result<Option<New>, Failure>,
    ) -> Result<(), Failure> {
        self.table_bytes(prefix, |name, bytes| {
            let old = Old::from_bytes(&bytes)
                .map_err(|unreadable| unreadable.of(format_args!("the record {prefix}{name}")))?;
            let new = transform(name, old)?;
            let unwritable =
                |_| Failure::internal(format!("{prefix}{name} cannot be written as JSON"));
            new.map(|new| new.to_bytes().map_err(unwritable)).transpose()
        })
    }

    /// Transforms the bytes of each record below `prefix`, as [`table`](Self::table) does.
    ///
    /// # Errors
    /// Those of the storage; the failure of `transform`.
    pub fn table_bytes(
        &mut self,
        prefix: &str,
        mut transform: impl FnMut(&str, Vec<u8>) -> Result<Option<Vec<u8>>, Failure>,
    ) -> Result<(), Failure> {
        let table = self.tables;
        self.tables += 1;
        if self.next.is_some() || table < self.start.table {
            return Ok(());
        }
        let is_begun = table == self.start.table;
        let mut after = if is_begun { self.start.after.clone() } else { String::new() };
        loop {
            let page = self.host.storage().scan_bytes(prefix, &after, RECORDS - self.records)?;
            if page.is_empty() {
                return Ok(());
            }
            for (name, entry) in page {
                let key = format!("{prefix}{name}");
                self.bytes += entry.value.len();
                match transform(&name, entry.value)? {
                    Some(value) => {
                        self.bytes += value.len();
                        self.host.storage().put_bytes(&key, value)?;
                    }
                    None => self.host.storage().delete(&key)?,
                }
                self.records += 1;
                after = name;
                if self.records >= RECORDS || self.bytes >= BYTES {
                    self.next = Some(MigrationCursor { table, after });
                    return Ok(());
                }
            }
        }
    }

    /// Ends the step. The host calls `migrate` again if there may be more records.
    ///
    /// # Errors
    /// Those of the import.
    pub fn end(self) -> Result<(), Failure> {
        match self.next {
            Some(next) => self.host.migration().continue_at(&next.text()),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;

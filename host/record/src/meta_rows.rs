//! The rows of the store's identity, by name. Only the layer above knows the meaning of a row,
//! except for three rows that nodes of a shared database write at the same time, or look at with
//! each read of changes.

use std::collections::BTreeMap;

/// All rows of the identity, in the order of their names.
pub type MetaRows = BTreeMap<String, Vec<u8>>;

/// A row with the new value; `None` removes the row. The removal of a missing row changes
/// nothing.
pub type MetaChange = (&'static str, Option<Vec<u8>>);

/// The only format of the store's data that this version reads and writes.
pub const FORMAT: &str = "2";

/// Name of the row with the sealed keyring.
pub const KEYRING: &str = "keyring";

/// Name of the row with the store time of the restore of data that nobody released.
pub const RESTORED: &str = "restored";

/// Name of the row with the store time that the data have reached, a decimal number.
pub const TIME: &str = "time";

/// Returns whether the rows have the values of the changes.
pub fn has_changes(rows: &MetaRows, changes: &[MetaChange]) -> bool {
    changes.iter().all(|(name, value)| rows.get(*name) == value.as_ref())
}

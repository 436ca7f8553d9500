//! The rows of the store's identity, by name. Only the layer above knows the meaning of a row.

use std::collections::BTreeMap;

/// All rows of the identity, in the order of their names.
pub type MetaRows = BTreeMap<String, Vec<u8>>;

/// A row with the new value; `None` removes the row. The removal of a missing row changes
/// nothing.
pub type MetaChange = (&'static str, Option<Vec<u8>>);

//! Snapshots of a store: a file with everything that a store consists of, sealed as on disk, taken
//! while the server works; the restore of such files; and the check of such files and of data
//! directories.
//!
//! The file is a gzip'd tar archive of these entries, in this order (`docs/snapshots.md`):
//!
//! - `meta.json`: the manifest ([`SnapshotManifest`]);
//! - `state.00000000.bin` …: the rows ([`row_format`]), about a mebibyte in each entry;
//! - `SHA256SUMS`: the SHA-256 of each entry before, as `sha256sum` writes it;
//! - `SHA256SUMS.sealed`: a keyed hash of `SHA256SUMS`, which only the cluster can compute.
//!
//! The last two names are those that published clients look for to find out whether a snapshot is
//! complete.

mod building;
mod check;
mod key_file;
mod reading;
mod restore;
mod save;
#[cfg(test)]
mod tests;

pub(crate) use bulkhead_record::row_format::push_record;
pub use bulkhead_record::snapshot_manifest::SnapshotManifest;
pub use check::{
    CheckReport, DataDamage, OpenedRecord, check_directory, check_snapshot, check_store,
};
pub use key_file::{read_key_file, read_keys};
pub use reading::{SnapshotSummary, inspect_snapshot, inspect_snapshot_while};
pub use restore::{CheckedSnapshot, PreparedRestore, RestoreConditions, restore_store};
pub use save::{SnapshotOrigin, SnapshotStream};

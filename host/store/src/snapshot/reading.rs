//! Reading a snapshot from beginning to end.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use aws_lc_rs::digest;
use bulkhead_wire::hexadecimal;

use super::archive::{MANIFEST_NAME, state_name};
use super::archive_reader::{ArchiveItem, ArchiveReader, damaged};
use super::manifest::SnapshotManifest;
use super::row_format::{self, SnapshotRow};
use crate::directory::file_failure;
use crate::fault::StoreFault;

/// The result of reading a complete snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotSummary {
    /// The description in the file.
    pub manifest: SnapshotManifest,
    /// SHA-256 of the digests of all entries, in hexadecimal. Two snapshots with the same digest
    /// have the same content.
    pub digest: String,
    /// The digests of all entries, and the keyed hash of these digests.
    pub(super) sums: String,
    pub(super) sealed_sums: String,
}

/// Reads the snapshot in `path` to the end and checks its digests. Needs no key.
///
/// # Errors
/// [`StoreFault::Refused`] if the file is not a complete snapshot, or is of a newer version;
/// [`StoreFault::Unavailable`] if the file cannot be read.
pub fn inspect_snapshot(path: &Path) -> Result<SnapshotSummary, StoreFault> {
    inspect_snapshot_while(path, || true)
}

/// As [`inspect_snapshot`], as long as `may_continue` returns true.
///
/// # Errors
/// As [`inspect_snapshot`]; [`StoreFault::Unavailable`] if `may_continue` returned false.
pub fn inspect_snapshot_while(
    path: &Path,
    may_continue: impl Fn() -> bool,
) -> Result<SnapshotSummary, StoreFault> {
    read_snapshot(open(path)?, |_| {
        may_continue().then_some(()).ok_or_else(|| {
            StoreFault::Unavailable(
                "the check of the snapshot was interrupted; take another snapshot".to_owned(),
            )
        })
    })
}

/// Opens the file of a snapshot.
///
/// # Errors
/// [`StoreFault::Unavailable`] if the file cannot be opened.
pub(super) fn open(path: &Path) -> Result<File, StoreFault> {
    File::open(path).map_err(|error| file_failure("open the snapshot", path, &error))
}

/// Reads a snapshot, and passes the rows to `take` before the digests are checked.
///
/// # Errors
/// As [`inspect_snapshot`], and the errors of `take`.
pub(super) fn read_snapshot(
    file: impl Read,
    mut take: impl FnMut(SnapshotRow) -> Result<(), StoreFault>,
) -> Result<SnapshotSummary, StoreFault> {
    let mut archive = ArchiveReader::new(file);
    let manifest = match archive.read_next()? {
        ArchiveItem::Entry(entry) if entry.name == MANIFEST_NAME => {
            SnapshotManifest::parse(&entry.content)?
        }
        _ => return Err(damaged("the first entry is not meta.json")),
    };
    let (mut parts, mut records, mut identity_rows) = (0, 0_u64, 0_u64);
    let mut count_and_take = |row| {
        match row {
            SnapshotRow::Identity(..) => identity_rows += 1,
            SnapshotRow::Record(_) => records += 1,
        }
        take(row)
    };
    let (sums, sealed_sums) = loop {
        match archive.read_next()? {
            ArchiveItem::Entry(part) if part.name == state_name(parts) => {
                row_format::read_rows(&part.content, &mut count_and_take)?;
                parts += 1;
            }
            ArchiveItem::Entry(_) => return Err(damaged("an entry is missing or out of order")),
            ArchiveItem::End { sums, sealed } => break (sums, sealed),
        }
    };
    if (records, identity_rows) != (manifest.records, manifest.identity_rows) {
        return Err(damaged("the number of rows is not the number in the manifest"));
    }
    let digest = digest::digest(&digest::SHA256, sums.as_bytes());
    let digest = hexadecimal::text(digest.as_ref());
    Ok(SnapshotSummary { manifest, digest, sums, sealed_sums })
}

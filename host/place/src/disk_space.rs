//! The free space of the disk of a data directory.
//!
//! This file prevents a restore that fills the disk of the store, so that the store can no longer
//! write.

use std::path::Path;

use rustix::fs::statvfs;

/// Number of bytes that stay free on the disk of the data directory, so that the store can still
/// write. On a disk of less than 20 GiB, a twentieth of the disk suffices.
const MIN_FREE_SPACE: u64 = 1 << 30;
const DISK_SHARE: u64 = 20;

/// A disk with too little free space. All numbers are bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskShortage {
    /// The free space.
    pub free: u64,
    /// The space that the work needs, with the reserve.
    pub needed: u64,
    /// The space that stays free for the store.
    pub reserve: u64,
}

impl DiskShortage {
    /// Returns the shortage of the disk of `directory` if `more` bytes are written; `None` if the
    /// space suffices, and for a file system without figures, which still refuses writes when the
    /// disk is full.
    #[must_use]
    pub fn find(directory: &Path, more: u64) -> Option<DiskShortage> {
        let disk = statvfs(directory).ok()?;
        let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
        let reserve = MIN_FREE_SPACE.min(bytes(disk.f_blocks) / DISK_SHARE);
        let (free, needed) = (bytes(disk.f_bavail), more.saturating_add(reserve));
        (free < needed).then_some(DiskShortage { free, needed, reserve })
    }
}

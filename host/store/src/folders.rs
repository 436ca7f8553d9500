//! The revisions of folders. A folder is the set of records whose keys share a prefix. The folder's
//! number changes after each commit that puts or deletes such a record. A value computed from a
//! folder stays valid while the number stays the same.
//!
//! This file prevents the use of a value computed from an outdated folder, or from a folder between
//! two states. A number changes after the commit can be read and before the commit is acknowledged;
//! until then the number holds for no reader.
//!
//! Numbers are kept in memory: all writes pass this process, or are read as changes of other nodes
//! (`crate::change_watch`). Numbers are kept only for folders that were
//! asked for: a commit pays nothing for other folders. A forgotten folder gets a new number. No
//! number is given twice, not even by a later process.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard};

use bulkhead_wire::sync;

use bulkhead_record::cipher;
use bulkhead_record::fault::StoreFault;
use bulkhead_record::record::{Address, Space};

/// Maximum number of folders with a known number per mount. Beyond the maximum, the folder that was
/// not asked for the longest time is forgotten.
const MOST_FOLDERS: usize = 1_024;
/// Maximum number of mounts with such folders. Beyond the maximum, all folders are forgotten.
const MOST_MOUNTS: usize = 4_096;

/// The numbers of the known folders, by mount (the first segment of their keys).
pub(crate) struct FolderNumbers {
    known: Mutex<KnownFolders>,
}

struct KnownFolders {
    mounts: HashMap<String, HashMap<String, FolderEntry>>,
    /// The last number that was given.
    last: u64,
}

struct FolderEntry {
    number: u64,
    /// The last number that was given when this folder was last asked for.
    asked: u64,
    /// `true` while the current commit writes in the folder.
    is_being_written: bool,
}

impl FolderNumbers {
    /// Creates an empty set of folders. The first number is random, so that no number of an earlier
    /// process is repeated.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if there is no randomness.
    pub(crate) fn new() -> Result<Self, StoreFault> {
        let last = u64::from_be_bytes(cipher::random()?);
        Ok(Self { known: Mutex::new(KnownFolders { mounts: HashMap::new(), last }) })
    }

    /// Returns the number of `folder`; the name ends in a slash. For an unknown folder, calls
    /// `is_being_written`, which returns `true` if the current commit writes in the folder.
    pub(crate) fn number(&self, folder: &str, is_being_written: impl FnOnce() -> bool) -> u64 {
        let mut known_folders = self.lock();
        let fresh = known_folders.next();
        if known_folders.mounts.len() >= MOST_MOUNTS
            && !known_folders.mounts.contains_key(mount_of(folder))
        {
            known_folders.mounts.clear();
        }
        let folders = known_folders.mounts.entry(mount_of(folder).to_owned()).or_default();
        if folders.len() >= MOST_FOLDERS && !folders.contains_key(folder) {
            let oldest = folders.iter().min_by_key(|(_, entry)| entry.asked);
            let oldest = oldest.map(|(name, _)| name.clone());
            oldest.and_then(|name| folders.remove(&name));
        }
        let found = folders.entry(folder.to_owned()).or_insert_with(|| FolderEntry {
            number: fresh,
            asked: fresh,
            is_being_written: is_being_written(),
        });
        found.asked = fresh;
        found.number
    }

    /// Returns a number that no folder has or will ever have.
    pub(crate) fn unused_number(&self) -> u64 {
        self.lock().next()
    }

    /// Returns `true` if the folder has this number. For the committer, which also knows the
    /// current writes.
    pub(crate) fn has(&self, folder: &str, number: u64) -> bool {
        self.lock().find(folder).is_some_and(|entry| entry.number == number)
    }

    /// Returns `true` if the folder has this number and the current commit does not change the
    /// folder.
    pub(crate) fn holds(&self, folder: &str, number: u64) -> bool {
        let known_folders = self.lock();
        known_folders
            .find(folder)
            .is_some_and(|entry| entry.number == number && !entry.is_being_written)
    }

    /// Forgets all folders, so that no number that was given is valid any more.
    pub(crate) fn forget(&self) {
        self.lock().mounts.clear();
    }

    /// Gives new numbers to folders in which another process wrote.
    pub(crate) fn note_changes<'a>(&self, changed: impl Iterator<Item = &'a Address>) {
        self.lock().visit(changed, |folder, fresh| folder.number = fresh);
    }

    /// Starts a write, before the commit.
    pub(crate) fn begin_writing<'a>(&self, written: impl Iterator<Item = &'a Address>) {
        self.lock().visit(written, |folder, _| folder.is_being_written = true);
    }

    /// Ends a write, even if the commit failed or its outcome is unknown, and before the commit is
    /// acknowledged.
    pub(crate) fn end_writing<'a>(&self, written: impl Iterator<Item = &'a Address>) {
        self.lock().visit(written, |folder, fresh| {
            folder.number = fresh;
            folder.is_being_written = false;
        });
    }

    fn lock(&self) -> MutexGuard<'_, KnownFolders> {
        sync::lock(&self.known)
    }
}

impl KnownFolders {
    fn next(&mut self) -> u64 {
        self.last = self.last.wrapping_add(1);
        self.last
    }

    fn find(&self, folder: &str) -> Option<&FolderEntry> {
        self.mounts.get(mount_of(folder))?.get(folder)
    }

    /// Visits once each known folder that contains an address, with a fresh number.
    fn visit<'a>(
        &mut self,
        addresses: impl Iterator<Item = &'a Address>,
        change: impl Fn(&mut FolderEntry, u64),
    ) {
        if self.mounts.is_empty() {
            return;
        }
        let fresh = self.next();
        let keys = addresses.filter(|address| address.space == Space::Data);
        let folders: BTreeSet<&str> = keys.flat_map(|address| folders_of(&address.key)).collect();
        for name in folders {
            let folders = self.mounts.get_mut(mount_of(name));
            if let Some(folder) = folders.and_then(|folders| folders.get_mut(name)) {
                change(folder, fresh);
            }
        }
    }
}

fn mount_of(key: &str) -> &str {
    key.split('/').next().unwrap_or_default()
}

/// Returns the folders that contain `key`.
fn folders_of(key: &str) -> impl Iterator<Item = &str> {
    key.match_indices('/').filter_map(|(slash, _)| key.get(..=slash))
}

#[cfg(test)]
mod tests;

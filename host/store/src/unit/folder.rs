//! What a unit relies on when it uses something that was made from a whole folder before.

use super::Unit;
use crate::fault::StoreFault;
use crate::record::{Address, Space};

/// Most folders on which a unit relies.
const MOST_FOLDERS: usize = 256;

impl Unit {
    /// A number that all data of which the keys begin with `folder` have together; it is another
    /// one after each commit that put or deleted any. `folder` ends in a slash, and its first
    /// segment is the mount's. It is remembered: a commit to the folder is a conflict. Where this
    /// unit has itself written there and not committed, the number is one that is never given
    /// again.
    ///
    /// # Errors
    /// [`StoreFault::Conflict`] when this unit asked before and the folder has changed;
    /// [`StoreFault::TooLarge`] when it relies on 256 others; the fault of an earlier get or
    /// checkpoint, when that has spoiled the unit.
    pub fn folder_revision(&mut self, folder: &str) -> Result<u64, StoreFault> {
        self.check_usable()?;
        let data = &self.store.data();
        let is_own =
            |address: &Address| address.space == Space::Data && address.key.starts_with(folder);
        if self.parts().flat_map(|part| part.buffer.keys()).any(is_own) {
            return Ok(data.folders.unlike_any());
        }
        let number = data.folder(folder);
        let reads = &mut self.current_part().reads;
        let remembered = reads.remember_folder(folder, number);
        if reads.folders() > MOST_FOLDERS {
            let why =
                format!("a request relies on the revisions of at most {MOST_FOLDERS} folders");
            return Err(StoreFault::TooLarge(why));
        }
        self.spoil_on_change(remembered)?;
        Ok(number)
    }
}

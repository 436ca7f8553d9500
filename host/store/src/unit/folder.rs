//! The dependence of a unit on a folder, for a unit that uses a value computed from the whole
//! folder.

use super::Unit;
use bulkhead_record::fault::StoreFault;
use bulkhead_record::record::{Address, Space};

/// Maximum number of folders on which a unit relies.
const MOST_FOLDERS: usize = 256;

impl Unit {
    /// Returns a number for all data whose keys begin with `folder`. The number changes after each
    /// commit that puts or deletes such data. `folder` ends in a slash, and the first segment is
    /// the mount's. The unit remembers the number: a commit to the folder is then a conflict. If
    /// this unit has uncommitted writes in the folder, the number is never given again.
    ///
    /// # Errors
    /// [`StoreFault::Conflict`] if this unit asked before and the folder has changed;
    /// [`StoreFault::TooLarge`] if the unit relies on 256 other folders; the fault of an earlier
    /// get or checkpoint, if that fault has spoiled the unit; [`StoreFault::Unavailable`] if the
    /// claim on the database is lost or in doubt.
    pub fn folder_revision(&mut self, folder: &str) -> Result<u64, StoreFault> {
        self.check_usable()?;
        let data = &self.store.data();
        data.database.check_claim()?;
        data.changes.check()?;
        let is_own =
            |address: &Address| address.space == Space::Data && address.key.starts_with(folder);
        if self.parts().flat_map(|part| part.buffer.keys()).any(is_own) {
            return Ok(data.folders.unused_number());
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

//! The epochs of earlier openings of a data directory, whose work an opening may end at once.
//!
//! This file prevents unfinished work from waiting for the last moment of its call after the death
//! of a node: the lock of the directory proves the death of each earlier process of the directory
//! since the start of the machine. Nothing proves the death of a process on another machine, or on
//! the machine from which this one was cloned (decision T62).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::directory;

const FILE: &str = "epochs";
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The file with the epochs.
pub struct FormerEpochs {
    directory: PathBuf,
    /// The node, and the start of its machine.
    node: String,
    /// The epoch of this opening.
    own: String,
    former: BTreeSet<String>,
}

impl FormerEpochs {
    /// Reads the epochs of earlier openings of `directory` as the node `node`, and adds the epoch
    /// of this opening. The caller holds the lock of the directory. The epochs of another node, as
    /// in a copied directory, and those of before the start of the machine do not count. A file
    /// that cannot be read or written costs time alone: the work of a missing epoch ends by itself.
    pub fn begin(directory: &Path, node: &str, own: &str) -> FormerEpochs {
        let text = std::fs::read_to_string(directory.join(FILE)).unwrap_or_default();
        let boot = std::fs::read_to_string(BOOT_ID).unwrap_or_default();
        let node = format!("{node} {}", boot.trim());
        let former = match text.split_once('\n') {
            Some((of_node, epochs)) if of_node == node => {
                epochs.lines().map(str::to_owned).collect()
            }
            _ => BTreeSet::new(),
        };
        let epochs =
            FormerEpochs { directory: directory.to_owned(), node, own: own.to_owned(), former };
        epochs.write(&epochs.former);
        epochs
    }

    /// Returns the epochs of earlier openings whose work may be unfinished.
    pub fn epochs(&self) -> &BTreeSet<String> {
        &self.former
    }

    /// Forgets the earlier openings in the file, after their work was ended.
    pub fn forget(&self) {
        self.write(&BTreeSet::new());
    }

    fn write(&self, former: &BTreeSet<String>) {
        let lines = [&self.node].into_iter().chain(former).chain([&self.own]);
        let text: String = lines.flat_map(|line| [line.as_str(), "\n"]).collect();
        if directory::write_whole(&self.directory.join(FILE), text.as_bytes()).is_ok() {
            // An opening after a power cut then reads the file from before, or none.
            _ = directory::flush(&self.directory);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epochs_of(directory: &Path, node: &str, own: &str) -> (FormerEpochs, Vec<String>) {
        let found = FormerEpochs::begin(directory, node, own);
        let epochs = found.epochs().iter().cloned().collect();
        (found, epochs)
    }

    #[test]
    fn epochs_are_known_until_their_work_ended() {
        let name = format!("bulkhead-epochs-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory).unwrap();
        assert!(epochs_of(&directory, "node", "a").1.is_empty());
        assert_eq!(epochs_of(&directory, "node", "b").1, ["a"]);
        let (third, former) = epochs_of(&directory, "node", "c");
        assert_eq!(former, ["a", "b"]);
        third.forget();
        assert_eq!(epochs_of(&directory, "node", "d").1, ["c"]);
        assert!(epochs_of(&directory, "copy", "e").1.is_empty());
        assert_eq!(epochs_of(&directory, "copy", "f").1, ["e"]);
        std::fs::remove_dir_all(&directory).unwrap();
    }
}

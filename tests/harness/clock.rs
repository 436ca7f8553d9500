//! The time of day on a server's machine, which can be set while it runs.

use crate::paths::Folder;
use crate::preload;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::OnceLock;

/// A clock of one machine. It is right until it is set.
pub struct Clock {
    folder: Folder,
}

impl Clock {
    /// A clock that is right.
    ///
    /// # Panics
    /// When its file cannot be made.
    pub fn right() -> Self {
        let clock = Self { folder: Folder::new("clock") };
        clock.set_ahead(0);
        clock
    }

    /// Sets it ahead of the right time by so many seconds; behind, below zero.
    ///
    /// # Panics
    /// When its file cannot be written.
    pub fn set_ahead(&self, seconds: i64) {
        // In place: the server sees the file's pages.
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(self.file());
        let file = file.expect("the clock's file opens");
        file.write_all_at(&seconds.to_ne_bytes(), 0).expect("the clock is set");
    }

    /// The environment of a server on that machine.
    pub fn over(&self) -> Vec<(&'static str, String)> {
        static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
        let library = LIBRARY.get_or_init(|| preload::compile("clock"));
        vec![
            ("LD_PRELOAD", library.display().to_string()),
            ("BULKHEAD_CLOCK_AHEAD", self.file().display().to_string()),
        ]
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("ahead")
    }
}

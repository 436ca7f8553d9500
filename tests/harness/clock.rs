//! The wall-clock time of a server's machine, which a test can set while the server runs.

use crate::paths::Folder;
use crate::preload;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::OnceLock;

/// Wall clock of one machine. The clock is right until a test sets it.
pub struct Clock {
    folder: Folder,
}

impl Clock {
    pub fn right() -> Self {
        let clock = Self { folder: Folder::new("clock") };
        clock.set_ahead(0);
        clock
    }

    /// Sets the clock ahead of the right time by `seconds`, or behind if `seconds` is negative.
    pub fn set_ahead(&self, seconds: i64) {
        // The server maps the file's pages, so the file is written in place.
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(self.file());
        let file = file.expect("the clock's file opens");
        file.write_all_at(&seconds.to_ne_bytes(), 0).expect("the clock is set");
    }

    /// Environment of a server on this machine.
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

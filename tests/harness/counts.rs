//! Counts of what a server asks of the C library, for budgets of requests.
//!
//! The build with failpoints allocates with the C library, so that a preloaded library sees each
//! allocation; the server that people run has its own allocator.

use crate::paths::Folder;
use crate::preload;
use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

/// Number of counters of `counts.c`.
const COUNTERS: usize = 6;

/// Sums since the start of a server, or costs of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LibraryCounts {
    pub allocations: u64,
    pub allocated_bytes: u64,
    /// Bytes that `memcpy` and `memmove` copied, with bytes that enter and leave components.
    pub copied_bytes: u64,
    /// Tasks of the runtime, with calls on the threads for blocking work.
    pub tasks: u64,
    /// Calls of `read`, `recv` and `pread64`.
    pub reads: u64,
    /// Calls of `write`, `send`, `writev` and `pwrite64`.
    pub writes: u64,
}

/// The counters of one server.
pub struct Counters(Folder);

impl Counters {
    pub fn new() -> Self {
        let counters = Self(Folder::new("counts"));
        fs::write(counters.file(), [0; 8 * COUNTERS]).expect("the counters' file is written");
        counters
    }

    /// Environment of a server with these counters.
    pub fn over(&self) -> Vec<(&'static str, String)> {
        static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
        let library = LIBRARY.get_or_init(|| preload::compile("counts"));
        vec![
            ("LD_PRELOAD", library.display().to_string()),
            ("BULKHEAD_COUNTS", self.file().display().to_string()),
        ]
    }

    pub fn read(&self) -> LibraryCounts {
        let bytes = fs::read(self.file()).expect("the counters' file is read");
        let numbers: Vec<u64> = bytes
            .chunks_exact(8)
            .map(|one| u64::from_ne_bytes(one.try_into().expect("eight bytes")))
            .collect();
        let [allocations, allocated_bytes, copied_bytes, tasks, reads, writes] = numbers[..] else {
            panic!("the file has {COUNTERS} numbers");
        };
        LibraryCounts { allocations, allocated_bytes, copied_bytes, tasks, reads, writes }
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("counts")
    }
}

impl Default for Counters {
    fn default() -> Self {
        Self::new()
    }
}

//! Where a store is, and how careful it is.

use std::path::PathBuf;

use crate::sqlite::Flushing;

/// Where a store is.
#[derive(Clone, Debug)]
pub struct Options {
    /// The data directory. Made with mode 0700 if missing; held by one process at a time.
    pub directory: PathBuf,
    /// When commits are flushed.
    pub flushing: Flushing,
}

impl Options {
    /// The store in `directory`, every commit flushed.
    pub fn at(directory: impl Into<PathBuf>) -> Options {
        Options { directory: directory.into(), flushing: Flushing::EveryCommit }
    }
}

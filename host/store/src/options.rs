//! The location and flushing mode of a store.

use std::path::PathBuf;

use crate::sqlite::Flushing;

/// The settings with which a store is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// The data directory. Created with mode 0700 if missing; held by a single process at a time.
    pub directory: PathBuf,
    /// The point at which commits are flushed to disk.
    pub flushing: Flushing,
}

impl Options {
    /// Returns the options of a store in `directory` with every commit flushed.
    pub fn at(directory: impl Into<PathBuf>) -> Options {
        Options { directory: directory.into(), flushing: Flushing::EveryCommit }
    }
}

//! The location and flushing mode of a store.

use std::path::PathBuf;

use crate::sqlite::FlushPolicy;

/// The settings with which a store is opened.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// The data directory. Created with mode 0700 if missing; held by a single process at a time.
    pub directory: PathBuf,
    /// The point at which commits are flushed to disk.
    pub flushing: FlushPolicy,
}

impl StoreOptions {
    /// Returns the options of a store in `directory` with every commit flushed.
    pub fn at(directory: impl Into<PathBuf>) -> StoreOptions {
        StoreOptions { directory: directory.into(), flushing: FlushPolicy::EveryCommit }
    }
}

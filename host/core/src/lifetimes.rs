//! How long what is handed out lasts unless something else is said, and at most.

/// Default and longest lifetime, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lifetimes {
    pub(crate) default: u64,
    pub(crate) max: u64,
}

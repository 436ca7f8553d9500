//! Default and maximum lifetimes of tokens and leases.

/// The default and the maximum lifetime, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lifetimes {
    pub(crate) default: u64,
    pub(crate) max: u64,
}

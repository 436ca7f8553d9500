//! Default and maximum lifetimes of tokens and leases.

/// The default and the maximum lifetime, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetimes {
    /// Lifetime if none is requested.
    pub default: u64,
    /// Maximum lifetime.
    pub max: u64,
}

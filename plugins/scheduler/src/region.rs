//! The region that a mount serves.

/// Name of the region.
pub(crate) const REGION: &str = "global";

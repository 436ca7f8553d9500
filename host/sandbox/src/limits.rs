//! Every limit of a call and of the pool of instances, with the unit in the name, in a single
//! place.
//!
//! Knows numbers and their names in grant lines, and never the calls that are counted.

mod exceeded;
mod fixed;
mod line;
mod of_mount;

pub(crate) use exceeded::ExceededLimit;
pub(crate) use fixed::*;
pub(crate) use line::{LimitLine, LimitWord, UNBOUNDED};
pub use of_mount::{MountLimits, ReuseBounds};

//! Every limit of a call and of the pool of instances, with its unit in its name and one home.
//!
//! Knows numbers and their words, and nothing of who asks for them or what is counted against them.

mod exceeded;
mod fixed;
mod line;
mod of_mount;

pub(crate) use exceeded::Exceeded;
pub(crate) use fixed::*;
pub(crate) use line::{LimitLine, LimitWord, UNBOUNDED};
pub use of_mount::{Limits, ReuseBounds};

//! Operations that the tests of several modules share.

mod tests;

pub(crate) use tests::*;

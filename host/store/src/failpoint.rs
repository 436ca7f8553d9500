//! Failpoints: places with a name, where the kill loop stops the process or lets a write fail.
//!
//! A panic inside a task does not kill a process, so the action that matters is to abort it. All of
//! this exists only in a build with the feature `fault` (decision T12); in every other build
//! passing a point compiles to nothing, and not even its name is left.

use std::{error, fmt};

#[cfg(any(test, feature = "fault"))]
mod plan;
#[cfg(feature = "fault")]
mod registry;
#[cfg(all(test, feature = "fault"))]
pub(crate) use registry::VARIABLE;

/// The failure that a point was told to return. Without the feature `fault` there can be none.
#[derive(Debug)]
pub struct Injected {
    #[cfg(feature = "fault")]
    point: &'static str,
    #[cfg(not(feature = "fault"))]
    none: std::convert::Infallible,
}

impl fmt::Display for Injected {
    #[cfg(feature = "fault")]
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "fault injected at {}", self.point)
    }

    #[cfg(not(feature = "fault"))]
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.none {}
    }
}

impl error::Error for Injected {}

/// Passes the point `name`, a text that stands literally at the call.
///
/// # Errors
/// [`Injected`] when this is the point that was chosen to fail.
#[cfg(feature = "fault")]
pub fn reach(name: &'static str) -> Result<(), Injected> {
    if registry::pass(name, true) { Err(Injected { point: name }) } else { Ok(()) }
}

/// Passes the point `name`, a text that stands literally at the call.
///
/// # Errors
/// None in this build.
#[cfg(not(feature = "fault"))]
#[inline(always)]
pub fn reach(_name: &'static str) -> Result<(), Injected> {
    Ok(())
}

/// Passes the point `name`, a text that stands literally at the call, where nothing can fail: the
/// process can only be aborted.
#[cfg(feature = "fault")]
pub fn reach_only(name: &'static str) {
    registry::pass(name, false);
}

/// Passes the point `name`, a text that stands literally at the call, where nothing can fail.
#[cfg(not(feature = "fault"))]
#[inline(always)]
pub fn reach_only(_name: &'static str) {}

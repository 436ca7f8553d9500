//! Failpoints: named places where the kill loop stops the process or makes a write fail.
//!
//! A panic inside a task does not kill a process, so the important action is to abort the process.
//! Failpoints exist only in a build with the feature `fault` (decision T12); in every other build a
//! point compiles to nothing, and even the name is absent from the binary.

use std::{error, fmt};

#[cfg(any(test, feature = "fault"))]
mod plan;
#[cfg(feature = "fault")]
mod registry;
#[cfg(all(test, feature = "fault"))]
pub use registry::VARIABLE;

/// The failure that a point was told to return. Cannot exist without the feature `fault`.
#[derive(Debug)]
pub struct InjectedFault {
    #[cfg(feature = "fault")]
    point: &'static str,
    #[cfg(not(feature = "fault"))]
    none: std::convert::Infallible,
}

impl fmt::Display for InjectedFault {
    #[cfg(feature = "fault")]
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "fault injected at {}", self.point)
    }

    #[cfg(not(feature = "fault"))]
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.none {}
    }
}

impl error::Error for InjectedFault {}

/// Passes the point `name`, a literal at the call.
///
/// # Errors
/// [`InjectedFault`] if this point was chosen to fail.
#[cfg(feature = "fault")]
pub fn reach(name: &'static str) -> Result<(), InjectedFault> {
    if registry::pass(name, true) { Err(InjectedFault { point: name }) } else { Ok(()) }
}

/// Passes the point `name`, a literal at the call.
///
/// # Errors
/// None in this build.
#[cfg(not(feature = "fault"))]
#[inline(always)]
pub fn reach(_name: &'static str) -> Result<(), InjectedFault> {
    Ok(())
}

/// Passes the point `name`, a literal at the call, in code that cannot fail: the only action is to
/// abort the process.
#[cfg(feature = "fault")]
pub fn reach_only(name: &'static str) {
    registry::pass(name, false);
}

/// Passes the point `name`, a literal at the call, in code that cannot fail.
#[cfg(not(feature = "fault"))]
#[inline(always)]
pub fn reach_only(_name: &'static str) {}

//! The clock that cannot be set, for every bound of time inside of a process.
//!
//! This file prevents a bound that grows while the machine sleeps or while the system's clock is
//! set.

use rustix::time::{ClockId, clock_gettime};

/// A clock that cannot be set. On Linux and Android the clock also counts the time while the
/// machine sleeps; on other systems it may not.
#[cfg(any(target_os = "linux", target_os = "android"))]
const STEADY: ClockId = ClockId::Boottime;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const STEADY: ClockId = ClockId::Monotonic;

/// Returns the clock that cannot be set, in milliseconds since an arbitrary moment.
pub fn steady_milliseconds() -> u64 {
    let reading = clock_gettime(STEADY);
    let seconds = u64::try_from(reading.tv_sec).unwrap_or_default();
    let nanoseconds = u64::try_from(reading.tv_nsec).unwrap_or_default();
    seconds.saturating_mul(1_000).saturating_add(nanoseconds / 1_000_000)
}

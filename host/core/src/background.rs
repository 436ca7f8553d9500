//! Background work that no request waits for: due rows, the claims on due rows, and retries.
//!
//! Knows only rows and claims, not leases, tokens or timers; [`DueWork`] processes a row.

pub(crate) mod backoff;
mod claims;
mod due;
pub(crate) mod guards;
mod lane_order;
mod lanes;

pub(crate) use backoff::GRACE;
pub(crate) use claims::{Claim, Claims};
pub(crate) use due::{Background, DueWork, run, run_suspended};
pub(crate) use lanes::{is_answer, is_silence};

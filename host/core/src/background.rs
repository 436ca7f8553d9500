//! Work that no request waits for: what is due, who works on it, and when it is tried again.
//!
//! Knows rows that are due and the claims on them. Never knows what a lease, a token or a timer is:
//! what is done with a row is said by [`DueWork`].

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

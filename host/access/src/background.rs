//! Background work that no request waits for: due rows, the claims on due rows, and retries.
//!
//! Knows only rows and claims, not leases, tokens or timers; [`DueWork`] processes a row.

pub mod backoff;
mod claims;
mod due;
pub mod guards;
mod lane_order;
mod lanes;
mod suspension;

pub use backoff::CALL_GRACE;
pub use claims::{Claim, Claims};
pub use due::{BackgroundState, DueWork, run};
pub use lanes::{is_answer, is_silence};
pub use suspension::{DueWorkGate, DueWorkSuspension};

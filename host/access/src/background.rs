//! Background work that no request waits for: due rows, the claims on due rows, and retries.
//!
//! Knows only rows and claims, not leases, tokens or timers; [`DueWork`] processes a row.

mod backlog;
pub mod backoff;
mod claim_records;
mod claimed_addresses;
mod claims;
pub mod dead_work;
mod due;
mod due_runs;
pub mod guards;
mod lane_order;
mod lanes;
mod storage_log;
mod suspension;

pub use backlog::DueBacklog;
pub use backoff::CALL_GRACE;
pub use claims::{Claim, Claims};
pub use due::{BackgroundState, DueWork, run};
pub use due_runs::{DueOutcome, DueRunCounts};
pub use lanes::{is_answer, is_silence};
pub use suspension::{DueWorkGate, DueWorkSuspension};

//! Clients by month and mount, for `sys/internal/counters/activity`.
//!
//! A client is an entity, or the tokens without an entity that have the same policies. Root tokens
//! and wrapping tokens are not clients. The clients of a month are [sketches](ClientSketch), from
//! which nobody reads a name.
//!
//! This file prevents a write for each request, and a record that grows with the number of clients:
//! requests change memory alone, a task stores changed sketches once a minute, and a sketch has a
//! bounded size. After a crash, the clients of the last minute are missing until their next
//! request.

mod month;
mod record;
mod recorder;
mod sketch;

pub use month::ActivityMonth;
pub use record::{ActivitySettings, MountClients, OTHER_MOUNTS, TOKEN_MOUNT};
pub use recorder::ClientActivity;
pub use sketch::ClientSketch;

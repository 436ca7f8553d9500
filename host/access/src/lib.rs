//! Access: the identity of a caller, its policies, and the limits that apply to a caller.
//!
//! This crate knows tokens, policies, entities, quotas and due work. It never knows a component, a
//! mount, a lease or an endpoint, and it builds without wasmtime, so that an edit of its rules
//! compiles in seconds.
//!
//! Its modules are ordered in the following line: a module imports only from modules to its left.
//! `tests/tidy` reads the line from this file and checks the imports.
//!
//! ```text
//! log_threshold → log_monitors → log → random → quorum → timestamp → client_buckets
//! → costly_reading → paging → parking → in_flight → request_metrics → lifecycle_metrics
//! → unauthenticated_limits → lockouts → lifetimes → sealing → passwords → policies → background
//! → identity → oidc → tokens → activity → row_counts → quotas → wrapping → cubbyhole
//! → version_history
//! ```
//!
//! - **log_monitors** hands the lines of the log to callers that watch, unaware of their source.
//! - **quorum** combines shares of the unseal key, unaware of the purpose.
//! - **client_buckets** holds a budget of requests for each client, unaware of what a request is.
//! - **costly_reading** spares the store readings that monitoring repeats, unaware of the subject.
//! - **paging** bounds listings; **parking** holds requests that wait for a change, unaware of the
//!   change; **in_flight** lists the requests that are being served, **request_metrics** counts
//!   requests by mount, and **lifecycle_metrics** counts creations and ends by cause.
//! - **unauthenticated_limits** rate-limits callers without a token, unaware of the answers.
//! - **lockouts** counts failed logins by name and auth method, unaware of the reasons.
//! - **policies** decides what a policy's text allows on a path, unaware of the caller.
//! - **background** finds due rows, claims rows and waits between attempts, unaware of the work on
//!   a row.
//! - **identity** stores the entities behind logins, and their groups, unaware of tokens.
//! - **oidc** stores named keys and issues the tokens that prove a mount's identity to other
//!   services.
//! - **tokens** identifies callers and ends their tokens; **activity** counts clients by month.
//! - **row_counts** counts leases, tokens and identities for monitoring.
//! - **quotas** limits the number of leases and login tokens at a path, and the rate of requests,
//!   unaware of their content.
//! - **version_history** lists the versions of this program that opened the data.
//! - **wrapping** stores answers until the single use of their wrapping tokens; **cubbyhole**
//!   stores the values that a token keeps for itself.
//!
//! Start reading at `tokens/authenticate.rs`: from the text of a token to the caller.

pub mod activity;
pub mod background;
pub mod client_buckets;
mod costly_reading;
pub mod cubbyhole;
pub mod identity;
pub mod in_flight;
pub mod lifecycle_metrics;
pub mod lifetimes;
pub mod lockouts;
pub mod log;
pub mod log_monitors;
pub mod log_threshold;
pub mod oidc;
pub mod paging;
pub mod parking;
pub mod passwords;
pub mod policies;
pub mod quorum;
pub mod quotas;
pub mod random;
pub mod request_metrics;
pub mod row_counts;
pub mod sealing;
#[cfg(test)]
mod testing;
pub mod timestamp;
pub mod tokens;
pub mod unauthenticated_limits;
pub mod version_history;
pub mod wrapping;

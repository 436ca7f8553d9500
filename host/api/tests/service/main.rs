//! The guarantees of core and the sandbox, tested through the service and the probe component of
//! `tests/guests`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    unreachable_pub,
    reason = "tests fail by panicking"
)]

mod audit;
mod audit_bounds;
mod bed;
mod cache;
mod component_output;
mod contention;
mod contexts;
mod counters;
mod crypto;
mod cubbyhole;
mod due_work;
mod external_seal;
mod grants;
mod hostile;
mod http;
mod identity;
mod identity_groups;
mod instance_reuse;
mod key_holders;
mod leases;
mod lending;
mod lockouts;
mod login_proofs;
mod logins;
mod metrics;
mod monitors;
mod mounts;
mod oidc;
mod open_rows;
mod operator_metrics;
mod passwords;
mod policies;
mod probe;
mod quotas;
mod restores;
mod scheduled_snapshots;
mod second_opinion;
mod server_metrics;
mod snapshots;
mod stops;
mod stored;
mod strangers;
mod tokens;
mod traces;
mod unavailable;
mod uploads;
mod wrapping;

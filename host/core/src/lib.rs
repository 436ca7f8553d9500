//! The rules, and the order in which they are applied.
//!
//! Knows mounts, tokens, policies, leases, the catalog and the order of the steps. Never knows
//! hyper, SQL or wasmtime's types.
//!
//! Its rooms stand in one line: a room imports from those to its left and above only. `tests/tidy`
//! reads the line here and holds the imports to it.
//!
//! ```text
//! log → random → strangers → lockouts → lifetimes → paging → parking → sealing → passwords
//! → policies → background → permit → catalog → tables → identity → oidc → tokens → mounts → audit
//! → leases → quotas → settings → process → core → host_services → logins → lifecycle → seal → api
//! → pipeline → service
//! ```
//!
//! - **strangers** knows how often callers without a token were answered, and never with what.
//! - **lockouts** knows which names at auth methods failed how often, and never how.
//! - **parking** knows which requests wait for a change, and never for which.
//! - **policies** knows what a policy's text allows on a path, and never who holds it.
//! - **background** knows rows that are due, the claims on them and the pauses between attempts,
//!   and never what is done with a row.
//! - **catalog** knows which plugins there are, and never where they are mounted.
//! - **identity** knows the entities behind logins and their groups, and never their tokens.
//! - **oidc** knows named keys, and the tokens by which a mount shows others who it is.
//! - **tokens** knows who calls and until when; **mounts** which engine serves a path, and the only
//!   door to a component; **audit** the lines of a request; **leases** what ends, and when. Each
//!   has the handles that it works with, and none has the whole.
//! - **quotas** knows how many leases and tokens of logins there may be at a path, and never what
//!   they are of.
//! - **core** is the nouns above as one value, and knows nothing of what is done with them.
//! - **host_services** is what a component's call may ask of them.
//! - **logins** makes tokens of what auth methods proved, and never knows how that was done.
//! - **lifecycle** is what goes on over time: opening and sealing, the ends of leases and tokens,
//!   mounts that are disabled, moved, migrated and revived, and what takes effect after a commit.
//! - **seal** opens and closes the store; **api** has the host's own endpoints, a file each;
//!   **pipeline** is the order of a request's steps; **service** is what the server calls.
//!
//! Start reading at `pipeline.rs`: the life of a request as one function.

mod api;
pub mod audit;
mod background;
mod catalog;
mod core;
mod host_services;
mod identity;
mod leases;
mod lifecycle;
mod lifetimes;
mod lockouts;
pub mod log;
mod logins;
mod mounts;
mod oidc;
mod paging;
mod parking;
mod passwords;
mod permit;
mod pipeline;
pub mod policies;
mod process;
mod quotas;
pub mod random;
mod seal;
mod sealing;
mod service;
mod settings;
mod strangers;
pub mod tables;
#[cfg(test)]
mod testing;
mod tokens;

pub use crate::catalog::Official;
pub use crate::service::{BodyAdmission, Service};
pub use crate::settings::Settings;

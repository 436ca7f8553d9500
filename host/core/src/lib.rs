//! The rules of the service, and the order in which they apply.
//!
//! This crate contains mounts, tokens, policies, leases, the catalog and the steps of a request. It
//! does not depend on hyper, SQL or the types of wasmtime.
//!
//! Its modules are ordered in the following line: a module imports only from modules to its left or
//! in lines above. `tests/tidy` reads the line from this file and checks the imports.
//!
//! ```text
//! log → random → quorum → timestamp → client_buckets → strangers → lockouts → lifetimes
//! → paging → parking → sealing → passwords → policies → background → permit → catalog → tables
//! → identity → oidc → tokens → key_holders → wrapping → cubbyhole → mounts → audit → leases
//! → quotas → settings → process → core → host_services → logins → lifecycle → seal → api
//! → pipeline → service
//! ```
//!
//! - **client_buckets** holds a budget of requests for each client, unaware of what a request is.
//! - **quorum** combines shares of the unseal key, unaware of the purpose.
//! - **strangers** rate-limits callers without a token, unaware of the answers.
//! - **lockouts** counts failed logins by name and auth method, unaware of the reasons.
//! - **parking** holds requests that wait for a change, unaware of the change.
//! - **policies** decides what a policy's text allows on a path, unaware of the caller.
//! - **background** finds due rows, claims rows and waits between attempts, unaware of the work on
//!   a row.
//! - **catalog** lists the plugins, unaware of their mounts.
//! - **identity** stores the entities behind logins, and their groups, unaware of tokens.
//! - **oidc** stores named keys and issues the tokens that prove a mount's identity to other
//!   services.
//! - **key_holders** lets a quorum generate root tokens and replace the unseal key.
//! - **tokens** identifies callers and ends their tokens; **mounts** maps paths to engines and is
//!   the only way to a component; **audit** writes the lines of a request; **leases** ends leases
//!   when they are due. Each module holds only the handles that it needs.
//! - **wrapping** stores answers until the single use of their wrapping tokens; **cubbyhole**
//!   stores the values that a token keeps for itself.
//! - **quotas** limits the number of leases and login tokens at a path, and the rate of requests,
//!   unaware of their content.
//! - **core** combines the modules above in a single value, unaware of its users.
//! - **host_services** implements the functions that a component's call may use.
//! - **logins** creates tokens from the results of auth methods, unaware of the methods.
//! - **lifecycle** runs the changes over time: opening and sealing, ends of leases and tokens,
//!   mounts that are disabled, moved, migrated and revived, and effects after a commit.
//! - **seal** opens and closes the store; **api** contains the host's own endpoints, a file each;
//!   **pipeline** orders the steps of a request; **service** is the interface for the server.
//!
//! Start reading at `pipeline.rs`: the life of a request as a single function.

mod api;
pub mod audit;
mod background;
mod catalog;
mod client_buckets;
mod core;
mod cubbyhole;
mod host_services;
mod identity;
mod key_holders;
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
mod quorum;
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
mod timestamp;
mod tokens;
mod wrapping;

pub use crate::catalog::{Official, PluginDirectory, SignaturePolicy, SignatureRules, TrustedKey};
pub use crate::service::{BodyAdmission, Service};
pub use crate::settings::Settings;

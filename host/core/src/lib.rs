//! The state of the unsealed service and its changes over time.
//!
//! This crate contains mounts, leases, the catalog, and the opening and closing of the store. It
//! does not depend on hyper, SQL or the types of wasmtime. Tokens, policies and quotas are in the
//! crate `access`, the lines and devices of the audit in the crate `audit`; the endpoints and the
//! steps of a request are in the crate `api`.
//!
//! Its modules are ordered in the following line: a module imports only from modules to its left or
//! in lines above. `tests/tidy` reads the line from this file and checks the imports.
//!
//! ```text
//! permit → catalog → tables → key_holders → mounts → followed_tables → snapshots → health
//! → leases → key_wrapper → seal_setting → settings → process → core → required_state → restoring
//! → host_services → logins → lifecycle → seal
//! ```
//!
//! - **catalog** lists the plugins, unaware of their mounts.
//! - **key_holders** lets a quorum generate root tokens and replace the unseal key.
//! - **mounts** maps paths to engines and is the only way to a component; **leases** ends leases
//!   when they are due. Each module holds only the handles that it needs.
//! - **followed_tables** counts the changes by other nodes that the tables in memory include.
//! - **snapshots** holds schedule, directory and outcome of scheduled snapshots.
//! - **health** tells whether store, audit, clock and snapshots work, and logs each change.
//! - **key_wrapper** is the interface to a server that keeps the key of an automatic seal.
//! - **core** combines the modules above in a single value, unaware of its users.
//! - **required_state** names the state that an answer includes, and waits for required states.
//! - **restoring** builds a database from a snapshot beside the data in use.
//! - **host_services** implements the functions that a component's call may use.
//! - **logins** creates tokens from the results of auth methods, unaware of the methods.
//! - **lifecycle** runs the changes over time: opening and sealing, ends of leases and tokens,
//!   mounts that are disabled, moved, migrated and revived, and effects after a commit.
//! - **seal** opens and closes the store.
//!
//! Start reading at `permit.rs`: why an unchecked call of a component does not compile.

pub mod catalog;
mod core;
mod followed_tables;
pub mod health;
pub mod host_services;
pub mod key_holders;
pub mod key_wrapper;
pub mod leases;
pub mod lifecycle;
pub mod logins;
pub mod mounts;
pub mod permit;
pub mod process;
pub mod required_state;
pub mod restoring;
pub mod seal;
pub mod seal_setting;
pub mod settings;
pub mod snapshots;
pub mod tables;
// For the file of tests below, which another crate has, too.
#[cfg(test)]
use bulkhead_test_database as _;
#[cfg(test)]
#[path = "../../access/src/testing.rs"]
mod testing;

pub use crate::catalog::{
    OfficialComponent, OfficialSeal, PluginDirectory, SignaturePolicy, SignatureRules, TrustedKey,
};
pub use crate::core::{CallerRights, Core};
pub use crate::settings::ServiceSettings;

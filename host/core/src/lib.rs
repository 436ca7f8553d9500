//! The rules of the service, and the order in which they apply.
//!
//! This crate contains mounts, leases, the catalog and the steps of a request. It does not depend
//! on hyper, SQL or the types of wasmtime. Tokens, policies and quotas are in the crate `access`.
//!
//! Its modules are ordered in the following line: a module imports only from modules to its left or
//! in lines above. `tests/tidy` reads the line from this file and checks the imports.
//!
//! ```text
//! paging → parking → in_flight → version_history → permit → catalog → tables → key_holders
//! → wrapping → cubbyhole → mounts → audit → leases → settings → process → core → host_services
//! → logins → lifecycle → seal → api → pipeline → service
//! ```
//!
//! - **parking** holds requests that wait for a change, unaware of the change.
//! - **in_flight** lists the requests that are being served; **version_history** the versions of
//!   this program that opened the data.
//! - **catalog** lists the plugins, unaware of their mounts.
//! - **key_holders** lets a quorum generate root tokens and replace the unseal key.
//! - **mounts** maps paths to engines and is the only way to a component; **audit** writes the
//!   lines of a request; **leases** ends leases when they are due. Each module holds only the
//!   handles that it needs.
//! - **wrapping** stores answers until the single use of their wrapping tokens; **cubbyhole**
//!   stores the values that a token keeps for itself.
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
mod catalog;
mod core;
mod cubbyhole;
mod host_services;
mod in_flight;
mod key_holders;
mod leases;
mod lifecycle;
mod logins;
mod mounts;
mod paging;
mod parking;
mod permit;
mod pipeline;
mod process;
mod seal;
mod service;
mod settings;
pub mod tables;
#[cfg(test)]
#[path = "../../access/src/testing.rs"]
mod testing;
mod version_history;
mod wrapping;

pub use crate::catalog::{
    OfficialComponent, PluginDirectory, SignaturePolicy, SignatureRules, TrustedKey,
};
pub use crate::service::{BodyAdmission, Service};
pub use crate::settings::ServiceSettings;

//! A component, its limits, and what it may reach.
//!
//! Knows wasmtime, the WIT bindings, limits, grants and outbound I/O. Never knows tokens, policies,
//! leases or the URLs of our API: what it needs from above is one trait, [`HostServices`].
//!
//! Start reading at [`call`]: one call, from fresh instance to answer.

mod address;
mod admission;
mod bindings;
mod cache;
pub mod call;
mod compartment;
pub mod compile;
pub mod compiled;
pub mod component;
mod cpu_permits;
mod describe;
mod detached;
mod effect;
#[cfg(test)]
mod encoding;
mod engine;
pub mod grants;
mod host_services;
mod http;
mod imports;
mod instance;
mod instance_cache;
pub mod limits;
mod secrets;
mod sql;
mod state;
pub mod structure;
mod wasi;

pub use admission::{Admission, Priority, Wanted};
pub use bindings::contract;
pub use call::{CallTree, Done, Effect, Ended, Scope};
pub use compartment::Compartment;
pub use component::{Artefact, DatabasePlugin, Engine, Maker, precompile};
pub use engine::{Runtime, Sandbox};
pub use grants::{Ask, Grant, Grants, Rights};
pub use host_services::{Guard, HostServices, Level, Reservation};
pub use instance_cache::{InstanceShelf, Reuse};
pub use limits::{Limits, ReuseBounds};
pub use secrets::SecretSet;

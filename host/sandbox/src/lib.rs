//! A component, its limits, and what it may reach.
//!
//! Knows wasmtime, the WIT bindings, limits, grants and outbound I/O. Never knows tokens, policies,
//! leases or the URLs of our API: what it needs from above is one trait, [`HostServices`].
//!
//! Its rooms stand in one line: a module imports from its own room and from those to the left, and
//! no imports go round in a circle.
//!
//! ```text
//! limits → grants → component → shares → outbound → state → imports → call
//! ```
//!
//! - **limits** knows numbers and their words, and never who asks for them.
//! - **grants** knows what a mount may do, and to which addresses a granted name may lead; never
//!   what an import does with it.
//! - **component** knows bytes: digests, structure, compiled code, and the wasmtime engine that
//!   compiles and runs it; never a call.
//! - **shares** knows what calls share and is counted: instance slots, permits to compute, memory,
//!   caches, connections, and what a call and its nested calls have used; never what a guest does
//!   with its share.
//! - **outbound** knows sockets, TLS, HTTP, LDAP and SQL, to addresses that were vetted, and what
//!   the machine has from its surroundings; never an instance.
//! - **state** knows what one call carries, how its instance is made and entered, and how it ended;
//!   never which imports there are.
//! - **imports** is the host's side of `wit/`, one file an interface, and the linkers that offer
//!   it; it never knows how a call began.
//! - **call** is the sandbox itself: admission, loading, describing, reuse, and one call from its
//!   beginning to its end.
//!
//! Start reading at `call.rs`: one call, from fresh instance to answer.

// Limits.
mod limits;

// Grants.
pub mod grants;

// Component.
mod bindings;
pub mod compile;
pub mod compiled;
pub mod component;
pub mod contract;
mod database_plugin;
#[cfg(test)]
mod encoding;
mod identity;
pub mod structure;
mod wasmtime_engine;

// Shares.
mod admission;
mod cache;
mod call_tree;
mod closing;
mod compartment;
mod cpu_permits;
mod fair_queue;
mod fingerprint;
mod held;
mod key_ring;
mod least_used;
mod memory;
mod metrics;
mod password_changes;
mod secrets;
mod slow_work;

// Outbound.
mod driven;
mod http;
mod ldap;
mod outbound;
mod sql;
mod surroundings;
mod tls;

// State.
mod context;
mod detached;
mod effect;
mod host_services;
mod instance;
mod nested_answer;
mod outcome;
mod resources;
mod state;

// Imports.
mod crypto_words;
mod imports;
mod linkers;
mod wasi;

// Call.
mod call;
mod describe;
mod instance_cache;
mod load;
mod sandbox;

pub use admission::{Admission, Priority, SlotRequest};
pub use call::{Done, Scope};
pub use call_tree::{CallTree, Effect};
pub use compartment::Compartment;
pub use component::{Artefact, Maker, precompile};
pub use database_plugin::DatabasePlugin;
pub use fair_queue::{FairPermit, FairSemaphore};
pub use grants::{Ask, Grant, Grants, Rights};
pub use host_services::{Entity, Guard, HostServices, IdentityToken, Level, Reservation};
pub use instance_cache::Reuse;
pub use limits::{Limits, ReuseBounds};
pub use load::Engine;
pub use metrics::{Reading, Readings};
pub use outbound::{Bypass, Outbound, Proxy};
pub use outcome::Ended;
pub use sandbox::{Runtime, Sandbox};
pub use secrets::SecretSet;
pub use surroundings::{Environment, Surroundings, is_near};
pub use wasmtime_engine::open_page_map;

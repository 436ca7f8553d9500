//! A component, its limits, and what it may reach.
//!
//! Knows wasmtime, the WIT bindings, limits, grants and outbound I/O. Never knows tokens, policies,
//! leases or the URLs of our API: what it needs from above is one trait, [`Neighbours`].
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
mod describe;
mod effect;
#[cfg(test)]
mod encoding;
mod engine;
pub mod grants;
mod http;
mod imports;
mod instance;
pub mod limits;
mod neighbours;
mod nobody;
mod secrets;
mod shelf;
mod sql;
mod state;
pub mod structure;
mod turns;
mod wasi;

pub use admission::{Admission, Line, Wanted};
pub use bindings::contract;
pub use call::{Done, Effect, Ended, Root, Scope};
pub use compartment::Compartment;
pub use component::{Artefact, DatabasePlugin, Engine, Maker, precompile};
pub use engine::{Runtime, Sandbox};
pub use grants::{Ask, Grant, Grants, Rights};
pub use limits::{Limits, ReuseBounds};
pub use neighbours::{Guard, Level, Neighbours, Reservation};
pub use secrets::SecretSet;
pub use shelf::{Reuse, Shelf};

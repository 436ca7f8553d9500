//! The rules, and the order in which they are applied.
//!
//! Knows mounts, tokens, policies, leases, the catalog and the order of the steps. Never knows
//! hyper, SQL or wasmtime's types.
//!
//! Start reading at `pipeline.rs`: the life of a request as one function.

mod api;
pub mod audit;
mod backoff;
mod catalog;
mod claims;
mod core;
mod due;
mod guards;
mod host_services;
mod instance_reuse;
mod leases;
pub mod log;
mod migrate;
mod mounts;
mod paging;
mod passwords;
mod permit;
mod pipeline;
pub mod policies;
pub mod random;
mod seal;
mod service;
pub mod tables;
mod tokens;

pub use crate::catalog::Official;
pub use crate::service::{Service, Settings};

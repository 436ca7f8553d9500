//! The rules, and the order in which they are applied.
//!
//! Knows mounts, tokens, policies, leases, the catalog and the order of the steps. Never knows
//! hyper, SQL or wasmtime's types.
//!
//! Start reading at `pipeline.rs`: the life of a request as one function.

mod api;
pub mod audit;
mod background;
mod catalog;
mod core;
mod host_services;
mod leases;
mod lifecycle;
mod lifetimes;
pub mod log;
mod mounts;
mod paging;
mod passwords;
mod permit;
mod pipeline;
pub mod policies;
mod process;
pub mod random;
mod seal;
mod sealing;
mod service;
mod settings;
pub mod tables;
mod tokens;

pub use crate::catalog::Official;
pub use crate::service::Service;
pub use crate::settings::Settings;

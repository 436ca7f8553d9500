//! The process around the core: command line, listener, HTTP, signals, log.
//!
//! It turns bytes into a [`bulkhead_wire::request::Request`] and back, and decides nothing: it
//! never knows a rule about tokens, policies, mounts or leases.

mod bodies;
pub mod compile_worker;
pub mod config;
mod crowd;
pub mod dev;
pub mod hardening;
pub mod headers;
mod households;
pub mod http;
pub mod inspect;
pub mod listener;
pub mod log;
pub mod options;
mod patience;
mod places;
pub mod process;
pub mod production;
pub mod proxies;
pub mod target;
mod unbroken;
mod worded;

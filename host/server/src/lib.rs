//! The process around the core: command line, listener, HTTP, signals, log.
//!
//! This crate converts bytes into a [`bulkhead_wire::request::Request`] and back, and decides
//! nothing: it knows no rule about tokens, policies, mounts or leases.
//!
//! Modules import leftwards only: `proxies`, `headers`, `target`, `log`, `hardening`, `tls`,
//! `client_usage`, `client_concurrency`, `body_budget`, `connection_slots`, `write_timeout`,
//! `detach_on_drop`, `error_body`, `answer_budget`, `answer_body`, `config`, `body`, `compression`,
//! `http`, `raw`, `connection`, `listener`, `options`, `process`, `dev_tls`, `dev`, `production`,
//! `inspect`, `compile_worker`.

mod answer_body;
mod answer_budget;
mod body;
mod body_budget;
mod client_concurrency;
mod client_usage;
pub mod compile_worker;
mod compression;
mod config;
mod connection;
mod connection_slots;
mod detach_on_drop;
pub mod dev;
mod dev_tls;
mod error_body;
pub mod hardening;
pub mod headers;
mod http;
pub mod inspect;
mod listener;
pub mod log;
pub mod options;
pub mod process;
pub mod production;
pub mod proxies;
mod raw;
pub mod target;
mod tls;
mod write_timeout;

//! The process around the core: command line, listener, HTTP, signals, log.
//!
//! This crate converts bytes into a [`bulkhead_wire::request::Request`] and back, and decides
//! nothing: it knows no rule about tokens, policies, mounts or leases.
//!
//! The modules in order: a module imports only from modules to its left or in lines above.
//! `tests/tidy` reads the order from this page.
//!
//! ```text
//! client_usage → compile_worker → compression → detach_on_drop → error_body → file_body
//! → hardening → headers → log → proxies → target → tls → write_timeout → body_budget
//! → client_concurrency → answerer → config → database_wait → connection_slots → dev_tls
//! → answer_budget → body → options → answer_body → handed_sockets → http → connection → raw
//! → listener → service_manager → trace_export → signals → seal_wrapper → process → dev
//! → production → diagnose → start_check → inspect → snapshot_file → data_check
//! → migrate
//! ```

mod answer_body;
mod answer_budget;
mod answerer;
mod body;
mod body_budget;
mod client_concurrency;
mod client_usage;
pub mod compile_worker;
mod compression;
mod config;
mod connection;
mod connection_slots;
pub mod data_check;
mod database_wait;
mod detach_on_drop;
pub mod dev;
mod dev_tls;
pub mod diagnose;
mod error_body;
mod file_body;
pub mod handed_sockets;
pub mod hardening;
pub mod headers;
mod http;
pub mod inspect;
mod listener;
pub mod log;
pub mod migrate;
pub mod options;
pub mod process;
pub mod production;
pub mod proxies;
mod raw;
mod seal_wrapper;
mod service_manager;
mod signals;
pub mod snapshot_file;
pub mod start_check;
pub mod target;
mod tls;
mod trace_export;
mod write_timeout;

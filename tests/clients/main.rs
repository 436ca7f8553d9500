//! Clients that others wrote, unmodified: what they send to the built server, and what they make of
//! its answers.
//!
//! Each client is fetched from its registry by `install.sh`, pinned by hashes. A test names a
//! program of this folder and one part of it; that part asserts, and a client's exception is a
//! failure here. Where a client cannot be had, its requests are sent as written (`plugins`).

mod clouds;
mod hvac;
mod node_vault;
mod plugins;
mod program;
mod scheduler;

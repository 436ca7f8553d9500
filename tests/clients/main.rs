//! Unmodified third-party clients: their requests to the built server, and their reading of the
//! answers.
//!
//! `install.sh` fetches each client from its registry, pinned by hashes. A test runs one part of a
//! program of this folder. The part contains the assertions, and an exception of the client fails
//! the test. The requests of clients that cannot be fetched are sent as written (`plugins`).

mod clouds;
mod hvac;
mod node_vault;
mod plugins;
mod program;
mod scheduler;

//! Unmodified third-party clients: their requests to the built server, and their reading of the
//! answers.
//!
//! `install.sh` fetches each client from its registry, pinned by hashes. A test runs one part of a
//! program of this folder. The part contains the assertions, and an exception of the client fails
//! the test. For clients that cannot be fetched, `plugins` sends the requests as written.

mod clouds;
mod hvac;
mod node_vault;
mod openapi;
mod plugins;
mod program;
mod scheduler;
mod vault_go;

//! The API of the service: the host's own endpoints, and the steps of a request.
//!
//! This crate decides when each rule of the crates below applies. It does not depend on hyper, SQL
//! or the types of wasmtime.
//!
//! The modules are ordered in the following line: a module imports only from modules to its left.
//! `tests/tidy` reads the line from this file and checks the imports.
//!
//! ```text
//! file_reception → endpoints → pipeline → service
//! ```
//!
//! - **file_reception** stores large bodies in files; **endpoints** contains the host's own
//!   endpoints, a file each; **pipeline** orders the steps of a request; **service** is the
//!   interface for the server.
//!
//! Start reading at `pipeline.rs`: the life of a request as a single function.

mod endpoints;
mod file_reception;
mod pipeline;
mod service;

pub use crate::endpoints::metric_tables;
pub use crate::file_reception::{FileReception, FileReceptions};
pub use crate::service::{
    BodyAdmission, InitialBlock, InitialRequest, InitialValue, Service, ServiceState,
};

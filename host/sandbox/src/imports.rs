//! The host's side of `wit/`: one file an interface, of the same name.
//!
//! The first line of every function counts the call; the next asks the grant.

mod clock;
mod crypto;
mod database;
mod leases;
mod log;
mod passwords;
mod sql;
mod storage;

use crate::bindings::secrets_engine::bulkhead::plugin::{database_types, types};
use crate::state::CallState;

impl types::Host for CallState {}
impl database_types::Host for CallState {}

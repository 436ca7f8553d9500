//! The host's side of `wit/`: a file for each interface, with the interface's name.
//!
//! The first line of every function counts the call and checks the grant.

/// Checks the grant of an act, and returns a refusal in the contract's type if the grant is
/// missing.
macro_rules! granted {
    ($state:expr, $act:expr) => {
        if let Err(refused) = $state.check_grant(&$act)? {
            return Ok(Err(crate::state::refusal(&refused)));
        }
    };
}

mod ambient;
mod cache;
mod clock;
mod crypto;
mod database;
mod http;
mod identity;
mod ldap;
mod leases;
mod log;
mod metrics;
mod migration;
mod passwords;
mod sql;
mod storage;

use crate::bindings::secrets_engine::bulkhead::plugin::{database_types, types};
use crate::state::CallState;

impl types::Host for CallState {}
impl database_types::Host for CallState {}

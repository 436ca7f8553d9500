//! The host's side of `wit/`: one file an interface, of the same name.
//!
//! The first line of every function counts the call and asks its grant.

/// Asks the grant of an act, and refuses in the contract's words where there is none.
macro_rules! granted {
    ($state:expr, $act:expr) => {
        if let Err(refused) = $state.ask(&$act)? {
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
mod passwords;
mod sql;
mod storage;

use crate::bindings::secrets_engine::bulkhead::plugin::{database_types, types};
use crate::state::CallState;

impl types::Host for CallState {}
impl database_types::Host for CallState {}

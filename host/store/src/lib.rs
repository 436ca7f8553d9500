//! Sealed records and units of work, on SQLite.
//!
//! Every record is encrypted and bound to its place before it reaches the database; what can be read in the files is
//! addresses, due times, lanes and owners. Reads of a unit of work are remembered and checked when it commits, so
//! that two requests never overwrite each other unseen. Nothing is loaded when the store is opened: what is due, and
//! what belongs to whom, is found by index.
//!
//! It never knows HTTP, plugins, tokens or policies; a token is a record like any other.
//!
//! What it cannot stop: somebody who puts back an older copy of the whole data directory, or removes rows from it.
//! What is then in the file opens as before.

mod alarm;
mod cache;
mod clock;
mod commit;
mod dev_seal;
mod directory;
mod due;
mod fault;
mod identity;
mod range;
mod record;
mod rows;
mod seal;
mod sqlite;
mod store;
#[cfg(test)]
mod testing;
mod unit;

pub use alarm::Alarm;
pub use dev_seal::dev_key;
pub use due::{Due, DueAsk};
pub use fault::StoreFault;
pub use record::{Address, Index, Record, Space};
pub use seal::SealKey;
pub use store::{Options, Store};
pub use unit::Unit;

//! Sealed records and units of work, on SQLite.
//!
//! Every record is encrypted and bound to its place before it reaches the database; what can be
//! read in the files is addresses, due times, lanes and owners. Reads of a unit of work are
//! remembered and checked when it commits, so that two requests never overwrite each other unseen.
//! Nothing is loaded when the store is opened: what is due, and what belongs to whom, is found by
//! index.
//!
//! Data are sealed until a key opens them: what seals records is sealed by a root key, and that by
//! the unseal key, which may be split into shares of which a few suffice. The key of records can be
//! changed while the store serves.
//!
//! It never knows HTTP, plugins, tokens or policies; a token is a record like any other.
//!
//! Its rooms, each of which knows only those before it:
//!
//! - `record` (with `body`, `range`, `fault`): what is kept, where, and why it could not be read;
//! - `cipher` → `shamir` → `keyring` → `seal`: what seals and opens it, in the hands of its
//!   keepers;
//! - `script` → `readers` → `sqlite` (with `due`) → `rows` → `statements`: statements that go
//!   together, the database, one row and many;
//! - `turns` → `revision` → `counted` → `work` → `stored` → `plan` → `committer`: who goes first,
//!   what is asked, what may be written, and the one task that writes it to the `open_data` (with
//!   `cache`, `folders`, `watched`, `alarm`, and the `time_mark` of the `clock`);
//! - `store` → `unit`, `scan`: what the layers above ask;
//! - `directory` → `identity` → `data_directory` → `dev_seal`: how a store is made and opened.
//!
//! What it cannot stop: an intruder who puts back an older copy of a row or of the whole data
//! directory, or removes rows from it. What is then in the file opens as before. The security page
//! of the repository says what that is worth, and why nothing here pretends to notice it.

mod alarm;
mod body;
mod cache;
mod cipher;
mod clock;
mod committer;
mod counted;
mod data_directory;
mod dev_seal;
mod directory;
mod due;
pub mod failpoint;
mod fault;
mod folders;
mod identity;
mod keyring;
mod open_data;
mod options;
mod plan;
mod range;
mod readers;
mod record;
mod revision;
mod rows;
mod scan;
mod script;
mod seal;
mod shamir;
mod sqlite;
mod statements;
mod store;
mod stored;
#[cfg(test)]
mod testing;
mod time_mark;
mod turns;
mod unit;
mod watched;
mod work;

pub use alarm::Alarm;
pub use body::Body;
pub use cipher::SealKey;
pub use clock::{ClockBehind, ClockJump};
pub use counted::StoredLimit;
pub use data_directory::DataDirectory;
pub use dev_seal::{dev_key, dev_key_file};
pub use due::{Due, DueLanes};
pub use fault::StoreFault;
pub use keyring::KeyStatus;
pub use options::Options;
pub use record::{Address, Index, Record, Space, Stamp};
pub use scan::Scan;
pub use seal::Hashes;
pub use shamir::{Progress, SealConfig, Share, ShareCollector, split};
pub use sqlite::Flushing;
pub use store::Store;
pub use turns::Turn;
pub use unit::{Finish, Unit};
pub use watched::Watch;

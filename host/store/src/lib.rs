//! Units of work on sealed records, on SQLite or PostgreSQL.
//!
//! Every record is encrypted and bound to its place before reaching the database. Only addresses,
//! due times, lanes and owners can be read in the files. A unit of work remembers its reads, and
//! the commit checks these reads, so that two requests never overwrite each other's changes
//! unnoticed. Opening the store loads no records: due records and the records of an owner are found
//! by index.
//!
//! Data are sealed until a key opens them. The unseal key, the key of an automatic seal, or both
//! seal the root key; the root key seals the keyring, and the keyring seals records. The unseal key
//! may be split into shares, of which a threshold suffices. The record key can be changed while the
//! store serves requests.
//!
//! This crate knows nothing of HTTP, plugins, tokens or policies; a token is a record like any
//! other.
//!
//! The modules, each of which knows only the modules listed before it:
//!
//! - the crate `record`: records, their addresses and errors, encryption, the shares of the unseal
//!   key, automatic seals, and the values that a database reads and writes;
//! - the crate `place`: the data directory, the address of a database, the node of a data directory
//!   and its claim on a database that several machines reach, and the ability to write;
//! - `foreign_changes` → `change_watch`: what other nodes of a shared database commit, and the
//!   certainty that records in memory are fresh;
//! - `postgres` (with `server_report`), `sqlite` → `database`: the only folders with SQL, and the
//!   operations that a database offers;
//! - `write_queue` → `revision` → `work` → `stored` → `plan` → `committer`: the
//!   order of contending requests, checks and limits, and the single task that writes to the
//!   `open_data` (with `cache`, `folders`, `watched_keys`, `alarm`, and the `time_mark` of the
//!   `clock`);
//! - `store` → `unit`, `scan`: the interface to the layers above;
//! - `identity` → `data_directory` → `dev_seal`: creating and opening a store;
//! - `snapshot` (with `snapshot_places`): saving a store, restoring and checking such
//!   files;
//! - `migration`: copying a store from one database to another.
//!
//! Not prevented: an intruder who restores an older copy of a row or of the whole data directory,
//! or removes rows. The remaining content of the file opens as before. The security page of the
//! repository explains the impact, and why nothing here pretends to detect the change.
//!
//! The modules in order: a module imports only from modules to its left or in lines above.
//! `tests/tidy` reads the order from this page.
//!
//! ```text
//! t → activity → alarm → clock → database_clock → time_mark → server_report
//! → watched_keys → foreign_changes → silent_nodes → followed_keys → change_watch → keyring_watch
//! → write_queue → folders → snapshot_places → postgres → sqlite → database → identity → revision
//! → work → cache → stored → open_data → plan → committer → store → data_directory → scan → unit
//! → dev_seal → snapshot → migration
//! ```

pub use bulkhead_record::failpoint;
mod activity;
mod alarm;
mod cache;
mod change_watch;
mod clock;
mod committer;
mod data_directory;
mod database;
mod database_clock;
mod dev_seal;
mod folders;
mod followed_keys;
mod foreign_changes;
mod identity;
mod keyring_watch;
mod migration;
mod open_data;
mod plan;
mod postgres;
mod revision;
mod scan;
mod server_report;
mod silent_nodes;
mod snapshot;
mod snapshot_places;
mod sqlite;
mod store;
mod stored;
#[cfg(test)]
mod testing;
mod time_mark;
mod unit;
mod watched_keys;
mod work;
mod write_queue;

pub use activity::{ConnectionUsage, StoreActivity};
pub use alarm::WorkerAlarm;
pub use bulkhead_place::claim_watch::NodeSharing;
pub use bulkhead_place::directory::UNFINISHED_RESTORE;
pub use bulkhead_place::disk_space::DiskShortage;
pub use bulkhead_place::node_description::{LivingNode, NodeDescription};
pub use bulkhead_place::options::{DatabaseChoice, FlushPolicy, StoreOptions};
pub use bulkhead_place::postgres_place::{
    CONNECT_TIMEOUT_MOST, PasswordSource, PostgresPlace, PostgresServer, PostgresSetting,
    PostgresTls, PostgresTlsMode, SessionTarget,
};
pub use bulkhead_place::write_condition::WriteCondition;
pub use bulkhead_record::body::RecordBody;
pub use bulkhead_record::cipher::SealKey;
pub use bulkhead_record::due::{DueLanes, DueRecord};
pub use bulkhead_record::fault::StoreFault;
pub use bulkhead_record::keyring::KeyStatus;
pub use bulkhead_record::record::{Address, IndexColumns, Record, Space, Stamp};
pub use bulkhead_record::root_seals::{AutomaticSeal, DataSeals, FirstKeys};
pub use bulkhead_record::seal::SecretHasher;
pub use bulkhead_record::shamir::{KeyShare, SealConfig, ShareCollector, ShareProgress, split};
pub use bulkhead_record::stored_limit::StoredLimit;
pub use clock::{ClockBehind, ClockJump, system_milliseconds};
pub use data_directory::DataDirectory;
pub use data_directory::RekeyOutcome;
pub use database_clock::CLOCK_TOLERANCE_MS;
pub use dev_seal::{dev_key, dev_key_file};
pub use followed_keys::ForeignChangeCount;
pub use migration::{MigrationEvent, MigrationReport, migrate, remove_migration_mark};
pub use scan::PrefixScan;
pub use server_report::DatabaseServerReport;
pub use snapshot::{
    CheckReport, CheckedSnapshot, DataDamage, OpenedRecord, PreparedRestore, RestoreConditions,
    SnapshotManifest, SnapshotOrigin, SnapshotStream, SnapshotSummary, check_directory,
    check_snapshot, check_store, inspect_snapshot, inspect_snapshot_while, read_key_file,
    read_keys, restore_store,
};
pub use store::Store;
pub use unit::{Unit, UnitFinish};
pub use watched_keys::KeyWatch;
pub use write_queue::QueueTicket;

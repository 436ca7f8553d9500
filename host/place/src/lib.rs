//! The places of a store, without any operation of a database: the data directory and its lock, the
//! address of a PostgreSQL database, the node of a data directory, its claim on a database that
//! several machines reach, and the ability of the database to write.
//!
//! The modules in order: a module imports only from modules to its left.
//!
//! ```text
//! steady_clock → retry_pause → write_proof → disk_space → postgres_place → write_failure
//! → write_condition → directory → former_epochs → node_files → node_description → claim_watch
//! → options
//! ```

pub mod claim_watch;
pub mod directory;
pub mod disk_space;
pub mod former_epochs;
pub mod node_description;
pub mod node_files;
pub mod options;
pub mod postgres_place;
pub mod retry_pause;
pub mod steady_clock;
pub mod write_condition;
pub mod write_failure;
pub mod write_proof;

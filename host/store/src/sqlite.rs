//! The database on SQLite: the only folder with SQL, and the only user of SQLite's driver.
//!
//! This file prevents two dialects in one place: `crate::database` names the operations of a
//! database, and every file here serves these operations and nothing else of the store.
//!
//! Start at `connections`, with the writing connection, the readers and the isolation of every
//! transaction. `script` joins statements to batches, and `transaction_error` gives errors their
//! meaning. Each other file adds the operations of one subject to [`SqliteDatabase`].

mod connection_options;
mod connections;
mod database_figures;
mod due_queries;
mod filling;
mod group_commit;
mod long_reads;
mod meta_table;
mod readers;
mod row_queries;
mod script;
mod statements;
mod stored_counts;
mod transaction_error;

pub(crate) use connections::SqliteDatabase;
pub(crate) use filling::SqliteFiller;
pub(crate) use long_reads::SqliteReader;
pub(crate) use meta_table::{SCHEMA_COUNT, examine_meta, read_meta};

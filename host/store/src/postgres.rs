//! The database on PostgreSQL: the only folder with its SQL, and the only user of its driver.
//!
//! This file prevents two dialects in one place, as `crate::sqlite` does: every file here serves
//! the operations of `crate::database` and nothing else of the store.
//!
//! # Rules of this folder
//!
//! - **Plain SQL**, which compatible databases share: no `LISTEN`, no advisory locks, no temporary
//!   tables, no code blocks, no functions of transaction numbers. Sizes are the only exception, and
//!   an error there changes nothing.
//! - **Texts sort by bytes**: columns have the collation `"C"`. PostgreSQL stores no zero byte in a
//!   text, so keys, lanes, owners and bounds pass `stored_text`.
//! - **Few round trips.** A group takes four: the begin with the time limits, all questions as one
//!   statement, all puts with the counters and the identity as one statement, and the commit;
//!   deletions take a fifth. Lists of values are arrays, so that a statement has the same text for
//!   any number of rows and stays prepared.
//! - **Transactions that write are serializable**, and run one after another on a single connection
//!   of this process. The database refuses write skew and phantoms of other processes with 40001;
//!   such a transaction is repeated a bounded number of times.
//! - **Every commit changes the row of its node**, and so holds the lock of this row until the
//!   commit is decided. The inspection of an unknown outcome first waits for the lock
//!   (`PostgresDatabase::decide`): otherwise a commit that is still on its way would be reported as
//!   not stored. The number of commits in the row then decides, because a node numbers its commits
//!   without gaps.
//! - **The same statement checks and renews the claim of this process** (`held_claim`): without the
//!   claim, and if the database has fewer commits of the node than this process knows of, the
//!   statement changes no row, and the transaction is rolled back.
//! - **Counters of stored bytes** are changed by the statement that writes the rows, from the sizes
//!   of the new rows and of the rows that are replaced.
//! - **A read is one statement**, and so sees one state. A read on an idle connection that turns
//!   out to be dead is repeated on a new connection.
//!
//! Start at `connections`. `server_connector` opens sessions. `postgres_error` gives errors their
//! meaning, and `statement_draft` collects text and values of a statement. Each other file adds the
//! operations of one subject to [`PostgresDatabase`].

mod change_rows;
mod claim_keeping;
mod connections;
mod database_condition;
mod due_queries;
mod filling;
mod group_commit;
mod group_questions;
mod group_writes;
mod held_claim;
mod login_files;
mod long_reads;
mod loss_watch;
mod lost_commits;
mod measured_sizes;
mod meta_table;
mod node_list;
mod node_rows;
mod pooler_check;
mod postgres_error;
mod progress_rows;
mod readers;
mod row_queries;
mod schema_rights;
mod server_address;
mod server_clock;
mod server_connector;
mod server_examination;
mod server_figures;
mod server_settings;
mod server_watch;
mod session_refusal;
mod statement_draft;
mod stored_counts;
mod stored_text;
mod table_copies;
mod tls_route;
mod write_beginning;

pub(crate) use claim_keeping::check_claim;
pub(crate) use connections::PostgresDatabase;
pub(crate) use filling::PostgresFiller;
pub(crate) use long_reads::PostgresReader;
pub(crate) use meta_table::read_meta;
pub(crate) use server_address::name_of;
#[cfg(test)]
pub(crate) use server_connector::open_session;
pub(crate) use server_examination::examine_server;
pub(crate) use table_copies::{
    check_unclaimed, copy_tables, drop_copy, exchange_tables, has_copies, put_copy_back,
    remove_abandoned_restore, remove_tables, replaced_tables,
};

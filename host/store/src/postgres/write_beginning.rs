//! The begin of a transaction that writes, on the writing connection or on a new one.
//!
//! This file prevents a node that stays without its writes after a failover: a writing connection
//! that no longer carries anything is replaced within the time of an answer.

use std::mem;
use std::time::Duration;

use sqlx::postgres::PgConnection;

use bulkhead_place::options::FlushPolicy;

use super::connections::{PostgresDatabase, WriterSlot};
use super::held_claim::HeldClaim;
use super::postgres_error::PostgresError;
use super::statement_draft::run_script_within;

/// Begins a transaction that writes. The limits end the transaction of a client that is gone,
/// which would otherwise hold the lock of the row of its node until the server's TCP keepalive,
/// often for hours.
pub(super) const BEGIN_WRITE: &str = "BEGIN ISOLATION LEVEL SERIALIZABLE; \
     SET LOCAL statement_timeout = '30s'; \
     SET LOCAL idle_in_transaction_session_timeout = '30s'";
/// Maximum time of the answer to the begin of a transaction. A connection that no longer carries
/// anything is replaced after this time.
const BEGIN_TIME: Duration = Duration::from_secs(10);
/// The same on a node that shares the database, whose other connections find a new server sooner.
const SHARED_BEGIN_TIME: Duration = Duration::from_secs(2);
/// Keeps transactions of nodes that share the database from each other: a sequential scan of a
/// small table, as of the rows of nodes, depends on all its rows, and of two overlapping commits
/// one would always fail.
const BY_INDEX: &str = "SET LOCAL enable_seqscan = off";
/// Lets a commit return before the flush, for benchmarks.
const WITHOUT_FLUSH: &str = "SET LOCAL synchronous_commit = off";

impl PostgresDatabase {
    /// Returns the writing connection with an open transaction. A connection that died while it
    /// was idle is replaced.
    pub(super) async fn begin(
        &self,
        writer: &mut WriterSlot,
    ) -> Result<PgConnection, PostgresError> {
        let (mut text, mut limit) = (BEGIN_WRITE.to_owned(), BEGIN_TIME);
        if self.claim().is_some_and(HeldClaim::shares) {
            text.push_str("; ");
            text.push_str(BY_INDEX);
            limit = SHARED_BEGIN_TIME;
        }
        if self.flushing == FlushPolicy::Never {
            text.push_str("; ");
            text.push_str(WITHOUT_FLUSH);
        }
        match mem::replace(writer, WriterSlot::Lost) {
            WriterSlot::Ready(mut connection) => {
                match run_script_within(limit, &mut connection, &text).await {
                    Ok(()) => return Ok(connection),
                    Err(error) if !error.ends_session() => return Err(error),
                    Err(_) => self.note_server_doubt(),
                }
            }
            WriterSlot::Lost => {}
            WriterSlot::Closed => {
                *writer = WriterSlot::Closed;
                return Err(PostgresError::closed());
            }
        }
        match self.begin_anew(&text).await {
            Err(error) if error.ends_session() && !error.is_timeout() => {
                self.begin_anew(&text).await
            }
            begun => begun,
        }
    }

    /// Records that the writer lost its server: the sessions that read may lead to a server that is
    /// no longer the primary server.
    pub(super) fn note_server_doubt(&self) {
        self.readers.note_doubt();
        self.follower.note_doubt();
        self.proofs.note_doubt();
    }

    async fn begin_anew(&self, text: &str) -> Result<PgConnection, PostgresError> {
        let mut connection = self.connector.connect().await?;
        self.readers.renew();
        self.follower.renew();
        self.proofs.renew();
        run_script_within(BEGIN_TIME, &mut connection, text).await?;
        Ok(connection)
    }
}

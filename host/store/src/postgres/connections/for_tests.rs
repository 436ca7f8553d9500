//! Operations for tests of the layers above: edits behind the store's back, queries, and a held
//! writing connection.

use sqlx::postgres::{PgConnection, PgRow};
use tokio::sync::oneshot;

use super::{PostgresDatabase, WriterSlot};
use crate::postgres::group_writes;
use crate::postgres::readers::SessionPool;
use crate::postgres::statement_draft::{StatementDraft, run_script};
use bulkhead_record::committed_state::GroupWrites;
use bulkhead_record::failpoint;
use bulkhead_record::fault::StoreFault;

impl PostgresDatabase {
    /// Runs a script, without the schema in the names of tables.
    pub(crate) async fn edit(&self, script: &str) {
        let path = format!("SET LOCAL search_path = \"{}\"; ", self.tables.schema);
        let written = self.write(&[StatementDraft::script(path + script)]).await;
        written.map_err(StoreFault::from).unwrap();
    }

    /// Returns the rows of a query, without the schema in the names of tables.
    pub(crate) async fn query(&self, query: &str) -> Vec<PgRow> {
        let mut connection = self.connect().await.unwrap();
        let path = format!("SET search_path = \"{}\"", self.tables.schema);
        run_script(&mut connection, &path).await.unwrap();
        StatementDraft::of(query).fetch(&mut connection).await.unwrap()
    }

    /// Reads a table in a transaction that stays open, as a backup does.
    pub(crate) async fn hold_lock(&self, table: &str) -> PgConnection {
        let mut connection = self.connect().await.unwrap();
        let table = format!("\"{}\".\"{table}\"", self.tables.schema);
        let script = format!("BEGIN; SELECT 1 FROM {table} LIMIT 1");
        run_script(&mut connection, &script).await.unwrap();
        connection
    }

    /// Commits a group, and runs `act` before the message that commits.
    pub(crate) async fn commit_around(
        &self,
        writes: GroupWrites<'_>,
        act: impl Future<Output = ()>,
    ) {
        let mut connection = self.begin(&mut WriterSlot::Lost).await.unwrap();
        let statements = group_writes::statements_of(&self.tables, &writes, self.claim()).unwrap();
        for statement in statements {
            statement.fetch(&mut connection).await.unwrap();
        }
        act.await;
        run_script(&mut connection, "COMMIT").await.unwrap();
    }

    /// Returns the pool of the reading connections.
    pub(crate) fn readers(&self) -> &SessionPool {
        &self.readers
    }

    /// Returns the pool of the proofs.
    pub(crate) fn proofs(&self) -> &SessionPool {
        &self.proofs
    }

    /// Holds the writing connection until `ended`, as a write that gives up.
    pub(crate) async fn hold_writer(
        &self,
        begun: oneshot::Sender<()>,
        ended: oneshot::Receiver<()>,
    ) {
        let _writer = self.writer.lock().await;
        failpoint::reach("commit.begin").unwrap();
        begun.send(()).unwrap();
        ended.await.unwrap();
    }
}

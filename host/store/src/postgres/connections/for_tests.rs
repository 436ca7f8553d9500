//! Operations for tests of the layers above: edits behind the store's back, queries, and a held
//! writing connection.

use sqlx::postgres::PgRow;
use tokio::sync::oneshot;

use super::PostgresDatabase;
use crate::postgres::readers::SessionPool;
use crate::postgres::statement_draft::{StatementDraft, run_script};
use bulkhead_record::failpoint;

impl PostgresDatabase {
    /// Runs a script, without the schema in the names of tables.
    pub(crate) async fn edit(&self, script: &str) {
        let path = format!("SET LOCAL search_path = \"{}\"; ", self.tables.schema);
        self.write(&[StatementDraft::script(path + script)]).await.unwrap();
    }

    /// Returns the rows of a query, without the schema in the names of tables.
    pub(crate) async fn query(&self, query: &str) -> Vec<PgRow> {
        let mut connection = self.connect().await.unwrap();
        let path = format!("SET search_path = \"{}\"", self.tables.schema);
        run_script(&mut connection, &path).await.unwrap();
        StatementDraft::of(query).fetch(&mut connection).await.unwrap()
    }

    /// Returns the pool of the reading connections.
    pub(crate) fn readers(&self) -> &SessionPool {
        &self.readers
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

//! The counters of stored bytes, which `group_writes` changes within each commit.
//!
//! This file prevents nodes that wait for each other, and commits that fail, because unrelated
//! records are of one mount: each node that shares the database counts the bytes of a mount in a
//! row of its own, and a question sums the rows. The row of a node may be negative, after the node
//! deleted records of others. A node that works alone, and the counters of callers, which few
//! commits change, have rows without a node.

use std::collections::BTreeMap;

use sqlx::Row as _;
use sqlx::postgres::PgRow;

use bulkhead_place::claim_watch::{ClaimingNode, NodeSharing};
use bulkhead_record::fault::StoreFault;

use super::connections::PostgresDatabase;
use super::postgres_error::PostgresError;
use super::server_address::TableNames;
use super::statement_draft::StatementDraft;
use super::stored_text::decode;

/// The columns of the table. `node` is the name of the row of a node, or empty.
pub(super) const STORED_COLUMNS: &str = "mount text COLLATE \"C\" NOT NULL,
             node text COLLATE \"C\" NOT NULL,
             bytes bigint NOT NULL,
             PRIMARY KEY (mount, node)";

/// Returns the condition that a counter is of a mount: a counter of a caller has a slash. `counter`
/// is the name of the column.
pub(super) fn is_of_mount(counter: &str) -> String {
    format!("position('/' IN {counter}) = 0")
}

/// Returns the node in whose rows a process counts the bytes of mounts; empty for a node that works
/// alone.
pub(super) fn counting_node(node: &ClaimingNode) -> String {
    match node.sharing {
        NodeSharing::Alone => String::new(),
        NodeSharing::Shared => node.row_name(),
    }
}

/// Returns the statements that add the rows of mounts of nodes without a claim to the rows of
/// `node`, and remove empty rows. The table otherwise grows with each data directory that ever
/// opened the store, and with each mount.
///
/// # Errors
/// The error of the driver for a value that cannot be encoded.
pub(super) fn taking_over(
    tables: &TableNames,
    node: &ClaimingNode,
) -> Result<[StatementDraft; 3], PostgresError> {
    let TableNames { stored, node: nodes, .. } = tables;
    let text = format!(
        "WITH ended AS (DELETE FROM {stored} AS s \
             WHERE s.node <> $1 AND {} AND NOT EXISTS (SELECT 1 FROM {nodes} AS n \
                 WHERE n.name = s.node AND n.name <> $2 AND n.holder IS NOT NULL) \
             RETURNING s.mount, s.bytes) \
         INSERT INTO {stored} AS total (mount, node, bytes) \
         SELECT mount, $1, sum(bytes)::bigint FROM ended GROUP BY mount ORDER BY mount \
         ON CONFLICT (mount, node) DO UPDATE SET bytes = total.bytes + excluded.bytes",
        is_of_mount("s.mount")
    );
    let removing = format!("DELETE FROM {stored} WHERE node = $1 AND bytes = 0");
    let (counting, own) = (counting_node(node), node.row_name());
    let adding = StatementDraft::of(text).with(counting.as_str())?.with(own)?;
    Ok([adding, StatementDraft::of(removing).with(counting)?, removing_sums_of_zero(tables)])
}

/// Returns the statement that removes the rows of mounts without records: the rows of their nodes
/// add up to zero. Rows that add up to zero can be removed whatever other nodes count meanwhile;
/// the lock shows the latest value of each row.
fn removing_sums_of_zero(tables: &TableNames) -> StatementDraft {
    let TableNames { stored, .. } = tables;
    StatementDraft::of(format!(
        "WITH counted AS MATERIALIZED (SELECT mount, node, bytes FROM {stored} \
             WHERE {} AND mount IN (SELECT mount FROM {stored} GROUP BY mount \
                 HAVING sum(bytes) = 0) ORDER BY mount, node FOR UPDATE), \
         emptied AS (SELECT mount FROM counted GROUP BY mount HAVING sum(bytes) = 0) \
         DELETE FROM {stored} AS s USING counted, emptied \
         WHERE counted.mount = emptied.mount AND s.mount = counted.mount \
             AND s.node = counted.node",
        is_of_mount("mount")
    ))
}

impl PostgresDatabase {
    /// As [`Database::stored_by_mount`](crate::database::Database::stored_by_mount).
    pub(crate) async fn stored_by_mount(&self) -> Result<BTreeMap<String, u64>, StoreFault> {
        let text = format!(
            "SELECT mount, sum(bytes)::bigint AS bytes FROM {} WHERE {} \
             GROUP BY mount HAVING sum(bytes) > 0",
            self.tables.stored,
            is_of_mount("mount")
        );
        let rows = self.readers.fetch(StatementDraft::of(text)).await?;
        let pair = |row: &PgRow| Ok((decode(row.try_get("mount")?), row.try_get("bytes")?));
        let pairs: Result<Vec<(String, i64)>, sqlx::Error> = rows.iter().map(pair).collect();
        let bytes = |(mount, bytes)| Some((mount, u64::try_from(bytes).ok()?));
        Ok(pairs.map_err(PostgresError::from)?.into_iter().filter_map(bytes).collect())
    }

    /// As [`Database::give_back_space`](crate::database::Database::give_back_space). The server
    /// reuses the space of deleted rows by itself.
    pub(crate) async fn give_back_space(&self) -> Result<(), StoreFault> {
        self.measure_sizes().await;
        Ok(())
    }
}

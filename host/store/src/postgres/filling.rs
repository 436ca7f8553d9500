//! Filling new tables with the rows of a snapshot, beside the tables in use.
//!
//! This file prevents tables with a part of a snapshot: the new tables are filled in one
//! transaction. `table_copies` exchanges the tables in use for the new tables.

use std::collections::BTreeMap;

use sqlx::postgres::PgConnection;

use bulkhead_place::postgres_place::PostgresPlace;
use bulkhead_record::committed_state::GroupWrites;
use bulkhead_record::fault::StoreFault;
use bulkhead_record::meta_rows::{MetaChange, MetaRows};
use bulkhead_record::raw_record::{FillFault, RawRecord};
use bulkhead_record::record::{Address, Space};

use super::group_writes::{COLUMNS, counter_of, statements_of, stored_size};
use super::meta_table;
use super::postgres_error::PostgresError;
use super::readers::discard;
use super::server_address::TableNames;
use super::server_connector::connect;
use super::statement_draft::{StatementDraft, run_script};
use super::stored_text::encode;
use super::table_copies::removal;

/// The connection that fills new tables, in a single transaction.
pub(crate) struct PostgresFiller {
    connection: PgConnection,
    tables: TableNames,
    /// The stored bytes of each counter, by the rows so far.
    counters: BTreeMap<String, i64>,
}

impl PostgresFiller {
    /// Connects to the server. The tables in use stay in use.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the server cannot be reached.
    pub(crate) async fn open(place: &PostgresPlace) -> Result<PostgresFiller, StoreFault> {
        let connection = connect(place).await?;
        let tables = TableNames::restored(place);
        Ok(PostgresFiller { connection, tables, counters: BTreeMap::new() })
    }

    /// As [`DatabaseFiller::begin`](crate::database::DatabaseFiller::begin). Removes the tables of
    /// a restore that was not completed. The tables have the newest version of the schema,
    /// whichever version the rows are of.
    pub(crate) async fn begin(&mut self) -> Result<(), StoreFault> {
        let (removal, creation) = (removal(&self.tables), meta_table::creation(&self.tables));
        let script = format!("BEGIN; {removal}; {creation}");
        Ok(run_script(&mut self.connection, &script).await?)
    }

    /// As [`DatabaseFiller::insert`](crate::database::DatabaseFiller::insert).
    pub(crate) async fn insert(
        &mut self,
        identity: Vec<(String, Vec<u8>)>,
        records: Vec<RawRecord>,
    ) -> Result<(), FillFault> {
        records.iter().for_each(|record| self.count(record));
        let names = names_insertion(&self.tables, identity).map_err(rejected)?;
        let rows = rows_insertion(&self.tables, &records).map_err(rejected)?;
        for statement in names.into_iter().chain(rows) {
            statement.fetch(&mut self.connection).await.map_err(rejected)?;
        }
        Ok(())
    }

    fn count(&mut self, record: &RawRecord) {
        let Some(space) = Space::of_number(record.space) else { return };
        let address = Address::new(space, record.key.as_str());
        if let Some(counter) = counter_of(&address) {
            let bytes = stored_size(&address, (&record.lane, &record.owner), record.sealed.len());
            *self.counters.entry(encode(counter).into_owned()).or_default() += bytes;
        }
    }

    /// As [`DatabaseFiller::identity_rows`](crate::database::DatabaseFiller::identity_rows).
    pub(crate) async fn identity_rows(&mut self) -> Result<MetaRows, StoreFault> {
        Ok(meta_table::rows(&mut self.connection, &self.tables).await?)
    }

    /// As [`DatabaseFiller::commit`](crate::database::DatabaseFiller::commit).
    pub(crate) async fn commit(&mut self, changes: Vec<MetaChange>) -> Result<(), StoreFault> {
        let mut identity = changes;
        identity.push(meta_table::schema_row());
        let writes = GroupWrites { identity, ..GroupWrites::default() };
        let mut statements = statements_of(&self.tables, &writes, None)?;
        let (counters, bytes): (Vec<String>, Vec<i64>) =
            std::mem::take(&mut self.counters).into_iter().unzip();
        let text = format!(
            "INSERT INTO {} (mount, node, bytes) SELECT given.mount, '', given.bytes \
             FROM unnest($1::text[], $2::bigint[]) AS given (mount, bytes)",
            self.tables.stored
        );
        statements.push(StatementDraft::of(text).with(counters)?.with(bytes)?);
        statements.push(StatementDraft::script("COMMIT"));
        for statement in statements {
            statement.fetch(&mut self.connection).await?;
        }
        Ok(())
    }

    /// As [`DatabaseFiller::close`](crate::database::DatabaseFiller::close).
    pub(crate) async fn close(self) {
        discard(self.connection).await;
    }
}

/// Returns the statement that inserts rows of the identity.
fn names_insertion(
    tables: &TableNames,
    identity: Vec<(String, Vec<u8>)>,
) -> Result<Option<StatementDraft>, PostgresError> {
    if identity.is_empty() {
        return Ok(None);
    }
    let (names, values): (Vec<String>, Vec<Vec<u8>>) = identity.into_iter().unzip();
    let text = format!(
        "INSERT INTO {} (name, value) SELECT given.name, given.value \
         FROM unnest($1::text[], $2::bytea[]) AS given (name, value)",
        tables.meta
    );
    let names: Vec<_> = names.iter().map(|name| encode(name)).collect();
    StatementDraft::of(text).with(names)?.with(values).map(Some)
}

/// Returns the statement that inserts records, in their order.
fn rows_insertion(
    tables: &TableNames,
    records: &[RawRecord],
) -> Result<Option<StatementDraft>, PostgresError> {
    if records.is_empty() {
        return Ok(None);
    }
    let text = format!(
        "INSERT INTO {} ({COLUMNS}) SELECT {COLUMNS} FROM unnest($1::bigint[], $2::text[], \
         $3::bytea[], $4::bigint[], $5::text[], $6::text[], $7::bigint[], $8::bigint[], \
         $9::bytea[]) AS given ({COLUMNS})",
        tables.record
    );
    let each = records.iter();
    StatementDraft::of(text)
        .with(each.clone().map(|row| row.space).collect::<Vec<_>>())?
        .with(each.clone().map(|row| encode(&row.key)).collect::<Vec<_>>())?
        .with(each.clone().map(|row| row.stamp.as_slice()).collect::<Vec<_>>())?
        .with(each.clone().map(|row| row.due).collect::<Vec<_>>())?
        .with(each.clone().map(|row| encode(&row.lane)).collect::<Vec<_>>())?
        .with(each.clone().map(|row| encode(&row.owner)).collect::<Vec<_>>())?
        .with(each.clone().map(|row| row.created).collect::<Vec<_>>())?
        .with(each.clone().map(|row| row.modified).collect::<Vec<_>>())?
        .with(each.map(|row| row.sealed.as_slice()).collect::<Vec<_>>())
        .map(Some)
}

/// Returns the fault for rows that the database did not take.
fn rejected(error: PostgresError) -> FillFault {
    if error.is_same_key() { FillFault::SameName } else { FillFault::Failed(error.into()) }
}

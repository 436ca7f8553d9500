//! The schema, and the table `meta` with the store's identity.
//!
//! The versions of the schema are counted together with the versions of SQLite, so that a snapshot
//! of one database can be restored to the other. The first version here is the fifth of SQLite.

use std::collections::BTreeMap;
use std::time::Instant;

use sqlx::Row as _;
use sqlx::postgres::{PgConnection, PgRow};

use bulkhead_place::directory;
use bulkhead_place::postgres_place::PostgresPlace;
use bulkhead_place::write_failure::{IdentityFailure, TransactionOutcome, WriteFailure};
use bulkhead_record::fault::StoreFault;
use bulkhead_record::meta_rows::{MetaChange, MetaRows, has_changes};
use bulkhead_record::rows::SealedRow;

use super::change_rows::CHANGE_COLUMNS;
use super::connections::{ATTEMPTS, PostgresDatabase, pause_before};
use super::group_commit::RETURN_TIME;
use super::group_writes;
use super::node_rows::{self, NODE_COLUMNS};
use super::postgres_error::PostgresError;
use super::progress_rows::PROGRESS_COLUMNS;
use super::readers::discard;
use super::schema_rights::{self, TablePresence};
use super::server_address::{TableNames, name_of};
use super::server_connector::connect;
use super::server_settings;
use super::statement_draft::StatementDraft;
use super::stored_counts::STORED_COLUMNS;

/// The version of the schema that this file creates.
const SCHEMA_VERSION: usize = 5;
/// Name of the row with the version of the schema.
const SCHEMA_ROW: &str = "schema";

/// The indexes besides those of keys.
pub(super) const INDEXES: [&str; 3] = ["record_by_due", "record_by_owner", "record_by_lane_due"];

impl PostgresDatabase {
    /// As [`Database::migrate`](crate::database::Database::migrate). No earlier version of the
    /// schema exists.
    pub(crate) async fn migrate(&self) -> Result<(), StoreFault> {
        self.measure_sizes().await;
        Ok(())
    }

    /// As [`Database::initialise`](crate::database::Database::initialise).
    pub(crate) async fn initialise(
        &self,
        mut identity: Vec<MetaChange>,
        records: &[SealedRow],
    ) -> Result<(), StoreFault> {
        identity.push(schema_row());
        let writes = bulkhead_record::committed_state::GroupWrites {
            puts: records.iter().collect(),
            identity,
            ..Default::default()
        };
        // The transaction that creates the tables needs no claim.
        let presence = self.readers.fetch(TablePresence::question(&self.tables)?).await?;
        let mut statements = vec![match TablePresence::of_count(presence.len()) {
            TablePresence::Complete => first_name(&self.tables)?,
            _ => StatementDraft::script(creation(&self.tables)),
        }];
        statements.extend(group_writes::statements_of(&self.tables, &writes, None)?);
        match self.write(&statements).await {
            Err(WriteFailure::Unknown(said)) => {
                self.decide_initialisation((&statements, &writes.identity), said).await
            }
            written => Ok(written?),
        }
    }

    /// Decides about an initialisation with a lost answer. The repetition waits for the first
    /// transaction, fails if the first transaction is stored, and takes its place if not.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the database does not decide, or other data are stored.
    pub(super) async fn decide_initialisation(
        &self,
        (statements, identity): (&[StatementDraft], &[MetaChange]),
        said: String,
    ) -> Result<(), StoreFault> {
        let (begun, mut attempts) = (Instant::now(), 1);
        while begun.elapsed() < RETURN_TIME {
            if self.write(statements).await.is_ok() {
                return Ok(());
            }
            if let Ok(stored) = self.identity_rows().await
                && !stored.is_empty()
            {
                return match has_changes(&stored, identity) {
                    true => Ok(()),
                    false => Err(StoreFault::Unavailable(format!(
                        "another process initialised {} meanwhile; nothing was stored; look at \
                         the seal's status",
                        self.name().display()
                    ))),
                };
            }
            pause_before(attempts).await;
            attempts += 1;
        }
        Err(StoreFault::Unavailable(format!(
            "the database failed while committing ({said}), and whether the new cluster is stored \
             is not known; its keys are lost: if the server shows as initialised later, drop the \
             tables in {}, and initialise the server again",
            self.name().display()
        )))
    }

    /// As [`Database::identity_rows`](crate::database::Database::identity_rows).
    pub(crate) async fn identity_rows(&self) -> Result<MetaRows, StoreFault> {
        let found = self.readers.fetch(all_rows(&self.tables)).await?;
        Ok(parse(&found)?)
    }

    /// As [`Database::followed_identity`](crate::database::Database::followed_identity).
    pub(crate) async fn followed_identity(&self) -> Result<MetaRows, StoreFault> {
        let found = self.follower.fetch(all_rows(&self.tables)).await?;
        Ok(parse(&found)?)
    }

    /// As [`Database::replace_identity`](crate::database::Database::replace_identity).
    pub(crate) async fn replace_identity(
        &self,
        replaced: &[MetaChange],
        changes: Vec<MetaChange>,
    ) -> Result<TransactionOutcome, IdentityFailure> {
        let writes = bulkhead_record::committed_state::GroupWrites {
            identity: changes,
            ..Default::default()
        };
        let statements = group_writes::statements_of(&self.tables, &writes, self.claim());
        let statements = statements.map_err(|error| IdentityFailure::Undone(error.into()))?;
        let outcome = match self.write_if_rows_are(replaced, &statements).await {
            Err(WriteFailure::Unknown(said)) => {
                self.decide_change(&writes.identity, said).await?;
                TransactionOutcome::Committed
            }
            written => written.map_err(|failure| IdentityFailure::Undone(failure.into()))?,
        };
        self.measure_sizes().await;
        Ok(outcome)
    }

    /// Runs the statements in a serializable transaction if the rows of the identity are as in
    /// `replaced`. Repeats the transaction if other processes interfere.
    async fn write_if_rows_are(
        &self,
        replaced: &[MetaChange],
        statements: &[StatementDraft],
    ) -> Result<TransactionOutcome, WriteFailure> {
        let mut attempts = 1;
        loop {
            let questions = (!replaced.is_empty()).then(|| all_rows(&self.tables));
            let plan = |rows: Vec<PgRow>| {
                Ok(has_changes(&parse(&rows)?, replaced).then(|| statements.to_vec()))
            };
            match self.transact(questions, plan).await {
                Err(WriteFailure::Interfered) if attempts < ATTEMPTS => {
                    pause_before(attempts).await;
                    attempts += 1;
                }
                outcome => return outcome,
            }
        }
    }

    /// Decides about a change with a lost answer, once every transaction that writes is decided.
    /// With a claim, the transaction was inspected already, and the database did not decide.
    async fn decide_change(
        &self,
        changes: &[MetaChange],
        said: String,
    ) -> Result<(), IdentityFailure> {
        if self.claim().is_some() {
            return Err(IdentityFailure::InDoubt(WriteFailure::Unknown(said).into()));
        }
        match self.find_change(changes).await {
            Ok(true) => {
                self.count_commit(TransactionOutcome::Committed);
                Ok(())
            }
            Ok(false) => Err(IdentityFailure::Undone(StoreFault::Unavailable(format!(
                "the database failed while committing ({said}); nothing was stored, try again"
            )))),
            Err(_) => Err(IdentityFailure::InDoubt(WriteFailure::Unknown(said).into())),
        }
    }

    /// Returns whether the changes are stored. Waits until every transaction that writes is
    /// decided, also one of a connection that was lost.
    ///
    /// # Errors
    /// The error of the database, if the database does not say.
    pub(super) async fn find_change(&self, changes: &[MetaChange]) -> Result<bool, PostgresError> {
        let rows = self.inspect_until(|| Some(all_rows(&self.tables))).await?;
        Ok(has_changes(&parse(&rows)?, changes))
    }
}

/// As [`DatabasePlace::read_identity`](crate::database::DatabasePlace::read_identity).
pub(crate) async fn read_meta(place: &PostgresPlace) -> Result<Option<MetaRows>, StoreFault> {
    let tables = TableNames::of(place);
    let mut connection = connect(place).await?;
    server_settings::check_encoding(&mut connection).await?;
    let outcome = rows_of_own(&mut connection, &tables, place).await;
    discard(connection).await;
    match outcome? {
        OwnRows::Found(rows) => Ok(Some(rows)),
        OwnRows::NoTables => Ok(None),
        OwnRows::Foreign => {
            Err(directory::unusable(&name_of(place), "holds tables of some other program"))
        }
    }
}

/// The content of a schema.
enum OwnRows {
    /// No tables, or tables that were never used.
    NoTables,
    /// Some of the tables exist, and others do not.
    Foreign,
    Found(MetaRows),
}

async fn rows_of_own(
    connection: &mut PgConnection,
    tables: &TableNames,
    place: &PostgresPlace,
) -> Result<OwnRows, StoreFault> {
    let found = TablePresence::question(tables)?.fetch(connection).await?.len();
    match TablePresence::of_count(found) {
        TablePresence::Missing => {
            let statements = creation(tables);
            schema_rights::check_creation(connection, (tables, &statements), place).await?;
            return Ok(OwnRows::NoTables);
        }
        TablePresence::Partial => return Ok(OwnRows::Foreign),
        TablePresence::Complete => schema_rights::check_tables(connection, tables, place).await?,
    }
    let rows = rows(connection, tables).await?;
    if rows.is_empty() && schema_rights::are_unused(connection, tables).await? {
        return Ok(OwnRows::NoTables);
    }
    Ok(OwnRows::Found(rows))
}

/// Returns the statement that begins an initialisation in tables that an administrator created. The
/// statement fails if another process initialised the tables meanwhile.
fn first_name(tables: &TableNames) -> Result<StatementDraft, PostgresError> {
    let (name, value) = schema_row();
    let text = format!("INSERT INTO {} (name, value) VALUES ($1, $2)", tables.meta);
    StatementDraft::of(text).with(name)?.with(value)
}

/// Returns all rows of `meta`.
///
/// # Errors
/// The error of the database.
pub(super) async fn rows(
    connection: &mut PgConnection,
    tables: &TableNames,
) -> Result<MetaRows, PostgresError> {
    parse(&all_rows(tables).fetch(connection).await?)
}

fn all_rows(tables: &TableNames) -> StatementDraft {
    StatementDraft::of(format!("SELECT name, value FROM {}", tables.meta))
}

fn parse(rows: &[PgRow]) -> Result<MetaRows, PostgresError> {
    let pair = |row: &PgRow| Ok((row.try_get("name")?, row.try_get("value")?));
    let pairs: Result<BTreeMap<String, Vec<u8>>, sqlx::Error> = rows.iter().map(pair).collect();
    Ok(pairs?)
}

/// Returns the row with the version of the schema.
pub(super) fn schema_row() -> MetaChange {
    (SCHEMA_ROW, Some(SCHEMA_VERSION.to_string().into_bytes()))
}

/// Returns the statements that create the tables.
pub(super) fn creation(tables: &TableNames) -> String {
    let TableNames { record, meta, stored, node, change, progress, .. } = tables;
    let [by_due, by_owner, by_lane_due] = INDEXES.map(|index| tables.local_name_of(index));
    format!(
        "CREATE TABLE {meta} (
             name text COLLATE \"C\" NOT NULL PRIMARY KEY,
             value bytea NOT NULL
         );
         CREATE TABLE {record} (
             space smallint NOT NULL,
             key text COLLATE \"C\" NOT NULL,
             stamp bytea NOT NULL,
             due bigint,
             lane text COLLATE \"C\" NOT NULL,
             owner text COLLATE \"C\" NOT NULL,
             created bigint,
             modified bigint,
             sealed bytea NOT NULL,
             number bigint GENERATED BY DEFAULT AS IDENTITY UNIQUE,
             PRIMARY KEY (space, key)
         );
         CREATE INDEX {by_due} ON {record} (due) WHERE due IS NOT NULL;
         CREATE INDEX {by_owner} ON {record} (space, owner, number) WHERE owner <> '';
         CREATE INDEX {by_lane_due} ON {record} (space, lane, due, number)
             WHERE due IS NOT NULL;
         CREATE TABLE {stored} (
             {STORED_COLUMNS}
         );
         CREATE TABLE {node} (
             name text COLLATE \"C\" NOT NULL PRIMARY KEY,
             {NODE_COLUMNS}
         );
         CREATE TABLE {change} (
             {CHANGE_COLUMNS}
         );
         CREATE TABLE {progress} (
             {PROGRESS_COLUMNS}
         );
         {};",
        node_rows::gate_insertion(tables)
    )
}

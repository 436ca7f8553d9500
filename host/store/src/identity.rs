//! What a database says of itself before it is used: its format, its cluster, and a canary that proves the key.
//!
//! The attack this file stops: a server started with the wrong key or on the wrong directory, which would add records
//! that nobody can open beside those that it cannot. Nothing is written before all three agree.

use std::path::Path;

use sqlx::sqlite::SqliteConnection;
use sqlx::{ConnectOptions, Connection};

use crate::directory;
use crate::fault::StoreFault;
use crate::seal::{self, ClusterId, Seal, SealKey};
use crate::sqlite::{self, Attempt, Database};

const SCHEMA: &str = include_str!("../schema/0001.sql");
/// The tables that the schema makes; a file with others only is not ours.
const TABLES: [&str; 2] = ["meta", "record"];
/// The format that this version writes and the only one it reads.
const FORMAT: &[u8] = b"1";
const CANARY: &[u8] = b"this key opens this store";

/// What the table `meta` holds, as found.
struct Meta {
    format: Option<Vec<u8>>,
    cluster: Option<Vec<u8>>,
    canary: Option<Vec<u8>>,
}

/// Opens the database of `directory`, which must exist and be locked, and the seal that belongs to it. A new or empty
/// database becomes a cluster of its own.
///
/// # Errors
/// [`StoreFault::Refused`] when the file is not a database of this format, or `key` is not the one that sealed it;
/// [`StoreFault::Unavailable`] when it cannot be read or written.
pub(crate) async fn open(directory: &Path, key: &SealKey) -> Result<(Database, Seal), StoreFault> {
    let path = directory::database(directory);
    let found = if directory::ensure_database(directory)? { look(&path).await? } else { None };
    match found {
        Some(meta) => {
            let seal = recognise(&meta, key, directory)?;
            Ok((Database::open(&path).await?, seal))
        }
        None => found_cluster(&path, key).await,
    }
}

/// What is in the file, without writing to it; `None` when it has no tables, as after a crash before the first commit.
async fn look(path: &Path) -> Result<Option<Meta>, StoreFault> {
    let refused = |what: &str| {
        StoreFault::Refused(format!("{} {what}; choose another data directory, or restore this one", path.display()))
    };
    let mut connection = sqlite::reading(path).connect().await.map_err(|error| {
        if sqlite::is_no_database(&error) { refused("is not a database") } else { sqlite::fault(error) }
    })?;
    let outcome = match tables(&mut connection).await {
        Ok(names) if names.is_empty() => Ok(None),
        Ok(names) if TABLES.iter().all(|table| names.iter().any(|name| name == table)) => {
            read_meta(&mut connection).await.map(Some).map_err(sqlite::fault)
        }
        Ok(_) => Err(refused("is a database of some other program")),
        Err(error) if sqlite::is_no_database(&error) => Err(refused("is not a database")),
        Err(error) => Err(sqlite::fault(error)),
    };
    connection.close().await.map_err(sqlite::fault)?;
    outcome
}

async fn tables(connection: &mut SqliteConnection) -> Result<Vec<String>, sqlx::Error> {
    sqlx::query_scalar("SELECT name FROM sqlite_schema WHERE type = 'table'").fetch_all(connection).await
}

async fn read_meta(connection: &mut SqliteConnection) -> Result<Meta, sqlx::Error> {
    Ok(Meta {
        format: value(connection, "format").await?,
        cluster: value(connection, "cluster").await?,
        canary: value(connection, "canary").await?,
    })
}

async fn value(connection: &mut SqliteConnection, name: &str) -> Result<Option<Vec<u8>>, sqlx::Error> {
    sqlx::query_scalar("SELECT value FROM meta WHERE name = ?").bind(name).fetch_optional(connection).await
}

/// The seal of the cluster that `meta` names, if `key` opens its canary.
fn recognise(meta: &Meta, key: &SealKey, directory: &Path) -> Result<Seal, StoreFault> {
    let place = directory.display();
    if meta.format.as_deref() != Some(FORMAT) {
        let found = String::from_utf8_lossy(meta.format.as_deref().unwrap_or(b"unknown"));
        return Err(StoreFault::Refused(format!(
            "the data in {place} has format {found:?} and this version reads {:?}; use the version that wrote it",
            String::from_utf8_lossy(FORMAT)
        )));
    }
    let foreign = || {
        StoreFault::Refused(format!(
            "the data in {place} was sealed with another key or for another cluster; \
             give the key that belongs to it, or choose another directory"
        ))
    };
    let cluster = meta.cluster.as_deref().and_then(|id| ClusterId::try_from(id).ok()).ok_or_else(foreign)?;
    let seal = Seal::new(key, cluster)?;
    let opened = seal.open(&seal.label("canary"), meta.canary.as_deref().unwrap_or_default());
    if opened.is_some_and(|body| body.as_slice() == CANARY) { Ok(seal) } else { Err(foreign()) }
}

/// Makes the tables and a new cluster's identity, together or not at all.
async fn found_cluster(path: &Path, key: &SealKey) -> Result<(Database, Seal), StoreFault> {
    let cluster: ClusterId = seal::random()?;
    let seal = Seal::new(key, cluster)?;
    let canary = seal.seal(&seal.label("canary"), CANARY)?;
    let database = Database::open(path).await?;
    let identity = [("format", FORMAT), ("cluster", &cluster), ("canary", &canary)];
    database
        .write(async |connection: &mut SqliteConnection| {
            sqlx::raw_sql(SCHEMA).execute(&mut *connection).await?;
            for (name, value) in identity {
                let insert = sqlx::query("INSERT INTO meta (name, value) VALUES (?, ?)");
                insert.bind(name).bind(value).execute(&mut *connection).await?;
            }
            Ok(Attempt::Committed)
        })
        .await?;
    Ok((database, seal))
}

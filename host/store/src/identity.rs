//! The identity of a database, read before the database is used: format, cluster, the seals of the
//! root key, and the sealed keys that prove a key right.
//!
//! This file prevents a server started with the wrong key or on the wrong directory from mixing its
//! records with records sealed by another key; no single key would open such data. Nothing is
//! written before format, cluster and key agree.

mod meta;

use std::path::Path;

use aws_lc_rs::digest;
use bulkhead_wire::hexadecimal;
use sqlx::sqlite::SqliteConnection;
use sqlx::{ConnectOptions, Connection};

use crate::cipher::{self, ClusterId, SealKey};
use crate::directory;
use crate::fault::StoreFault;
use crate::keyring::{Keyring, RootKey};
use crate::root_seals::{AutomaticRoot, DataSeals, FirstKeys, HolderSeal};
use crate::seal::Seal;
use crate::sqlite::{self, Database, TransactionOutcome};
use meta::{MetaFault, number, read_row, row, write_row};
pub(crate) use meta::{
    note_restore, put_time, remove_restore, replace_automatic, replace_holders, replace_keyring,
};

/// The schema scripts, in order. A script may only add what an earlier release of the same format
/// tolerates.
const SCHEMAS: [&str; 5] = [
    include_str!("../schema/0001.sql"),
    include_str!("../schema/0002.sql"),
    include_str!("../schema/0003.sql"),
    include_str!("../schema/0004.sql"),
    include_str!("../schema/0005.sql"),
];
/// Number of schema scripts of this version.
pub(crate) const SCHEMA_COUNT: usize = SCHEMAS.len();
/// The tables that the schema creates. A file without these tables belongs to another program.
const TABLES: [&str; 2] = ["meta", "record"];
/// The only format that this version reads and writes.
pub(crate) const FORMAT: &str = "2";

/// The rows of `meta` in the format of this version. Only the keys are secret, and the keys are
/// sealed.
pub(crate) struct StoreIdentity {
    cluster: ClusterId,
    /// At least one of the two seals of the root key is there.
    holders: Option<HolderSeal>,
    automatic: Option<AutomaticRoot>,
    /// The keyring, sealed by the root key.
    keyring: Vec<u8>,
    /// The store time that the data have reached, in milliseconds.
    reached: u64,
    /// The store time of the restore from a snapshot, in milliseconds; `None` if the data were not
    /// restored, or released since.
    restored: Option<u64>,
}

impl StoreIdentity {
    /// Generates a new cluster and the seal. The first term begins at `installed` (store time,
    /// milliseconds).
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if there is no randomness.
    pub(crate) fn generate(
        keys: FirstKeys<'_>,
        installed: u64,
    ) -> Result<(StoreIdentity, Seal), StoreFault> {
        let cluster: ClusterId = cipher::random()?;
        let (root, keyring) = (RootKey::generate()?, Keyring::generate(installed)?);
        let holders = keys.holders.map(|holders| HolderSeal::make(&root, &cluster, holders));
        let automatic = keys.automatic.map(|seal| AutomaticRoot::make(&root, &cluster, seal));
        let sealed = root.seal_keyring(&cluster, &keyring)?;
        let identity = StoreIdentity {
            cluster,
            holders: holders.transpose()?,
            automatic: automatic.transpose()?,
            keyring: sealed,
            reached: installed,
            restored: None,
        };
        Ok((identity, Seal::new(cluster, root, keyring)))
    }

    /// Creates the tables and writes the identity, in the transaction open on `connection`.
    ///
    /// # Errors
    /// The error of SQLite, including tables that exist already.
    pub(crate) async fn write(&self, connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
        apply_schemas(connection, 0).await?;
        if let Some(holders) = &self.holders {
            replace_holders(connection, holders).await?;
        }
        if let Some(automatic) = &self.automatic {
            replace_automatic(connection, Some(automatic)).await?;
        }
        let reached = self.reached.to_string();
        for (name, value) in [
            (row::FORMAT, FORMAT.as_bytes()),
            (row::CLUSTER, &self.cluster),
            (row::KEYRING, &self.keyring),
            (row::TIME, reached.as_bytes()),
        ] {
            write_row(connection, name, value).await?;
        }
        Ok(())
    }

    /// Opens the seal with the key of the holders.
    ///
    /// # Errors
    /// [`StoreFault::WrongKey`] if `key` does not open the root key: another key, the key of
    /// another cluster, an edited cluster or configuration, or data without holders.
    /// [`StoreFault::Refused`] if `key` is right but the keyring was edited.
    pub(crate) fn open(&self, key: &SealKey, place: &Path) -> Result<Seal, StoreFault> {
        let root = match &self.holders {
            Some(holders) => holders.open(key, &self.cluster)?,
            None => None,
        };
        self.open_keyring(root, place)
    }

    /// Opens the seal with the key of the automatic seal.
    ///
    /// # Errors
    /// As [`StoreIdentity::open`].
    pub(crate) fn open_automatically(
        &self,
        key: &SealKey,
        place: &Path,
    ) -> Result<Seal, StoreFault> {
        let root = match &self.automatic {
            Some(automatic) => automatic.open(key, &self.cluster)?,
            None => None,
        };
        self.open_keyring(root, place)
    }

    /// Opens the seal with the root key of another opened seal.
    ///
    /// # Errors
    /// [`StoreFault::WrongKey`] if the keyring has another root key.
    pub(crate) fn open_like(&self, opened: &Seal) -> Result<Seal, StoreFault> {
        let keyring = opened.root().open_keyring(&self.cluster, &self.keyring)?;
        let keyring = keyring.ok_or(StoreFault::WrongKey)?;
        Ok(Seal::new(self.cluster, opened.root().copy(), keyring))
    }

    /// Returns whether the data are of the cluster of `seal`.
    pub(crate) fn is_of(&self, seal: &Seal) -> bool {
        self.cluster == *seal.cluster()
    }

    fn open_keyring(&self, root: Option<RootKey>, place: &Path) -> Result<Seal, StoreFault> {
        let root = root.ok_or(StoreFault::WrongKey)?;
        let keyring = root.open_keyring(&self.cluster, &self.keyring)?.ok_or_else(|| {
            StoreFault::Refused(format!(
                "the key is right, but the keyring in {} was changed outside of Bulkhead; restore \
                 the data directory from a backup",
                place.display()
            ))
        })?;
        Ok(Seal::new(self.cluster, root, keyring))
    }

    /// Returns the sealed keyring, which differs between any two initialisations.
    pub(crate) fn sealed_keyring(&self) -> &[u8] {
        &self.keyring
    }

    /// Returns the root key sealed for the holders.
    pub(crate) fn holders(&self) -> Option<&HolderSeal> {
        self.holders.as_ref()
    }

    /// Returns the root key sealed by the automatic seal.
    pub(crate) fn automatic(&self) -> Option<&AutomaticRoot> {
        self.automatic.as_ref()
    }

    /// Returns the ways in which the data can be opened.
    pub(crate) fn seals(&self) -> DataSeals {
        DataSeals {
            holders: self.holders.as_ref().map(|holders| holders.config),
            automatic: self.automatic.as_ref().map(|automatic| automatic.seal.clone()),
        }
    }

    /// Returns the store time that the data have reached. No process begins before that time.
    pub(crate) fn reached(&self) -> u64 {
        self.reached
    }

    /// Returns the store time of the restore; `None` if the data do not wait for a release.
    pub(crate) fn restored(&self) -> Option<u64> {
        self.restored
    }

    /// Returns the cluster's public name, a UUID: a hash of the cluster id, so that the id, a part
    /// of every label, is not published.
    pub(crate) fn cluster_name(&self) -> String {
        let hash = digest::digest(
            &digest::SHA256,
            &[b"bulkhead: name of the cluster".as_slice(), &self.cluster].concat(),
        );
        let mut bytes = [0; 16];
        bytes.iter_mut().zip(hash.as_ref()).for_each(|(byte, hashed)| *byte = *hashed);
        // Version 8 (custom) and the variant of RFC 9562.
        let number = u128::from_be_bytes(bytes);
        let number = number & !(0xf << 76) & !(0x3 << 62) | 8 << 76 | 2 << 62;
        let digits = hexadecimal::text(&number.to_be_bytes());
        let mut name = String::with_capacity(36);
        for (position, digit) in digits.chars().enumerate() {
            if matches!(position, 8 | 12 | 16 | 20) {
                name.push('-');
            }
            name.push(digit);
        }
        name
    }
}

/// Applies the schema scripts that were added since `database` was created.
///
/// # Errors
/// [`StoreFault::Unavailable`] if the database cannot be read or written.
pub(crate) async fn migrate(database: &Database) -> Result<(), StoreFault> {
    let read = async |connection: &mut SqliteConnection| read_row(connection, row::SCHEMA).await;
    let applied = database.readers().read(read).await?.and_then(|text| number(&text));
    let applied = applied.and_then(|count| usize::try_from(count).ok()).unwrap_or(1);
    if applied >= SCHEMAS.len() {
        return Ok(());
    }
    let apply = async |connection: &mut SqliteConnection| {
        apply_schemas(connection, applied).await?;
        Ok(TransactionOutcome::Committed)
    };
    database.write(apply).await
}

/// Applies the schema scripts after the first `applied`, in the transaction open on `connection`.
async fn apply_schemas(
    connection: &mut SqliteConnection,
    applied: usize,
) -> Result<(), sqlx::Error> {
    for schema in SCHEMAS.iter().skip(applied) {
        sqlx::raw_sql(*schema).execute(&mut *connection).await?;
    }
    write_row(connection, row::SCHEMA, SCHEMAS.len().to_string().as_bytes()).await
}

/// Creates the tables as the first `count` schema scripts make them, in the transaction open on
/// `connection`. Writes no row of `meta`.
///
/// # Errors
/// The error of SQLite, including tables that exist already.
pub(crate) async fn create_tables(
    connection: &mut SqliteConnection,
    count: usize,
) -> Result<(), sqlx::Error> {
    for schema in SCHEMAS.iter().take(count) {
        sqlx::raw_sql(*schema).execute(&mut *connection).await?;
    }
    Ok(())
}

/// Reads the identity of the database in `directory` without writing to the database; `None` if
/// nothing was initialised: there is no file, or the file has no tables, as after a crash before
/// the first commit.
///
/// # Errors
/// [`StoreFault::Refused`] if the file is not a database of this format and program, or lacks a
/// part of the identity; [`StoreFault::Unavailable`] if the file cannot be read.
pub(crate) async fn read(directory: &Path) -> Result<Option<StoreIdentity>, StoreFault> {
    if !directory::holds_database(directory)? {
        return Ok(None);
    }
    let path = directory::database(directory);
    sqlite::finish_rollback(&path).await.map_err(|error| unreadable(error, &path))?;
    let mut connection =
        sqlite::reading(&path).connect().await.map_err(|error| unreadable(error, &path))?;
    let outcome = read_from(&mut connection, &path).await;
    connection.close().await?;
    outcome
}

/// Checks that the database in `directory` is ours, and creates and changes no file, unlike
/// [`read`]. A database with the unfinished writes of a dead process is not looked at: no reader
/// could leave its files alone.
///
/// # Errors
/// As [`read`].
pub(crate) async fn examine(directory: &Path) -> Result<(), StoreFault> {
    let path = directory::database(directory);
    if !directory::holds_database(directory)? || directory::has_unfinished_writes(directory) {
        return Ok(());
    }
    let mut connection = sqlite::reading(&path)
        .immutable(true)
        .connect()
        .await
        .map_err(|error| unreadable(error, &path))?;
    let outcome = read_from(&mut connection, &path).await;
    connection.close().await?;
    outcome.map(drop)
}

async fn read_from(
    connection: &mut SqliteConnection,
    path: &Path,
) -> Result<Option<StoreIdentity>, StoreFault> {
    let names = read_table_names(connection).await.map_err(|error| unreadable(error, path))?;
    if names.is_empty() {
        return Ok(None);
    }
    if !TABLES.iter().all(|table| names.iter().any(|name| name == table)) {
        return Err(refused(path, "is a database of some other program"));
    }
    let format = read_row(connection, row::FORMAT).await?.unwrap_or_else(|| b"unknown".to_vec());
    if format != FORMAT.as_bytes() {
        return Err(StoreFault::Refused(format!(
            "the data in {} has format {:?} and this version reads {FORMAT:?}; use the version \
             that wrote the data",
            path.display(),
            String::from_utf8_lossy(&format)
        )));
    }
    read_rows(connection, path).await.map(Some)
}

/// Reads the identity of an open database. No rekey may run meanwhile: the rows are read one after
/// another.
///
/// # Errors
/// As [`read`].
pub(crate) async fn read_rows(
    connection: &mut SqliteConnection,
    path: &Path,
) -> Result<StoreIdentity, StoreFault> {
    let lost = |name| {
        refused(path, &format!("has lost or damaged the row {name:?} of the store's identity"))
    };
    let of_row = |fault| match fault {
        MetaFault::Lost(name) => lost(name),
        MetaFault::Unread(fault) => fault,
    };
    let cluster = read_row(connection, row::CLUSTER).await?.and_then(|id| id.try_into().ok());
    let holders = meta::read_holders(connection).await.map_err(of_row)?;
    let automatic = meta::read_automatic(connection).await.map_err(of_row)?;
    if holders.is_none() && automatic.is_none() {
        return Err(lost(row::ROOT));
    }
    let reached = match read_row(connection, row::TIME).await? {
        Some(text) => number(&text).ok_or_else(|| lost(row::TIME))?,
        None => 0,
    };
    let restored = match read_row(connection, row::RESTORED).await? {
        Some(text) => Some(number(&text).ok_or_else(|| lost(row::RESTORED))?),
        None => None,
    };
    Ok(StoreIdentity {
        cluster: cluster.ok_or_else(|| lost(row::CLUSTER))?,
        holders,
        automatic,
        keyring: read_row(connection, row::KEYRING).await?.ok_or_else(|| lost(row::KEYRING))?,
        reached,
        restored,
    })
}

async fn read_table_names(connection: &mut SqliteConnection) -> Result<Vec<String>, sqlx::Error> {
    sqlx::query_scalar("SELECT name FROM sqlite_schema WHERE type = 'table'")
        .fetch_all(connection)
        .await
}

fn unreadable(error: sqlx::Error, path: &Path) -> StoreFault {
    if sqlite::is_no_database(&error) {
        refused(path, "is not a database")
    } else {
        StoreFault::from(error)
    }
}

fn refused(path: &Path, fault: &str) -> StoreFault {
    StoreFault::Refused(format!(
        "{} {fault}; choose another data directory, or restore this directory",
        path.display()
    ))
}

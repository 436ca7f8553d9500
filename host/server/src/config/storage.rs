//! `storage`: the place of the data.
//!
//! This file prevents a server that starts empty instead of with the data of the file's author:
//! another storage is refused, with the block to write.

mod connection_source;
mod database_settings;
mod place_values;
mod postgres_block;
mod shared_node;

pub(crate) use database_settings::{ConnectRetries, DatabaseSettings, unverified_server};

use super::findings::ConfigError;
use super::section::{BlockKinds, ConfigSection, ConfigValue, SectionWords};
use bulkhead_store::DatabaseChoice;
use std::path::PathBuf;

const SQLITE_WORDS: SectionWords = SectionWords { keys: &["path"], blocks: &[], foreign: &[] };

/// Name of the block of a server.
const SERVER_BLOCK: &str = "storage";

/// The block that a file needs.
pub(super) const STORAGE_EXAMPLE: &str = "storage \"sqlite\" { path = \"/var/lib/bulkhead\" }";

const OTHER_STORAGE: &str = "this version stores in SQLite or PostgreSQL, and does not read the \
    data of another program; write storage \"sqlite\" { path = \"/var/lib/bulkhead\" } with a \
    separate directory, or storage \"postgresql\" { connection_url = … } with a separate database";

/// Storages of Vault and OpenBao, and of later versions.
const STORAGES: [(&str, &str); 23] = [
    ("aerospike", OTHER_STORAGE),
    ("alicloudoss", OTHER_STORAGE),
    ("azure", OTHER_STORAGE),
    ("cassandra", OTHER_STORAGE),
    ("cockroachdb", OTHER_STORAGE),
    ("consul", OTHER_STORAGE),
    ("couchdb", OTHER_STORAGE),
    ("dynamodb", OTHER_STORAGE),
    ("etcd", OTHER_STORAGE),
    ("file", OTHER_STORAGE),
    ("foundationdb", OTHER_STORAGE),
    ("gcs", OTHER_STORAGE),
    ("inmem", OTHER_STORAGE),
    ("manta", OTHER_STORAGE),
    ("mssql", OTHER_STORAGE),
    ("mysql", OTHER_STORAGE),
    ("oci", OTHER_STORAGE),
    ("postgres", OTHER_STORAGE),
    ("raft", OTHER_STORAGE),
    ("s3", OTHER_STORAGE),
    ("spanner", OTHER_STORAGE),
    ("swift", OTHER_STORAGE),
    ("zookeeper", OTHER_STORAGE),
];

/// The place of the data.
#[derive(Debug)]
pub(super) struct StorageSettings {
    /// Data directory. Beside PostgreSQL, the directory has no records.
    pub(super) data: PathBuf,
    /// Database with the records.
    pub(super) database: DatabaseSettings,
    /// Name of this node, if several nodes share the database.
    pub(super) node_id: Option<String>,
}

/// Reads the place of the data.
pub(super) fn settings(file: &ConfigSection<'_>) -> Option<StorageSettings> {
    settings_of(file, SERVER_BLOCK)
}

/// Reads the place of data in the block `name`, which has the words of `storage`.
pub(super) fn settings_of(file: &ConfigSection<'_>, name: &'static str) -> Option<StorageSettings> {
    if file.blocks(name).next().is_none() {
        file.refuse(missing(file, name));
        return None;
    }
    let wanted = BlockKinds {
        name,
        kinds: ["sqlite", "postgresql"],
        unserved: &STORAGES,
        twice: "leave one of the two out",
    };
    match file.blocks_of_kinds(&wanted) {
        [Some(_), Some(second)] => {
            let both = format!("the file has a {name} \"sqlite\", too; leave one out");
            file.refuse(second.error(both));
            None
        }
        [Some(sqlite), None] => sqlite_file(&sqlite.section(&SQLITE_WORDS)),
        [None, Some(postgres)] => {
            // The blocks of a migration are used by one process.
            let server = (name == SERVER_BLOCK).then_some(file);
            postgres_block::settings(&postgres, server)
        }
        [None, None] => None,
    }
}

fn sqlite_file(section: &ConfigSection<'_>) -> Option<StorageSettings> {
    let path: ConfigValue<'_> = section.required("path", "\"/var/lib/bulkhead\"")?;
    let data = section.keep(path.path())?;
    let database = DatabaseSettings::Known(DatabaseChoice::SqliteFile);
    Some(StorageSettings { data, database, node_id: None })
}

fn missing(file: &ConfigSection<'_>, name: &str) -> ConfigError {
    let example = STORAGE_EXAMPLE.replacen("storage", name, 1);
    file.error(format!("there is no {name}: write {example}"))
}

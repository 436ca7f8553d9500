//! `storage`: the place of the data.
//!
//! This file prevents a server that starts empty instead of with the data of the file's author:
//! another storage is refused, with the block to write.

use super::findings::ConfigError;
use super::section::{ConfigSection, ConfigValue, SectionWords};
use std::path::PathBuf;

const STORAGE_WORDS: SectionWords = SectionWords { keys: &["path"], blocks: &[], foreign: &[] };

/// The block that a file needs.
pub(super) const STORAGE_EXAMPLE: &str = "storage \"sqlite\" { path = \"/var/lib/bulkhead\" }";

const OTHER_STORAGE: &str = "this version stores in SQLite only, and does not read the data of \
    another program; write storage \"sqlite\" { path = \"/var/lib/bulkhead\" } with a separate \
    directory";

/// Storages of Vault and OpenBao, and of later versions.
const STORAGES: [(&str, &str); 24] = [
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
    ("postgresql", OTHER_STORAGE),
    ("raft", OTHER_STORAGE),
    ("s3", OTHER_STORAGE),
    ("spanner", OTHER_STORAGE),
    ("swift", OTHER_STORAGE),
    ("zookeeper", OTHER_STORAGE),
];

/// Reads the data directory.
pub(super) fn data_directory(file: &ConfigSection<'_>) -> Option<PathBuf> {
    if file.blocks("storage").next().is_none() {
        file.refuse(missing(file));
        return None;
    }
    let section = file.single_block("storage", "sqlite", &STORAGES)?.section(&STORAGE_WORDS);
    let path: ConfigValue<'_> = section.required("path", "\"/var/lib/bulkhead\"")?;
    section.keep(path.path())
}

fn missing(file: &ConfigSection<'_>) -> ConfigError {
    file.error(format!("there is no storage: write {STORAGE_EXAMPLE}"))
}

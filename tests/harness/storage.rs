//! The storage of servers in tests: a SQLite file, or a schema of this program's PostgreSQL server
//! with `BULKHEAD_TEST_STORAGE=postgresql`.

use bulkhead_test_database::{OnFiles, psql, url_of};
use std::path::Path;

/// Returns the block of a configuration file for a server with this data directory.
pub fn block(data: &Path) -> String {
    match url_of(data) {
        None => format!("storage \"sqlite\" {{ path = {data:?} }}"),
        Some(url) => {
            format!("storage \"postgresql\" {{\n  connection_url = {url:?}\n  path = {data:?}\n}}")
        }
    }
}

/// Returns the variable for a server without a configuration file.
pub(crate) fn variable(data: &Path) -> Option<(&'static str, String)> {
    url_of(data).map(|url| ("BULKHEAD_PG_CONNECTION_URL", url))
}

/// Keeps the servers of this test on SQLite, until dropped: for tests that look at files, or that
/// break the disk.
pub fn on_files() -> OnFiles {
    bulkhead_test_database::on_files()
}

/// Returns whether the data that a restore or a copy replaced are still there: a file, or tables.
pub fn has_replaced_data(data: &Path) -> bool {
    let Some(url) = url_of(data) else { return data.join("bulkhead.db.undone").exists() };
    let (_, schema) = url.rsplit_once('=').expect("the URL ends with the schema");
    let found = psql(&[&format!("SELECT count(*) FROM {schema}.bulkhead_replaced_record")]);
    found.status.success()
}

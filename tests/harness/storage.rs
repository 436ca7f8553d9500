//! The storage of servers in tests: a SQLite file, or a schema of this program's PostgreSQL server
//! with `BULKHEAD_TEST_STORAGE=postgresql`.

use crate::paths::{Folder, files_below};
use bulkhead_test_database::{OnFiles, TestDatabase, copy_schema, psql, schema_of, url_of};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the block of a configuration file for a server with this data directory.
pub fn block(data: &Path) -> String {
    match url_of(data) {
        None => format!("storage \"sqlite\" {{ path = {data:?} }}"),
        Some(url) => {
            format!("storage \"postgresql\" {{\n  connection_url = {url:?}\n  path = {data:?}\n}}")
        }
    }
}

/// Returns the name of the database of new servers, as in answers.
pub(crate) fn kind() -> &'static str {
    match TestDatabase::chosen() {
        TestDatabase::Sqlite => "sqlite",
        TestDatabase::Postgres => "postgresql",
    }
}

/// Returns the variable for a server without a configuration file.
pub fn variable(data: &Path) -> Option<(&'static str, String)> {
    url_of(data).map(|url| ("BULKHEAD_PG_CONNECTION_URL", url))
}

/// Keeps the servers of this test on SQLite, until dropped: for tests that look at files, or that
/// break the disk.
pub fn on_files() -> OnFiles {
    bulkhead_test_database::on_files()
}

/// Returns a folder with a copy of the data of a stopped server: the files, and the tables of its
/// schema.
pub fn copied(from: &Path) -> Folder {
    let data = Folder::new("copied-data");
    let copy = Command::new("cp").arg("-a").arg(from.join(".")).arg(data.path()).status();
    assert!(copy.expect("cp can be started").success(), "{} is copied", from.display());
    copy_schema(from, data.path());
    data
}

/// Returns whether the data that a restore or a copy replaced are still there: a file, or tables.
pub fn has_replaced_data(data: &Path) -> bool {
    match schema_of(data) {
        None => data.join("bulkhead.db.undone").exists(),
        Some(schema) => tables(&schema).iter().any(|name| name == "bulkhead_replaced_record"),
    }
}

/// Returns the files or tables of an unfinished copy or restore.
pub fn unfinished_data(data: &Path) -> Vec<String> {
    let (names, beginnings) = match schema_of(data) {
        None => {
            let name =
                |file: PathBuf| file.file_name().expect("a file").to_string_lossy().into_owned();
            let names: Vec<String> = files_below(data).into_iter().map(name).collect();
            (names, ["bulkhead.db.copy", "bulkhead.db.restored"])
        }
        Some(schema) => (tables(&schema), ["bulkhead_copy_", "bulkhead_restored_"]),
    };
    let is_unfinished = |name: &String| beginnings.iter().any(|word| name.starts_with(word));
    names.into_iter().filter(is_unfinished).collect()
}

/// Fails if a column of a table of the schema `SCHEMA` holds the bytes `HEX`.
const SEARCH: &str = "DO $search$ DECLARE part record; is_found boolean; BEGIN
    FOR part IN SELECT table_name, column_name, CASE data_type
            WHEN 'bytea' THEN format('%I', column_name)
            ELSE format('convert_to(%I, ''UTF8'')', column_name) END AS bytes
            FROM information_schema.columns
            WHERE table_schema = 'SCHEMA' AND data_type IN ('bytea', 'text') LOOP
        EXECUTE format('SELECT EXISTS (SELECT 1 FROM SCHEMA.%I WHERE position($1 IN %s) > 0)',
            part.table_name, part.bytes) INTO is_found USING '\\xHEX'::bytea;
        IF is_found THEN
            RAISE EXCEPTION '%.% holds a secret in the clear', part.table_name, part.column_name;
        END IF;
    END LOOP;
END $search$";

/// Fails if a row of the tables of this data directory holds `secret`.
#[track_caller]
pub(crate) fn assert_rows_sealed(data: &Path, secret: &str) {
    let Some(schema) = schema_of(data) else { return };
    let hex: String = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
    lines(&SEARCH.replace("SCHEMA", &schema).replace("HEX", &hex));
}

/// Runs a statement on the tables of a stopped server, without a key, and returns the rows; `None`
/// if the data are in a file.
#[track_caller]
pub fn edited(data: &Path, statement: &str) -> Option<Vec<String>> {
    let schema = schema_of(data)?;
    Some(lines(&format!("SET search_path = {schema}; {statement}")))
}

fn tables(schema: &str) -> Vec<String> {
    lines(&format!("SELECT tablename FROM pg_tables WHERE schemaname = '{schema}'"))
}

/// Returns the rows of a query at the PostgreSQL server of this program.
#[track_caller]
fn lines(query: &str) -> Vec<String> {
    let output = psql(&[query]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

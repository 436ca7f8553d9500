//! The database is set back to an earlier state under two running nodes, as by an operator who
//! restores a backup: both nodes stop serving and say so, and write nothing more.

use super::{SOON, write_round};
use bulkhead_tests::database_nodes::{NodeSeal, url_at};
use bulkhead_tests::paths::Folder;
use bulkhead_tests::wait::until_true;
use bulkhead_tests::{Client, DatabaseNodes, Postgres};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;

/// All tables of the storage.
const TABLES: &str = "bulkhead_meta, bulkhead_record, bulkhead_stored, bulkhead_node, \
                      bulkhead_change, bulkhead_progress";
/// The records, in a text that shows a change.
const RECORDS: &str =
    "SELECT md5(string_agg(t::text, ',' ORDER BY t::text)) FROM bulkhead_record AS t";

/// A backup of the rows of all tables.
struct Backup {
    folder: Folder,
}

impl Backup {
    fn take(database: &Postgres) -> Self {
        let folder = Folder::new("backup");
        let dump = database.psql_at(database.port, "");
        let program = Path::new(dump.get_program()).with_file_name("pg_dump");
        let output = Command::new(program)
            .args(["--data-only", "--host=127.0.0.1", "--username=bulkhead", "--dbname=demo"])
            .args([format!("--port={}", database.port), "--table=bulkhead_*".to_owned()])
            .env("PGPASSWORD", &database.password)
            .output()
            .expect("pg_dump can be started");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        std::fs::write(folder.path().join("rows.sql"), output.stdout).expect("a file");
        Self { folder }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("rows.sql")
    }

    /// Replaces the rows of all tables, in one transaction.
    #[track_caller]
    fn restore(&self, database: &Postgres) {
        let mut psql = database.psql_at(database.port, &format!("TRUNCATE {TABLES}"));
        let output = psql.arg("-1").arg("-f").arg(self.file()).output().expect("psql starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

/// Returns whether a node refuses reads and writes.
fn refuses(root: &Client) -> bool {
    let read = root.read("secret/a");
    let written = root.write("secret/refused", &json!({ "round": 0 }));
    [&read, &written].into_iter().all(|answer| answer.status == 503)
}

/// Takes a backup, lets each node of `writers` write, restores the backup, and asserts that both
/// nodes stop and say so.
#[track_caller]
fn set_back_after_writes_of(writers: &[usize]) {
    let database = Postgres::start();
    let urls = [0; 2].map(|_| url_at(&database, database.port));
    let group = DatabaseNodes::start(&urls, NodeSeal::StaticKey);
    let roots = [0, 1].map(|index| group.root(index));
    write_round(&roots[0], "secret/a", 1);
    let backup = Backup::take(&database);
    for writer in writers {
        write_round(&roots[*writer], "secret/a", 2);
        write_round(&roots[*writer], &format!("secret/of-{writer}"), 2);
    }
    backup.restore(&database);
    for (root, node) in roots.iter().zip(&group.nodes) {
        until_true("the node refuses", SOON, || refuses(root));
        node.wait_for_print("database-claim-lost");
        assert!(root.read("sys/health").status >= 500);
    }
    let before = database.query(RECORDS);
    assert!(roots.iter().all(refuses), "a node serves again by itself");
    assert_eq!(database.query(RECORDS), before, "a node wrote to the restored data");
}

#[test]
fn database_set_back_stops_both_nodes() {
    set_back_after_writes_of(&[0, 1]);
}

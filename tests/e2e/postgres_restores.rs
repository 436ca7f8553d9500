//! Restores by the command and the configuration file of a server with its data on PostgreSQL,
//! without the server: data in use, present data, and a database that was lost.

use bulkhead_tests::operators::{operator, seal_status};
use bulkhead_tests::paths::{Folder, binary};
use bulkhead_tests::sealed_server::recovery_operators;
use bulkhead_tests::wait::until_true;
use bulkhead_tests::{Bulkhead, Operators, Postgres, leaks, postgres_storage};
use serde_json::json;
use std::time::Duration;

/// Longest time until a server has opened, on a busy machine.
const OPEN: Duration = Duration::from_secs(30);
/// Password of the account of the storage.
const PASSWORD: &str = "Nb4-Wq8-Tz2-Lk6-Hd3";

/// A server with its data in a schema in which its account may create tables, and nothing else.
struct StoredServer {
    postgres: Postgres,
    server: Bulkhead,
    operators: Operators,
    folder: Folder,
}

impl StoredServer {
    fn start() -> Self {
        let postgres = Postgres::start();
        postgres.query(&format!("CREATE ROLE keeper LOGIN PASSWORD '{PASSWORD}'"));
        create_schema(&postgres);
        let url = format!(
            "postgresql://keeper:{PASSWORD}@127.0.0.1:{}/demo?sslmode=disable&search_path=keeper",
            postgres.port
        );
        let (mut server, folder) = postgres_storage::prepared(binary(), &url);
        server.start_again();
        let body = json!({ "recovery_shares": 1, "recovery_threshold": 1 });
        let answer = server.client(None).write("sys/init", &body).expect(200);
        let operators = recovery_operators(&answer.body, 1);
        Self { postgres, server, operators, folder }
    }

    fn write_policy(&self, name: &str) {
        let policy = json!({ "policy": "path \"of/here\" { capabilities = [\"read\"] }" });
        let root = self.operators.root(&self.server);
        root.write(&format!("sys/policies/acl/{name}"), &policy).expect(204);
    }

    /// Takes a snapshot, and returns the name of the file.
    fn save(&self) -> String {
        let file = self.folder.path().join("a.snap").display().to_string();
        let token = &self.operators.token;
        let (code, _, error) = operator(&self.server, token, &["snapshot", "save", &file]);
        assert_eq!(code, 0, "{error}");
        file
    }

    /// Restores the snapshot by the configuration. Returns the exit code and the output.
    fn restore(&self, options: &[&str], file: &str) -> (i32, String) {
        let config = self.folder.path().join("bulkhead.hcl");
        let config = format!("-config={}", config.display());
        let words = [&["snapshot", "restore", &config], options, &[file]].concat();
        let (code, out, error) = operator(&self.server, "", &words);
        let said = format!("{out}{error}");
        leaks::assert_silent("a restore", &said, PASSWORD);
        (code, said)
    }

    #[track_caller]
    fn refuses(&self, options: &[&str], file: &str, (code, part): (i32, &str)) {
        let (found, said) = self.restore(options, file);
        assert!(found == code && said.contains(part), "{found}: {said}");
    }

    /// Restores, starts the server, asserts that the data are those of the snapshot, and releases
    /// the data.
    #[track_caller]
    fn restore_and_start(&mut self, options: &[&str], file: &str) {
        let (code, said) = self.restore(options, file);
        assert_eq!(code, 0, "{said}");
        let place = format!("postgresql://127.0.0.1:{}/demo", self.postgres.port);
        for part in [place.as_str(), "start the server", "operator release"] {
            assert!(said.contains(part), "{part}: {said}");
        }
        self.server.start_again();
        let is_open = || seal_status(&self.server)["sealed"] == false;
        until_true("the server opens by itself", OPEN, is_open);
        let root = self.operators.root(&self.server);
        root.read("sys/policies/acl/before").expect(200);
        root.read("sys/policies/acl/after").expect(404);
        let (code, _, error) = operator(&self.server, &self.operators.token, &["release"]);
        assert_eq!(code, 0, "{error}");
        self.server.assert_silent(PASSWORD);
    }
}

fn create_schema(postgres: &Postgres) {
    postgres.query("CREATE SCHEMA keeper");
    postgres.query("GRANT USAGE, CREATE ON SCHEMA keeper TO keeper");
}

#[test]
fn postgres_data_are_restored_by_configuration_alone() {
    let mut stored = StoredServer::start();
    stored.write_policy("before");
    let file = stored.save();
    stored.write_policy("after");
    stored.refuses(&["-force"], &file, (1, "in use"));
    stored.operators.root(&stored.server).read("sys/policies/acl/after").expect(200);
    assert!(stored.server.stop(), "{}", stored.server.printed());
    stored.refuses(&[], &file, (1, "-force"));
    stored.refuses(&["-data=/nowhere"], &file, (2, "give only one of them"));
    stored.restore_and_start(&["-force"], &file);
    assert!(stored.server.stop(), "{}", stored.server.printed());
    // The directory notes a database that is gone, and blocks a start, but no restore.
    stored.postgres.query("DROP SCHEMA keeper CASCADE");
    create_schema(&stored.postgres);
    stored.restore_and_start(&[], &file);
}

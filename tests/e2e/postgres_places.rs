//! Databases on PostgreSQL that cannot serve as storage: the server refuses to start, names the
//! reason, and writes nothing. After a repair the same server starts with its data.

use bulkhead_tests::operators::seal_status;
use bulkhead_tests::paths::{Folder, binary};
use bulkhead_tests::sealed_server::recovery_operators;
use bulkhead_tests::wait::until_true;
use bulkhead_tests::{Bulkhead, Operators, Postgres, postgres_storage};
use serde_json::json;
use std::time::Duration;

/// Longest time until a server has opened, on a busy machine.
const OPEN: Duration = Duration::from_secs(30);

/// A server for one database of a PostgreSQL.
struct PostgresPlace {
    server: Bulkhead,
    database: String,
    _folder: Folder,
}

impl PostgresPlace {
    /// Creates the database, with these options, and an account of its name, which owns it.
    fn create(postgres: &Postgres, database: &str, options: &str) -> Self {
        postgres.query(&format!("CREATE ROLE {database} LOGIN PASSWORD 'Gk3-Wp7-Zr5-Jd9'"));
        postgres.query(&format!("CREATE DATABASE {database} OWNER {database} {options}"));
        let place = format!("127.0.0.1:{}", postgres.port);
        let url = format!("postgresql://{database}:Gk3-Wp7-Zr5-Jd9@{place}/{database}");
        let url = url + "?sslmode=disable";
        let (server, folder) = postgres_storage::prepared(binary(), &url);
        Self { server, database: database.to_owned(), _folder: folder }
    }

    /// Starts the server, initialises it and stores a policy.
    fn initialise(&mut self) -> Operators {
        self.server.start_again();
        let body = json!({ "recovery_shares": 1, "recovery_threshold": 1 });
        let answer = self.server.client(None).write("sys/init", &body).expect(200);
        let operators = recovery_operators(&answer.body, 1);
        let policy = json!({ "policy": "path \"of/here\" { capabilities = [\"read\"] }" });
        let root = operators.root(&self.server);
        root.write("sys/policies/acl/here", &policy).expect(204);
        operators
    }

    /// Starts the server again, and asserts that the policy is there.
    #[track_caller]
    fn start_with_data(&mut self, operators: &Operators) {
        self.server.start_again();
        let is_open = || seal_status(&self.server)["sealed"] == false;
        until_true("the server opens by itself", OPEN, is_open);
        operators.root(&self.server).read("sys/policies/acl/here").expect(200);
    }

    /// Asserts that the server does not start, and prints each word.
    #[track_caller]
    fn refuses(&mut self, words: &[&str]) {
        let before = self.server.printed().len();
        let status = self.server.start_with(&[]).expect_err("the server does not start");
        assert_eq!(status.code(), Some(1), "{}", self.server.printed());
        for word in words {
            self.server.wait_for_print_after(before, word);
        }
        assert!(!self.server.printed().contains("Gk3-Wp7-Zr5-Jd9"), "a password is printed");
    }

    /// Asserts that the server refuses the empty database at its start or at its initialisation,
    /// with each word, and creates nothing.
    #[track_caller]
    fn refuses_empty(&mut self, postgres: &Postgres, words: &[&str]) {
        let before = self.server.printed().len();
        let mut said = String::new();
        if self.server.start_with(&[]).is_ok() {
            let body = json!({ "recovery_shares": 1, "recovery_threshold": 1 });
            let body = body.to_string();
            let refused = self.server.client(None).attempt("POST", "sys/init", body.as_bytes());
            let refused = refused.expect("an answer");
            assert!(refused.status >= 400, "{refused:?}");
            said = refused.errors();
            assert!(self.server.stop());
        }
        said.push_str(&self.server.printed()[before..]);
        words.iter().for_each(|word| assert!(said.contains(word), "{word}: {said}"));
        assert_eq!(self.query(postgres, TABLES), "0");
    }

    /// Runs SQL as superuser in the database.
    #[track_caller]
    fn query(&self, postgres: &Postgres, sql: &str) -> String {
        let mut psql = postgres.psql_at(postgres.port, sql);
        let output = psql.args(["-d", &self.database]).output().expect("psql can be started");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }
}

#[test]
fn unusable_database_is_refused_before_any_write() {
    let postgres = Postgres::start();
    other_encoding(&postgres);
    no_right_to_create(&postgres);
    newer_format(&postgres);
    foreign_tables(&postgres);
    read_only(&postgres);
    absent_database_and_wrong_password(&postgres);
}

const TABLES: &str = "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'public'";

fn other_encoding(postgres: &Postgres) {
    let options = "ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0";
    let mut place = PostgresPlace::create(postgres, "latin", options);
    place.refuses_empty(postgres, &["LATIN1", "UTF8"]);
}

fn no_right_to_create(postgres: &Postgres) {
    let mut place = PostgresPlace::create(postgres, "powerless", "");
    place.query(postgres, "REVOKE ALL ON SCHEMA public FROM PUBLIC");
    place.query(postgres, "ALTER SCHEMA public OWNER TO bulkhead");
    place.query(postgres, "GRANT USAGE ON SCHEMA public TO powerless");
    place.refuses_empty(postgres, &["may not create tables", "CREATE TABLE"]);
    place.query(postgres, "GRANT CREATE ON SCHEMA public TO powerless");
    place.initialise();
}

fn newer_format(postgres: &Postgres) {
    let mut place = PostgresPlace::create(postgres, "newer", "");
    let operators = place.initialise();
    assert!(place.server.stop());
    let format = "SELECT encode(value, 'escape') FROM bulkhead_meta WHERE name = 'format'";
    let present = place.query(postgres, format);
    place.query(postgres, "UPDATE bulkhead_meta SET value = '9' WHERE name = 'format'");
    place.refuses(&["have format 9, and", "use the version"]);
    let back = format!("UPDATE bulkhead_meta SET value = '{present}' WHERE name = 'format'");
    place.query(postgres, &back);
    place.start_with_data(&operators);
}

fn foreign_tables(postgres: &Postgres) {
    let mut place = PostgresPlace::create(postgres, "foreign_tables", "");
    place.query(postgres, "CREATE TABLE bulkhead_record (something text)");
    place.query(postgres, "ALTER TABLE bulkhead_record OWNER TO foreign_tables");
    place.refuses(&["other program"]);
    assert_eq!(place.query(postgres, TABLES), "1");
    place.query(postgres, "DROP TABLE bulkhead_record");
    place.initialise();
}

/// As a standby, which is read-only until its promotion.
fn read_only(postgres: &Postgres) {
    let mut place = PostgresPlace::create(postgres, "read_only", "");
    let operators = place.initialise();
    assert!(place.server.stop());
    postgres.query("ALTER ROLE read_only SET default_transaction_read_only = on");
    if place.server.start_with(&[]).is_ok() {
        let root = operators.root(&place.server);
        let policy = json!({ "policy": "path \"of/elsewhere\" {}" });
        let refused = root.write("sys/policies/acl/elsewhere", &policy);
        assert_eq!(refused.status, 503, "{refused:?}");
        place.server.stop();
    }
    postgres.query("ALTER ROLE read_only RESET default_transaction_read_only");
    place.start_with_data(&operators);
}

fn absent_database_and_wrong_password(postgres: &Postgres) {
    let mut place = PostgresPlace::create(postgres, "absent", "");
    postgres.query("ALTER ROLE absent PASSWORD 'of-another'");
    place.refuses(&["28P01"]);
    postgres.query("ALTER ROLE absent PASSWORD 'Gk3-Wp7-Zr5-Jd9'");
    postgres.query("DROP DATABASE absent");
    place.refuses(&["3D000"]);
    postgres.query("CREATE DATABASE absent OWNER absent");
    place.initialise();
}

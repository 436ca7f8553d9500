//! Schemas of the PostgreSQL server of this test program, and edits of their tables.

use std::process::Child;

use bulkhead_test_database::{psql, start_script, value_of};

use crate::PostgresPlace;

/// Functions and types of SQLite with which tests edit tables.
const FUNCTIONS: &str = "
    CREATE DOMAIN blob AS bytea;
    CREATE FUNCTION zeroblob(size int) RETURNS bytea LANGUAGE sql AS
        $$ SELECT decode(repeat('00', size), 'hex') $$;
    CREATE FUNCTION randomblob(size int) RETURNS bytea LANGUAGE sql AS
        $$ SELECT decode(substr(repeat(md5(random()::text), size), 1, 2 * size), 'hex') $$;";

/// Runs a script as superuser.
pub(crate) fn administer(script: &str) {
    let output = psql(&[script]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A running `PgBouncer` before the server, stopped when dropped.
pub(crate) struct TestPooler {
    pub(crate) port: u16,
    process: Child,
}

impl TestPooler {
    /// Starts the pooler with this `pool_mode`.
    pub(crate) fn start(mode: &str) -> TestPooler {
        let server_port = bulkhead_test_database::port();
        let (process, ready) = start_script("pgbouncer.sh", &["--until-eof", mode], server_port);
        TestPooler { port: value_of(&ready, "port").parse().unwrap(), process }
    }
}

impl Drop for TestPooler {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        self.process.wait().unwrap();
    }
}

/// Returns the content of all tables that exist.
pub(crate) fn dump(place: &PostgresPlace) -> Vec<u8> {
    let path = format!("SET search_path = {}", place.schema);
    let tables = ["change", "meta", "node", "progress", "record", "stored"]
        .map(|table| format!("SELECT * FROM {table} ORDER BY 1, 2"));
    let mut scripts = vec![path.as_str()];
    scripts.extend(tables.iter().map(String::as_str));
    psql(&scripts).stdout
}

/// Ends all sessions of a test.
pub(crate) fn end_sessions(place: &PostgresPlace) {
    let name = &place.application_name;
    let ends = format!(
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity \
         WHERE application_name = '{name}'"
    );
    assert!(psql(&[&ends]).status.success());
}

/// Creates a schema.
pub(super) fn new_schema() -> PostgresPlace {
    let url = bulkhead_test_database::new_schema(FUNCTIONS);
    // Tests name the tables as those of SQLite.
    PostgresPlace { table: String::new(), ..PostgresPlace::from_url(&url).unwrap() }
}

/// Returns a script of SQLite in the words of PostgreSQL, as far as tests need the words: literals
/// of bytes, and triggers.
pub(super) fn translated(script: &str) -> String {
    let mut text = String::new();
    let mut rest = script;
    while let Some((before, literal)) = rest.split_once("x'") {
        let (digits, after) = literal.split_once('\'').unwrap();
        text.push_str(&format!("{before}decode('{digits}', 'hex')"));
        rest = after;
    }
    text.push_str(rest);
    if let Some((before, trigger)) = text.split_once("CREATE TRIGGER ") {
        let (head, body) = trigger.split_once(" BEGIN ").unwrap();
        let (name, _) = head.split_once(' ').unwrap();
        let body = body.replace("SELECT RAISE(ABORT, 'no')", "RAISE EXCEPTION 'no'");
        let body = body.replace("END", "RETURN NEW; END");
        let (event, condition) = head.split_once(" WHEN ").unwrap_or((head, "true"));
        return format!(
            "{before}CREATE FUNCTION of_{name}() RETURNS trigger LANGUAGE plpgsql \
             SET search_path FROM CURRENT AS $$ BEGIN {body} $$; \
             CREATE TRIGGER {event} FOR EACH ROW WHEN ({condition}) EXECUTE FUNCTION of_{name}()"
        );
    }
    match text.strip_prefix("DROP TRIGGER ") {
        Some(name) => format!("DROP FUNCTION of_{name}() CASCADE"),
        None => text,
    }
}

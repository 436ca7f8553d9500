//! The PostgreSQL server of this test program, started at the first use, with a schema for each
//! test.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use crate::PostgresPlace;

const PASSWORD: &str = "hull-8241";

/// Functions of SQLite with which tests edit tables.
const FUNCTIONS: &str = "
    CREATE FUNCTION zeroblob(size int) RETURNS bytea LANGUAGE sql AS
        $$ SELECT decode(repeat('00', size), 'hex') $$;
    CREATE FUNCTION randomblob(size int) RETURNS bytea LANGUAGE sql AS
        $$ SELECT decode(substr(repeat(md5(random()::text), size), 1, 2 * size), 'hex') $$;";

/// A running server, which stops when this program ends and its end of the pipe closes.
struct TestServer {
    port: String,
    psql: String,
    /// Holds the standard input of the script open.
    _process: Child,
}

fn server() -> &'static TestServer {
    static SERVER: OnceLock<TestServer> = OnceLock::new();
    SERVER.get_or_init(|| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/servers/postgres.sh");
        let mut process = Command::new(script)
            .args(["--until-eof", "-c", "fsync=off", "-c", "max_connections=200"])
            .env("BULKHEAD_PG_PASSWORD", PASSWORD)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        let value = |name: &str| {
            let mut words = ready.split_whitespace();
            let found = words.find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
            found.unwrap_or_else(|| panic!("postgres.sh says no {name}: {ready:?}")).to_owned()
        };
        TestServer { port: value("port"), psql: value("psql"), _process: process }
    })
}

/// Creates a schema.
pub(super) fn new_schema(schema: &str) -> PostgresPlace {
    let TestServer { port, psql, .. } = server();
    let script = format!("CREATE SCHEMA {schema}; SET search_path = {schema}; {FUNCTIONS}");
    let status = Command::new(psql)
        .args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-p", port])
        .args(["-U", "bulkhead", "-d", "demo", "-c", &script])
        .env("PGPASSWORD", PASSWORD)
        .stdin(Stdio::null())
        .status();
    assert!(status.unwrap().success(), "the schema was not created");
    PostgresPlace {
        connection_url: format!(
            "postgresql://bulkhead:{PASSWORD}@127.0.0.1:{port}/demo?sslmode=disable"
        ),
        schema: schema.to_owned(),
    }
}

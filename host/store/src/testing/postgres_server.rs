//! The PostgreSQL server of this test program, started at the first use, with a schema for each
//! test.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;

use crate::PostgresPlace;

const PASSWORD: &str = "hull-8241";

/// Functions and types of SQLite with which tests edit tables.
const FUNCTIONS: &str = "
    CREATE DOMAIN blob AS bytea;
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

fn psql(scripts: &[&str]) -> Output {
    let TestServer { port, psql, .. } = server();
    let mut command = Command::new(psql);
    command.args(["-X", "-q", "-A", "-t", "-h", "127.0.0.1", "-p", port]);
    command.args(["-U", "bulkhead", "-d", "demo"]).env("PGPASSWORD", PASSWORD);
    for script in scripts {
        command.args(["-c", script]);
    }
    command.stdin(Stdio::null()).output().unwrap()
}

/// Returns the content of all tables that exist.
pub(crate) fn dump(place: &PostgresPlace) -> Vec<u8> {
    let path = format!("SET search_path = {}", place.schema);
    let tables = ["meta", "record", "stored", "writer"]
        .map(|table| format!("SELECT * FROM {table} ORDER BY 1, 2"));
    let mut scripts = vec![path.as_str()];
    scripts.extend(tables.iter().map(String::as_str));
    psql(&scripts).stdout
}

/// Creates a schema.
pub(super) fn new_schema(schema: &str) -> PostgresPlace {
    let script = format!("CREATE SCHEMA {schema}; SET search_path = {schema}; {FUNCTIONS}");
    let output = psql(&[&script]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let port = &server().port;
    let url = format!(
        "postgresql://bulkhead:{PASSWORD}@127.0.0.1:{port}/demo?sslmode=disable\
         &application_name={schema}&search_path={schema}"
    );
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

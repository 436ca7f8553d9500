//! The database of the stores of tests: SQLite, or PostgreSQL with
//! `BULKHEAD_TEST_STORAGE=postgresql`.
//!
//! A test program starts one PostgreSQL server at the first use. The server stops with the program.
//! Each store has a schema.

#![allow(clippy::unwrap_used, clippy::panic, reason = "runs in tests, which fail by panicking")]

mod commit_relay;

pub use commit_relay::{CommitCut, CommitRelay};

use std::cell::Cell;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, process};

const PASSWORD: &str = "hull-8241";

/// File of a data directory with the name of its schema. An emptied directory gets another schema.
const SCHEMA_FILE: &str = "test-schema";

/// The databases on which a test may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestDatabase {
    /// The file of the data directory.
    Sqlite,
    /// A schema of the server of this program.
    Postgres,
}

thread_local! {
    static ON_FILES: Cell<bool> = const { Cell::new(false) };
}

/// Keeps new stores of this thread on SQLite, until dropped.
#[must_use]
pub struct OnFiles(());

impl Drop for OnFiles {
    fn drop(&mut self) {
        ON_FILES.set(false);
    }
}

/// Keeps new stores of this thread on SQLite: for tests of files and broken disks.
pub fn on_files() -> OnFiles {
    ON_FILES.set(true);
    OnFiles(())
}

impl TestDatabase {
    /// Returns the database of the environment, or SQLite during [`on_files`].
    pub fn chosen() -> TestDatabase {
        match env::var("BULKHEAD_TEST_STORAGE").as_deref() {
            _ if ON_FILES.get() => TestDatabase::Sqlite,
            Err(_) | Ok("" | "sqlite") => TestDatabase::Sqlite,
            Ok("postgresql") => TestDatabase::Postgres,
            Ok(other) => panic!("BULKHEAD_TEST_STORAGE is {other:?}; give sqlite or postgresql"),
        }
    }
}

/// A running server. The server stops at the end of this program, with the end of the pipe.
struct TestServer {
    port: String,
    psql: String,
    folder: PathBuf,
    /// Holds the standard input of the script open.
    _process: Child,
}

fn server() -> &'static TestServer {
    static SERVER: OnceLock<TestServer> = OnceLock::new();
    SERVER.get_or_init(|| {
        let options = ["--until-eof", "-c", "fsync=off", "-c", "max_connections=400"];
        let (process, ready) = start_script("postgres.sh", &options, "");
        let value = |name| value_of(&ready, name);
        let folder = PathBuf::from(value("folder"));
        TestServer { port: value("port"), psql: value("psql"), folder, _process: process }
    })
}

/// Starts a script of `tests/servers`, with the port of a server. Returns the process and the line
/// of the ready server. The process stops at the end of its standard input.
pub fn start_script(script: &str, arguments: &[&str], port: &str) -> (Child, String) {
    let servers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/servers");
    let mut process = Command::new(servers.join(script))
        .args(arguments)
        .env("BULKHEAD_PG_PASSWORD", PASSWORD)
        .env("BULKHEAD_PG_PORT", port)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    (process, ready)
}

/// Returns a value of the line of a script.
pub fn value_of(ready: &str, name: &str) -> String {
    let mut words = ready.split_whitespace();
    let found = words.find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    found.unwrap_or_else(|| panic!("the script says no {name}: {ready:?}")).to_owned()
}

/// Returns the port of the server.
pub fn port() -> &'static str {
    &server().port
}

/// Returns the folder with the files of the server's authority.
pub fn folder() -> PathBuf {
    server().folder.clone()
}

/// Runs scripts as the owner of the database, one after the other in one session. Rows are lines of
/// columns between `|`.
pub fn psql(scripts: &[&str]) -> Output {
    let TestServer { port, psql, .. } = server();
    let mut command = Command::new(psql);
    command.args(["-X", "-q", "-A", "-t", "-h", "127.0.0.1", "-p", port]);
    command.args(["-U", "bulkhead", "-d", "demo"]).env("PGPASSWORD", PASSWORD);
    for script in scripts {
        command.args(["-c", script]);
    }
    command.stdin(Stdio::null()).output().unwrap()
}

/// Creates a schema, and runs `script` with the schema as search path. Returns the connection URL
/// of the schema. The application name of the URL is the name of the schema.
pub fn new_schema(script: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let schema = format!("test_{}_{number}", process::id());
    let script = format!("CREATE SCHEMA {schema}; SET search_path = {schema}; {script}");
    let output = psql(&[&script]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    url(&schema)
}

fn url(schema: &str) -> String {
    let port = &server().port;
    format!(
        "postgresql://bulkhead:{PASSWORD}@127.0.0.1:{port}/demo?sslmode=disable\
         &application_name={schema}&search_path={schema}"
    )
}

/// Returns the connection URL of the store in `directory`, with a new schema if there is none yet;
/// `None` if the store is in a file.
pub fn url_of(directory: &Path) -> Option<String> {
    if TestDatabase::chosen() == TestDatabase::Sqlite {
        return None;
    }
    if let Some(schema) = schema_of(directory) {
        return Some(url(&schema));
    }
    let url = new_schema("");
    let (_, schema) = url.rsplit_once('=').unwrap();
    fs::create_dir_all(directory).unwrap();
    // Tests check the modes of all files of a data directory.
    let mut options = fs::OpenOptions::new();
    let options = options.write(true).create_new(true).mode(0o600);
    let mut file = options.open(directory.join(SCHEMA_FILE)).unwrap();
    file.write_all(schema.as_bytes()).unwrap();
    Some(url)
}

/// Returns the schema of the store in `directory`; `None` if the store is in a file or was never
/// opened.
pub fn schema_of(directory: &Path) -> Option<String> {
    match TestDatabase::chosen() {
        TestDatabase::Sqlite => None,
        TestDatabase::Postgres => fs::read_to_string(directory.join(SCHEMA_FILE)).ok(),
    }
}

/// Copies the tables, indexes and rows of the schema `OLD` into the schema `NEW`, and continues the
/// numbers of identity columns.
const COPY: &str = "DO $copy$ DECLARE found record; BEGIN
    FOR found IN SELECT tablename AS name FROM pg_tables WHERE schemaname = 'OLD' LOOP
        EXECUTE format('CREATE TABLE NEW.%1$I (LIKE OLD.%1$I INCLUDING ALL EXCLUDING INDEXES)',
            found.name);
        EXECUTE format('INSERT INTO NEW.%1$I SELECT * FROM OLD.%1$I', found.name);
    END LOOP;
    FOR found IN SELECT indexdef AS text FROM pg_indexes WHERE schemaname = 'OLD' LOOP
        EXECUTE replace(found.text, ' ON OLD.', ' ON NEW.');
    END LOOP;
    FOR found IN SELECT table_name AS name, column_name AS part FROM information_schema.columns
            WHERE table_schema = 'OLD' AND is_identity = 'YES' LOOP
        EXECUTE format('SELECT setval(pg_get_serial_sequence(''NEW.%1$I'', %2$L),
            coalesce(max(%2$I), 0) + 1, false) FROM OLD.%1$I', found.name, found.part);
    END LOOP;
END $copy$";

/// Gives the store in `to`, a copy of the files of `from`, a copy of the schema of `from`, too.
pub fn copy_schema(from: &Path, to: &Path) {
    let Some(old) = schema_of(from) else { return };
    fs::remove_file(to.join(SCHEMA_FILE)).unwrap();
    url_of(to).unwrap();
    let new = schema_of(to).unwrap();
    let output = psql(&[&COPY.replace("OLD", &old).replace("NEW", &new)]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

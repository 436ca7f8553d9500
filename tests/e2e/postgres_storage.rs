//! Records on PostgreSQL by a configuration file: start and restart, sources of the password, the
//! checks of an operator, and the log of an outage. No password appears anywhere.

use bulkhead_tests::Bulkhead;
use bulkhead_tests::leaks;
use bulkhead_tests::operators::{Operators, seal_status};
use bulkhead_tests::paths::{Folder, binary, files_below};
use bulkhead_tests::postgres::Postgres;
use bulkhead_tests::postgres::acts::ServerEnd;
use bulkhead_tests::wait::until_true;
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// Password of the role of the storage.
const PASSWORD: &str = "Tw7-Lq4-Zx8-Gm1-Rv6";
/// The same after a change, with the same length.
const CHANGED: &str = "Hb2-Kd9-Ys3-Nf5-Pc0";

/// A database server with the role and the schema `vault`, and a folder for files of the operator.
struct StorageServer {
    postgres: Postgres,
    folder: Folder,
}

impl StorageServer {
    fn start() -> Self {
        let postgres = Postgres::start();
        postgres.query(&format!("CREATE ROLE vault LOGIN PASSWORD '{PASSWORD}'"));
        postgres.query("CREATE SCHEMA vault AUTHORIZATION vault");
        let folder = Folder::new("storage");
        folder.file("password", &format!("{PASSWORD}\n"));
        Self { postgres, folder }
    }

    fn url(&self, account: &str) -> String {
        format!("postgresql://{account}@127.0.0.1:{}/demo?sslmode=disable", self.postgres.port)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a configuration with these lines in the block of the storage.
    fn configuration(&self, lines: &str) -> PathBuf {
        let local = self.path("local");
        let text = format!(
            "listener \"tcp\" {{ address = \"127.0.0.1:0\" }}\nstorage \"postgresql\" {{\n\
             path = \"{}\"\nschema = \"vault\"\n{lines}\n}}\n",
            local.display()
        );
        let file = self.path("bulkhead.hcl");
        fs::write(&file, text).expect("a file can be written");
        file
    }

    /// Writes a configuration with the password in a file.
    fn usual_configuration(&self) -> PathBuf {
        let password = self.path("password");
        self.configuration(&format!(
            "connection_url = \"{}\"\npassword_file = \"{}\"",
            self.url("vault"),
            password.display()
        ))
    }

    /// Ends the sessions of the role, as a restart of the database does.
    fn end_sessions(&self) {
        let ends = "SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity \
                    WHERE usename = 'vault'";
        self.postgres.query(ends);
    }

    /// Runs a check of the program. Returns the exit code and the output.
    fn check(&self, arguments: &[&str], file: &PathBuf) -> (i32, String) {
        let mut command = Command::new(binary());
        command.args(arguments).arg(file).env_clear();
        let done = command.output().expect("the program can be started");
        let output = [done.stdout, done.stderr].concat();
        let output = String::from_utf8_lossy(&output).into_owned();
        leaks::assert_silent("a check", &output, PASSWORD);
        (done.status.code().unwrap_or(-1), output)
    }

    fn diagnose(&self, file: &PathBuf) -> (i32, String) {
        self.check(&["operator", "diagnose", "-config"], file)
    }
}

/// Starts and initialises a server with this configuration.
fn opened(file: PathBuf) -> (Bulkhead, Operators) {
    let mut server = Bulkhead::prepared(binary(), Folder::new("data")).configured(file);
    server.start_again();
    let operators = Operators::initialise(&server, 1, 1);
    operators.unseal(&server);
    (server, operators)
}

fn is_written(server: &Bulkhead, operators: &Operators, value: &str) -> bool {
    let root = operators.root(server);
    root.write("cubbyhole/note", &json!({ "value": value })).status == 204
}

fn note(server: &Bulkhead, operators: &Operators) -> Value {
    let answer = operators.root(server).read("cubbyhole/note").expect(200);
    answer.body["data"]["value"].clone()
}

#[test]
fn records_on_postgresql_survive_restart() {
    let storage = StorageServer::start();
    let (mut server, operators) = opened(storage.usual_configuration());
    let place = format!(
        "data: postgresql://127.0.0.1:{}/demo (schema vault, tables bulkhead_*)",
        storage.postgres.port
    );
    server.wait_for_print(&place);
    assert_eq!(seal_status(&server)["storage_type"], "postgresql");
    let root = operators.root(&server);
    let shown = root.read("sys/config/state/sanitized").expect(200);
    assert_eq!(shown.body["data"]["storage"]["type"], "postgresql");
    assert!(is_written(&server, &operators, "first"));
    // The harness runs the database without flushes.
    server.wait_for_print("event=storage-durability-doubt");
    let local = files_below(&storage.path("local"));
    assert!(!local.iter().any(|file| file.ends_with("bulkhead.db")), "{local:?}");
    assert!(server.stop(), "{}", server.printed());
    server.start_again();
    operators.unseal(&server);
    assert_eq!(note(&server, &operators), "first");
    server.assert_silent(PASSWORD);
}

#[test]
fn changed_password_of_file_needs_no_restart() {
    let storage = StorageServer::start();
    let (server, operators) = opened(storage.usual_configuration());
    storage.postgres.query(&format!("ALTER ROLE vault PASSWORD '{CHANGED}'"));
    storage.folder.file("password", &format!("{CHANGED}\n"));
    storage.end_sessions();
    assert!(is_written(&server, &operators, "after the change"));
    assert_eq!(note(&server, &operators), "after the change");
    server.assert_silent(PASSWORD);
    server.assert_silent(CHANGED);
}

#[test]
fn password_comes_from_pass_file_of_environment() {
    let storage = StorageServer::start();
    let url = storage.url("vault");
    let file = storage.configuration("connection_url = \"env://DATABASE_URL\"");
    let line = format!("127.0.0.1:{}:demo:vault:{PASSWORD}\n", storage.postgres.port);
    let pass_file = storage.folder.file("pgpass", &line);
    let mut server = Bulkhead::prepared(binary(), Folder::new("data")).configured(file);
    let environment = [("DATABASE_URL", url), ("PGPASSFILE", pass_file)];
    let started = server.start_with(&environment);
    started.unwrap_or_else(|status| panic!("{status}: {}", server.printed()));
    Operators::initialise(&server, 1, 1).unseal(&server);
    server.assert_silent(PASSWORD);
}

#[test]
fn outage_of_database_has_line_with_cause() {
    let storage = StorageServer::start();
    let (server, operators) = opened(storage.usual_configuration());
    storage.postgres.query("ALTER ROLE vault SET default_transaction_read_only = on");
    storage.end_sessions();
    for _ in 0..3 {
        assert!(!is_written(&server, &operators, "refused"));
    }
    server.wait_for_print("event=storage-unreachable");
    let health = server.client(None).read("sys/health");
    assert_eq!(health.body["degraded"][0]["code"], "writes-refused", "{}", health.body);
    storage.postgres.query("ALTER ROLE vault RESET default_transaction_read_only");
    storage.end_sessions();
    until_true("a write is stored", Duration::from_secs(30), || {
        is_written(&server, &operators, "stored")
    });
    server.wait_for_print("event=storage-reachable");
    let printed = server.printed();
    for event in ["event=storage-unreachable", "event=storage-reachable"] {
        assert_eq!(printed.matches(event).count(), 1, "{printed}");
    }
    let lost = printed.lines().find(|line| line.contains("storage-unreachable")).expect("a line");
    assert!(lost.contains("cause="), "{lost}");
    server.assert_silent(PASSWORD);
}

#[test]
fn long_outage_is_fatal_and_logged_once() {
    let storage = StorageServer::start();
    let (server, operators) = opened(storage.usual_configuration());
    assert!(is_written(&server, &operators, "before"));
    let health = || server.client(None).read("sys/health");
    storage.postgres.end(ServerEnd::Fast);
    until_true("the outage is fatal", Duration::from_secs(60), || health().status == 500);
    let degraded = health().body["degraded"].clone();
    assert_eq!(degraded[0]["code"], "database-unconfirmed", "{degraded}");
    assert_eq!(operators.root(&server).read("cubbyhole/note").status, 503);
    storage.postgres.start_again();
    until_true("the outage ends", Duration::from_secs(60), || {
        let health = health();
        health.status == 200 && health.body.get("degraded").is_none()
    });
    assert_eq!(note(&server, &operators), "before");
    let printed = server.printed();
    for event in ["event=storage-unreachable", "event=storage-reachable"] {
        assert_eq!(printed.matches(event).count(), 1, "{printed}");
    }
    for event in ["due-work-unreadable", "due-work-not-stored", "client-activity-not-stored"] {
        assert!(!printed.contains(event), "{printed}");
    }
}

#[test]
fn check_names_claim_and_lost_commits() {
    let storage = StorageServer::start();
    let file = storage.usual_configuration();
    let (mut server, operators) = opened(file.clone());
    assert!(is_written(&server, &operators, "written"));
    let (code, output) = storage.check(&["server", "--check", "--config"], &file);
    assert!(code == 0, "the running server holds the claim itself: {output}");
    let local = storage.path("local").display().to_string();
    let text = fs::read_to_string(&file).expect("a readable file");
    let other = storage.path("other.hcl");
    fs::write(&other, text.replace(&local, &format!("{local}-2"))).expect("a file can be written");
    let (code, output) = storage.check(&["server", "--check", "--config"], &other);
    assert!(code == 1 && output.contains("in use by another node"), "{output}");
    assert!(server.stop(), "{}", server.printed());
    storage.postgres.query("UPDATE vault.bulkhead_node SET commits = 0");
    for arguments in [["server", "--check", "--config"], ["operator", "diagnose", "-config"]] {
        let (code, output) = storage.check(&arguments, &file);
        assert!(code == 1 && output.contains("acknowledged writes are lost"), "{output}");
    }
}

#[test]
fn diagnosis_names_findings_about_database() {
    let storage = StorageServer::start();
    let (code, output) = storage.diagnose(&storage.usual_configuration());
    assert_eq!(code, 2, "{output}");
    for part in [
        "[ ok ]   database: postgresql://127.0.0.1:",
        "[ warn ] database: the database server has fsync = off",
        "a round trip takes",
        "connections are free",
        "the clocks of database and machine agree",
    ] {
        assert!(output.contains(part), "{part} is not in {output}");
    }
    assert!(!storage.path("local").exists(), "a check creates nothing");
    let written = format!("connection_url = \"{}\"", storage.url(&format!("vault:{PASSWORD}")));
    let (code, output) = storage.diagnose(&storage.configuration(&written));
    assert!(code == 2 && output.contains("connection_url holds a password"), "{output}");
}

#[test]
fn unusable_database_fails_check_and_start() {
    let storage = StorageServer::start();
    let wrong = storage.folder.file("wrong", "another-password\n");
    let url = storage.url("vault");
    let unreachable = "postgresql://vault@127.0.0.1:1/demo?sslmode=disable";
    let file_of_password = format!("password_file = \"{wrong}\"");
    for (lines, part) in [
        (format!("connection_url = \"{url}\"\n{file_of_password}"), "vault"),
        (format!("connection_url = \"{unreachable}\"\n{file_of_password}"), "127.0.0.1"),
        ("connection_url = \"env://DATABASE_URL\"".to_owned(), "env://DATABASE_URL is not set"),
    ] {
        let file = storage.configuration(&lines);
        let (code, output) = storage.check(&["server", "--check", "--config"], &file);
        assert!(code == 1 && output.contains(part), "{lines}: {output}");
        let (code, output) = storage.check(&["server", "--config"], &file);
        assert!(code == 1 && output.contains(part), "{lines}: {output}");
        leaks::assert_silent("a refusal", &output, "another-password");
    }
}

//! `bulkhead operator migrate`, as an operator moves a server to PostgreSQL and back.

use crate::world::CREATION;
use bulkhead_tests::operators::{Operators, operator};
use bulkhead_tests::paths::{Folder, binary};
use bulkhead_tests::wait::until_true;
use bulkhead_tests::{Bulkhead, Client, Postgres};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

/// A server with a configuration file that a test rewrites, and a database for records and
/// credentials. The server is declared first, so that it ends first.
struct MovedServer {
    server: Bulkhead,
    operators: Operators,
    postgres: Postgres,
    folder: Folder,
}

impl MovedServer {
    /// Starts a server on SQLite, with secrets and a role of credentials.
    fn start() -> Self {
        let (postgres, folder) = (Postgres::start(), Folder::new("moved"));
        let data = Folder::new("moved-data");
        let file = folder.path().join("bulkhead.hcl");
        write_configuration(&file, &sqlite("storage", data.path()));
        let mut server = Bulkhead::prepared(binary(), data).configured(file);
        server.start_again();
        let operators = Operators::initialise(&server, 3, 2);
        operators.unseal(&server);
        let moved = Self { server, operators, postgres, folder };
        moved.fill();
        moved
    }

    fn root(&self) -> Client {
        self.operators.root(&self.server)
    }

    fn fill(&self) {
        let root = self.root();
        root.write("sys/mounts/kv", &json!({ "type": "kv" })).expect(204);
        for number in 0..50 {
            root.write(&format!("kv/secret-{number}"), &json!({ "number": number })).expect(204);
        }
        root.write("sys/mounts/database", &json!({ "type": "database" })).expect(204);
        let connection = json!({
            "plugin_name": "postgresql-database-plugin",
            "allowed_roles": "*",
            "connection_url": self.postgres.url(),
            "username": "bulkhead",
            "password": self.postgres.password,
        });
        assert!(root.write("database/config/demo", &connection).status < 300);
        for (name, ttl) in [("long", "1h"), ("short", "15s")] {
            let role = json!({
                "db_name": "demo",
                "creation_statements": [CREATION],
                "default_ttl": ttl,
            });
            assert!(root.write(&format!("database/roles/{name}"), &role).status < 300);
        }
    }

    /// Reads a credential, and returns its user and its lease.
    #[track_caller]
    fn credential(&self, role: &str) -> (String, String) {
        let answer = self.root().read(&format!("database/creds/{role}")).expect(200);
        (answer.text("username").to_owned(), answer.lease().to_owned())
    }

    /// The block `name` for tables in the database.
    fn postgresql(&self, name: &str) -> String {
        let url = self.postgres.url().replace("{{username}}:{{password}}", "USER");
        let user = format!("bulkhead:{}", self.postgres.password);
        let url = url.replace("USER", &user);
        let path = self.server.data();
        format!("{name} \"postgresql\" {{ connection_url = {url:?} path = {path:?} }}\n")
    }

    /// Runs the migration between the two blocks with these options, and returns exit code and
    /// output.
    fn migrate(&self, blocks: &str, options: &[&str]) -> (i32, String) {
        let file = self.folder.path().join("migrate.hcl");
        fs::write(&file, blocks).expect("a file can be written");
        let config = format!("-config={}", file.display());
        let words = [&["migrate", config.as_str()], options].concat();
        let (code, out, error) = operator(&self.server, "", &words);
        (code, format!("{out}{error}"))
    }

    fn configure(&self, storage: &str) {
        write_configuration(&self.folder.path().join("bulkhead.hcl"), storage);
    }

    /// Starts the server with this storage, and unseals the server with the keys of its
    /// initialisation.
    #[track_caller]
    fn start_on(&mut self, storage: &str) {
        self.configure(storage);
        self.server.start_again();
        self.operators.unseal(&self.server);
    }

    #[track_caller]
    fn assert_complete(&self) {
        for number in 0..50 {
            let secret = self.root().read(&format!("kv/secret-{number}")).expect(200);
            assert_eq!(secret.body["data"]["number"], json!(number));
        }
    }

    #[track_caller]
    fn await_end_of(&self, user: &str) {
        let what = format!("the user {user} is removed");
        until_true(&what, PATIENCE, || !self.postgres.has_user(user));
    }
}

fn write_configuration(file: &PathBuf, storage: &str) {
    let listener = "listener \"tcp\" { address = \"127.0.0.1:0\" }\n";
    fs::write(file, format!("{listener}{storage}")).expect("a file can be written");
}

/// The block `name` for a data directory.
fn sqlite(name: &str, directory: &Path) -> String {
    format!("{name} \"sqlite\" {{ path = {directory:?} }}\n")
}

#[test]
fn server_moves_to_postgresql_and_back_with_leases() {
    let mut moved = MovedServer::start();
    let data = moved.server.data().to_owned();
    let there = sqlite("storage_source", &data) + &moved.postgresql("storage_destination");
    let (code, text) = moved.migrate(&there, &[]);
    assert!(code == 1 && text.contains("in use"), "{text}");
    let (revoked, lease) = moved.credential("long");
    let (expiring, _) = moved.credential("short");
    assert!(moved.server.stop());
    let (code, text) = moved.migrate(&there, &[]);
    assert!(code == 0 && text.contains("every record was compared"), "{text}");
    assert!(!text.contains(&moved.postgres.password), "{text}");
    // The source does not start any more.
    assert!(moved.server.start_with(&[]).is_err());
    assert!(moved.server.printed().contains("were migrated to"), "{}", moved.server.printed());
    let storage = moved.postgresql("storage");
    moved.start_on(&storage);
    moved.assert_complete();
    moved.await_end_of(&expiring);
    moved.root().write("sys/leases/revoke", &json!({ "lease_id": lease })).expect(204);
    moved.await_end_of(&revoked);
    let (expiring, _) = moved.credential("short");
    moved.root().write("kv/late", &json!({ "number": 1 })).expect(204);
    let back = moved.folder.path().join("back");
    let blocks = moved.postgresql("storage_source") + &sqlite("storage_destination", &back);
    assert!(moved.server.stop());
    let (code, text) = moved.migrate(&blocks, &[]);
    assert!(code == 0 && text.contains("every record was compared"), "{text}");
    assert!(moved.server.start_with(&[]).is_err());
    moved.start_on(&sqlite("storage", &back));
    moved.assert_complete();
    assert_eq!(moved.root().read("kv/late").expect(200).body["data"]["number"], json!(1));
    moved.await_end_of(&expiring);
}

#[test]
fn unusable_destination_leaves_source_in_use() {
    let mut moved = MovedServer::start();
    let data = moved.server.data().to_owned();
    assert!(moved.server.stop());
    let source = sqlite("storage_source", &data);
    let occupied = moved.folder.path().join("occupied");
    fs::create_dir(&occupied).expect("a folder can be made");
    fs::write(occupied.join("bulkhead.db"), "not a database").expect("a file can be written");
    let wrong_password = moved.postgresql("storage_destination");
    let wrong_password = wrong_password.replace(&moved.postgres.password, "wrong");
    for (destination, reason) in [
        (sqlite("storage_destination", &data), "the same place"),
        (sqlite("storage_destination", &occupied), "is not a database"),
        (wrong_password, "28P01"),
        ("storage_destination \"raft\" {}\n".to_owned(), "SQLite or PostgreSQL"),
    ] {
        let (code, text) = moved.migrate(&(source.clone() + &destination), &[]);
        assert!(code == 1 && text.contains(reason), "{destination}: {text}");
    }
    let (code, text) = moved.migrate(&source, &["-start=core/"]);
    assert!(code == 2 && text.contains("copies all records"), "{text}");
    moved.start_on(&sqlite("storage", &data));
    moved.assert_complete();
    let empty = moved.folder.path().join("empty");
    assert!(moved.server.stop());
    let blocks = source + &sqlite("storage_destination", &empty);
    assert_eq!(moved.migrate(&blocks, &[]).0, 0);
    assert!(moved.server.start_with(&[]).is_err());
    let (code, text) = moved.migrate(&blocks, &["-reset"]);
    assert!(code == 0 && text.contains("The mark was removed"), "{text}");
    moved.start_on(&sqlite("storage", &data));
    moved.assert_complete();
}

#[test]
fn check_reads_records_on_postgresql_beside_server() {
    let mut moved = MovedServer::start();
    let data = moved.server.data().to_owned();
    assert!(moved.server.stop());
    let blocks = sqlite("storage_source", &data) + &moved.postgresql("storage_destination");
    assert_eq!(moved.migrate(&blocks, &[]).0, 0);
    let storage = moved.postgresql("storage");
    moved.start_on(&storage);
    let config = format!("-config={}", moved.folder.path().join("bulkhead.hcl").display());
    let (code, text, error) = operator(&moved.server, "", &["check", &config]);
    assert!(code == 0 && text.contains(" 0 places damaged"), "{text}{error}");
}

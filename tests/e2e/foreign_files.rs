//! Damaged or foreign data: of another server, of another program, with a flipped byte, or with
//! swapped rows. They are refused with a reason, and served again after a repair.

use bulkhead_tests::paths::{Folder, binary};
use bulkhead_tests::storage::{edited, on_files, variable};
use bulkhead_tests::{Bulkhead, Postgres};
use serde_json::json;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Row};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest wait for an expiry, including the pause before the next attempt.
const SOON: Duration = Duration::from_secs(20);

/// A server that was used and stopped in order, so that its database is a single file.
fn stopped() -> Bulkhead {
    let mut server = Bulkhead::prepared(binary(), Folder::new("foreign"));
    server.start_again();
    for name in ["one", "two"] {
        write_policy(&server, name);
    }
    assert!(server.stop());
    server
}

fn write_policy(server: &Bulkhead, name: &str) {
    let policy = json!({ "policy": format!("path \"of/{name}\" {{ capabilities = [\"read\"] }}") });
    server.root().write(&format!("sys/policies/acl/{name}"), &policy).expect(204);
}

fn database(server: &Bulkhead) -> PathBuf {
    server.data().join("bulkhead.db")
}

/// Asserts that the server refuses to start, names the folder, and leaves the database unchanged.
fn refused(server: &mut Bulkhead) -> String {
    let before = (
        fs::read(database(server)).expect("the database file is readable"),
        server.printed().len(),
    );
    let status = server.start_with(&[]).expect_err("it must not start");
    assert_eq!(status.code(), Some(1), "{}", server.printed());
    bulkhead_tests::wait::until_true(
        "the server's last words arrive",
        Duration::from_secs(5),
        || server.printed()[before.1..].contains(&server.data().display().to_string()),
    );
    assert!(
        fs::read(database(server)).expect("the database file is readable") == before.0,
        "a refused database was written to"
    );
    server.printed()[before.1..].to_owned()
}

pub(super) fn a_second_process_on_the_same_folder_is_refused_and_the_first_goes_on() {
    let mut first = Bulkhead::start();
    let second = std::process::Command::new(binary())
        .args(["server", "--dev", "--dev-listen-address", "127.0.0.1:0", "--data-dir"])
        .arg(first.data())
        .env_clear()
        .envs(variable(first.data()))
        .output()
        .expect("the server can be started");
    assert!(!second.status.success());
    let why = String::from_utf8_lossy(&second.stderr);
    assert!(why.contains("another") && why.contains(&first.data().display().to_string()), "{why}");
    write_policy(&first, "still-served");
    first.kill();
    first.start_again();
    first.root().read("sys/policies/acl/still-served").expect(200);
}

pub(super) fn the_database_of_another_cluster_is_refused_and_the_own_one_opens_again() {
    let _files = on_files();
    let (mut server, other) = (stopped(), stopped());
    let own = fs::read(database(&server)).expect("the database file is readable");
    fs::copy(database(&other), database(&server)).expect("a file can be copied");
    let why = refused(&mut server);
    assert!(why.contains("another"), "{why}");
    fs::write(database(&server), own).expect("a file can be written");
    server.start_again();
    server.root().read("sys/policies/acl/one").expect(200);
}

pub(super) fn a_foreign_database_file_is_refused() {
    let _files = on_files();
    for content in [b"of some other program".repeat(400), vec![0; 8192]] {
        let mut server = stopped();
        fs::write(database(&server), content).expect("a file can be written");
        refused(&mut server);
    }
}

/// The row of the policy `name`; no other key ends with this name.
async fn sealed(connection: &mut SqliteConnection, name: &str) -> (String, Vec<u8>, Vec<u8>) {
    let query = sqlx::query("SELECT key, stamp, sealed FROM record WHERE key LIKE ?")
        .bind(format!("%/{name}"));
    let rows = query.fetch_all(connection).await.expect("the table is there");
    let [row] = rows.as_slice() else { panic!("{} rows end with /{name}", rows.len()) };
    (row.get(0), row.get(1), row.get(2))
}

async fn put(connection: &mut SqliteConnection, key: &str, stamp: &[u8], sealed: &[u8]) {
    let query = sqlx::query("UPDATE record SET stamp = ?, sealed = ? WHERE key = ?");
    let done = query
        .bind(stamp)
        .bind(sealed)
        .bind(key)
        .execute(connection)
        .await
        .expect("a row can be written");
    assert_eq!(done.rows_affected(), 1);
}

/// Edits the database without a key, like a thief of the file.
fn edit(database: &Path, edits: impl AsyncFnOnce(&mut SqliteConnection)) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime can be built");
    runtime.block_on(async {
        let mut connection = SqliteConnectOptions::new()
            .filename(database)
            .connect()
            .await
            .expect("the database opens");
        edits(&mut connection).await;
        connection.close().await.expect("the database closes");
    });
}

/// Asserts that the damaged policies answer with a server error that names the record, and that the
/// whole policies are served.
fn assert_damaged(server: &Bulkhead, damaged: &[&str], intact: &[&str]) {
    for name in damaged {
        let answer = server
            .root()
            .attempt("GET", &format!("sys/policies/acl/{name}"), b"")
            .expect("an answer");
        assert_eq!(answer.status, 500, "{answer:?}");
        assert!(answer.errors().contains(name), "the record is not named: {}", answer.errors());
    }
    for name in intact {
        server.root().read(&format!("sys/policies/acl/{name}")).expect(200);
    }
    server.root().read("sys/mounts").expect(200);
}

pub(super) fn a_flipped_byte_damages_only_its_record() {
    let mut server = stopped();
    let flip = |server: &Bulkhead| assert_eq!(flip_where(server, "key LIKE '%/one'"), 1);
    flip(&server);
    server.start_again();
    assert_damaged(&server, &["one"], &["two"]);
    assert!(server.stop());
    flip(&server);
    server.start_again();
    assert_damaged(&server, &[], &["one", "two"]);
}

/// Flips a byte in each row that matches `condition`, and returns their number.
pub(super) fn flip_where(server: &Bulkhead, condition: &str) -> usize {
    let statement = format!(
        "WITH record AS (SELECT * FROM bulkhead_record) UPDATE bulkhead_record \
         SET sealed = set_byte(sealed, length(sealed) - 1, \
         get_byte(sealed, length(sealed) - 1) # 1) WHERE {condition} RETURNING key"
    );
    if let Some(keys) = edited(server.data(), &statement) {
        return keys.len();
    }
    let mut flipped = 0;
    edit(&database(server), async |connection: &mut SqliteConnection| {
        let text = format!("SELECT space, key, sealed FROM record WHERE {condition}");
        let rows = sqlx::query(AssertSqlSafe(text))
            .fetch_all(&mut *connection)
            .await
            .expect("the table is there");
        flipped = rows.len();
        for row in rows {
            let (space, key, mut bytes): (i64, String, Vec<u8>) =
                (row.get(0), row.get(1), row.get(2));
            *bytes.last_mut().expect("a sealed body is never empty") ^= 1;
            let update = sqlx::query("UPDATE record SET sealed = ? WHERE space = ? AND key = ?");
            update
                .bind(bytes)
                .bind(space)
                .bind(key)
                .execute(&mut *connection)
                .await
                .expect("a row can be written");
        }
    });
    flipped
}

#[test]
fn unreadable_mounts_and_descriptions_do_not_prevent_start() {
    let mut server = stopped();
    assert_eq!(flip_where(&server, "key = 'mount/database/'"), 1);
    assert!(flip_where(&server, "key LIKE 'description/%'") >= 2);
    server.start_again();
    let is_logged = || server.printed().contains("mount-unreadable");
    bulkhead_tests::wait::until_true("the log names the mount", Duration::from_secs(5), is_logged);
    server.root().read("database/roles/any").expect(404);
    assert_damaged(&server, &[], &["one", "two"]);
    assert!(server.stop());
    flip_where(&server, "key = 'mount/database/'");
    server.start_again();
    server
        .root()
        .write("database/roles/any", &json!({ "db_name": "none", "creation_statements": ["x"] }))
        .expect(200);
}

#[test]
fn unreadable_leases_do_not_delay_other_leases() {
    let (postgres, mut server) = (Postgres::start(), stopped());
    let users = || postgres.users().len();
    server.start_again();
    let config = json!({
        "plugin_name": "postgresql-database-plugin",
        "connection_url": postgres.url(),
        "username": "bulkhead",
        "password": postgres.password,
        "allowed_roles": ["*"],
    });
    assert!(server.root().write("database/config/held", &config).status < 300);
    let role = json!({
        "db_name": "held",
        "creation_statements": [
            "CREATE ROLE \"{{name}}\" LOGIN PASSWORD '{{password}}' \
             VALID UNTIL '{{expiration}}'",
        ],
        "default_ttl": 8,
        "max_ttl": 8,
    });
    assert!(server.root().write("database/roles/heldup", &role).status < 300);
    for _ in 0..6 {
        server.root().read("database/creds/heldup").expect(200);
    }
    assert!(server.stop());
    assert_eq!(users(), 6);
    let oldest = "key IN (SELECT key FROM record WHERE space = 4 ORDER BY due LIMIT 4)";
    assert_eq!(flip_where(&server, oldest), 4);
    server.start_again();
    bulkhead_tests::wait::until_true("the leases that open end", SOON, || users() == 4);
    assert!(server.stop());
    assert_eq!(flip_where(&server, "space = 4"), 4);
    server.start_again();
    bulkhead_tests::wait::until_true("the repaired ones end, too", SOON, || users() == 0);
}

/// Gives each of the rows of two policies the stamp and the bytes of the other row.
fn swap(server: &Bulkhead) {
    let statement = "UPDATE bulkhead_record AS one SET stamp = two.stamp, sealed = two.sealed \
                     FROM bulkhead_record AS two WHERE one.key <> two.key \
                     AND (one.key LIKE '%/one' OR one.key LIKE '%/two') \
                     AND (two.key LIKE '%/one' OR two.key LIKE '%/two') RETURNING one.key";
    match edited(server.data(), statement) {
        Some(keys) => assert_eq!(keys.len(), 2, "{keys:?}"),
        None => edit(&database(server), async |connection: &mut SqliteConnection| {
            let one = sealed(connection, "one").await;
            let two = sealed(connection, "two").await;
            put(connection, &one.0, &two.1, &two.2).await;
            put(connection, &two.0, &one.1, &one.2).await;
        }),
    }
}

pub(super) fn swapped_rows_are_both_refused() {
    let mut server = stopped();
    swap(&server);
    server.start_again();
    assert_damaged(&server, &["one", "two"], &["default"]);
    assert!(server.stop());
    swap(&server);
    server.start_again();
    assert_damaged(&server, &[], &["one", "two"]);
}

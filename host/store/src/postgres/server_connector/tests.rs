//! Tests of new sessions: several servers, passwords, and the sentences of refusals.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use bulkhead_wire::secret::Secret;
use tokio::net::TcpListener;

use super::*;
use crate::testing::{ScratchDirectory, TestDatabase, administer};
use bulkhead_place::options::DatabaseChoice;
use bulkhead_place::postgres_place::PasswordSource;

fn scratch() -> (ScratchDirectory, PostgresPlace) {
    let scratch = ScratchDirectory::on(TestDatabase::Postgres);
    let DatabaseChoice::Postgres(place) = scratch.options().database else { panic!("no server") };
    (scratch, *place)
}

fn server(host: &str, port: u16) -> PostgresServer {
    PostgresServer { host: host.to_owned(), port }
}

async fn refusal(place: &PostgresPlace) -> String {
    connect(place).await.err().unwrap().describe()
}

/// Returns the place with a user of this test, created with `options`.
fn place_of_user(place: &PostgresPlace, options: &str) -> PostgresPlace {
    let user = format!("user_{}", place.schema);
    administer(&format!("CREATE ROLE {user} LOGIN {options}"));
    PostgresPlace { user, ..place.clone() }
}

fn write_secret(path: &Path, text: &str, mode: u32) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[tokio::test]
async fn servers_are_tried_in_order() {
    let (_scratch, place) = scratch();
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = server("127.0.0.1", silent.local_addr().unwrap().port());
    let refusing = server("127.0.0.1", 1);
    let connector = ServerConnector::new(&PostgresPlace {
        servers: vec![refusing.clone(), silent.clone(), place.servers[0].clone()],
        connect_timeout: Duration::from_secs(2),
        ..place.clone()
    });
    connector.connect().await.unwrap();
    assert_eq!(connector.last.load(Ordering::Relaxed), 2);
    connector.connect().await.unwrap();
    let unnamed = server("no-such-name.invalid", 5432);
    let socket = server("/no-such-folder", 5432);
    let place = PostgresPlace {
        servers: vec![refusing, unnamed, socket],
        connect_timeout: Duration::from_secs(2),
        ..place
    };
    let said = refusal(&place).await;
    for words in [
        "no PostgreSQL server opened a session",
        "127.0.0.1:1: the server cannot be reached: connection refused",
        "no-such-name.invalid:5432: ",
        "/no-such-folder:5432: the server cannot be reached",
    ] {
        assert!(said.contains(words), "{said}");
    }
}

/// The first server accepts connections and says nothing, as a host that is cut off.
#[tokio::test]
async fn silent_server_does_not_delay_next_one() {
    let (_scratch, place) = scratch();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = server("127.0.0.1", listener.local_addr().unwrap().port());
    let connector = ServerConnector::new(&PostgresPlace {
        servers: vec![silent, place.servers[0].clone()],
        ..place.clone()
    });
    let begun = Instant::now();
    connector.connect().await.unwrap();
    assert!(begun.elapsed() < place.connect_timeout / 2, "{:?}", begun.elapsed());
    assert_eq!(connector.last.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn silent_server_ends_with_connect_timeout() {
    let (_scratch, place) = scratch();
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let place = PostgresPlace {
        servers: vec![server("127.0.0.1", silent.local_addr().unwrap().port())],
        connect_timeout: Duration::from_millis(50),
        ..place
    };
    let said = refusal(&place).await;
    assert!(said.contains("connect_timeout, 0.05 s"), "{said}");
}

#[tokio::test]
async fn read_only_server_is_left_for_writable_server() {
    let (_scratch, place) = scratch();
    let reading = place_of_user(&place, "PASSWORD 'hull-8241'");
    administer(&format!("ALTER ROLE {} SET default_transaction_read_only = on", reading.user));
    connect(&reading).await.unwrap();
    // A store refuses a standby behind a single address.
    let refused = ServerConnector::of_store(&reading).connect().await.err().unwrap();
    assert!(refused.describe().contains("accepts no writes"));
    let writing = PostgresPlace { session_target: SessionTarget::ReadWrite, ..reading.clone() };
    assert!(refusal(&writing).await.contains("accepts no writes"));
    let several = PostgresPlace {
        servers: vec![place.servers[0].clone(), place.servers[0].clone()],
        ..reading
    };
    let said = refusal(&several).await;
    assert_eq!(said.matches("accepts no writes").count(), 2, "{said}");
    let writing = PostgresPlace { session_target: SessionTarget::ReadWrite, ..place };
    connect(&writing).await.unwrap();
}

#[tokio::test]
async fn every_address_of_a_name_is_tried() {
    let (_scratch, place) = scratch();
    // The server listens at 127.0.0.1 only, and the name may have ::1 as well.
    let port = place.servers[0].port;
    let place = PostgresPlace { servers: vec![server("localhost", port)], ..place };
    connect(&place).await.unwrap();
}

#[tokio::test]
async fn changed_password_file_is_used_for_next_session() {
    let (scratch, place) = scratch();
    let place = place_of_user(&place, "PASSWORD 'first-7301'");
    let file = scratch.path().join("password");
    let place = PostgresPlace { password: PasswordSource::File(file.clone()), ..place };
    let said = refusal(&place).await;
    assert!(said.contains("the password file") && said.contains("cannot be read"), "{said}");
    write_secret(&file, "first-7301\n", 0o600);
    let connector = ServerConnector::new(&place);
    connector.connect().await.unwrap();
    administer(&format!("ALTER ROLE {} PASSWORD 'second-7302'", place.user));
    let said = refusal(&place).await;
    for words in [&place.user, "28P01", file.to_str().unwrap(), "127.0.0.1:"] {
        assert!(said.contains(words), "{said}");
    }
    assert!(!said.contains("first-7301"), "{said}");
    write_secret(&file, "second-7302\r\n", 0o640);
    connector.connect().await.unwrap();
    write_secret(&file, "second-7302", 0o644);
    assert!(refusal(&place).await.contains("open to others"));
    write_secret(&file, "\n", 0o600);
    assert!(refusal(&place).await.contains("is empty"));
}

#[tokio::test]
async fn passfile_has_the_password_of_the_server() {
    let (scratch, place) = scratch();
    let file = scratch.path().join("pass");
    let port = place.servers[0].port;
    let place = PostgresPlace { password: PasswordSource::PassFile(file.clone()), ..place };
    write_secret(&file, "other:*:*:*:x\n", 0o600);
    let said = refusal(&place).await;
    assert!(said.contains(&format!("no line for 127.0.0.1:{port}:demo:bulkhead")), "{said}");
    write_secret(&file, &format!("127.0.0.1:{port}:demo:*:hull-8241\n"), 0o600);
    connect(&place).await.unwrap();
    write_secret(&file, "*:*:*:*:hull-8241\n", 0o604);
    assert!(refusal(&place).await.contains("open to others"));
}

#[tokio::test]
async fn refused_sessions_have_sentences_with_remedies() {
    let (_scratch, place) = scratch();
    let schema = place.schema.clone();
    let missing = PostgresPlace { database: "no \"such".to_owned(), ..place.clone() };
    let said = refusal(&missing).await;
    assert!(said.contains("3D000") && said.contains("CREATE DATABASE \"no \"\"such\""), "{said}");
    let wrong =
        PostgresPlace { password: PasswordSource::Fixed(Secret::new("wrong-1")), ..place.clone() };
    let said = refusal(&wrong).await;
    assert!(said.contains("refused user \"bulkhead\" with the password of the"), "{said}");
    assert!(!said.contains("wrong-1"), "{said}");
    let nobody = PostgresPlace { password: PasswordSource::Missing, ..place.clone() };
    assert!(refusal(&nobody).await.contains("with no password"));
    let full = place_of_user(&place, "CONNECTION LIMIT 0 PASSWORD 'hull-8241'");
    let said = refusal(&full).await;
    assert!(said.contains("53300") && said.contains("max_parallel, which is 16"), "{said}");
    administer(&format!("ALTER ROLE {} CONNECTION LIMIT -1", full.user));
    administer(&format!("CREATE DATABASE db_{schema}"));
    administer(&format!("REVOKE CONNECT ON DATABASE db_{schema} FROM PUBLIC"));
    let barred = PostgresPlace { database: format!("db_{schema}"), ..full };
    let said = refusal(&barred).await;
    assert!(said.contains("GRANT CONNECT ON DATABASE"), "{said}");
}

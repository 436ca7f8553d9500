//! Tests of TLS with the server of the tests, and with servers that refuse TLS.

use std::fs;
use std::process::Command;

use sqlx::Row as _;
use tokio::net::TcpListener;

use super::*;
use crate::postgres::server_connector::connect;
use crate::postgres::statement_draft::StatementDraft;
use crate::testing::{ScratchDirectory, TestDatabase, administer, postgres_folder};
use bulkhead_place::options::DatabaseChoice;
use bulkhead_place::postgres_place::{PasswordSource, PostgresPlace};

fn scratch() -> (ScratchDirectory, PostgresPlace) {
    let scratch = ScratchDirectory::on(TestDatabase::Postgres);
    let DatabaseChoice::Postgres(place) = scratch.options().database else { panic!("no server") };
    (scratch, *place)
}

fn tls(mode: PostgresTlsMode, root: Option<&str>) -> PostgresTls {
    let folder = postgres_folder();
    let root = root.map(|file| match file {
        PUBLIC_AUTHORITIES => file.into(),
        file => folder.join(file),
    });
    PostgresTls { mode, root_certificates: root, client_certificate: None, client_key: None }
}

/// Returns whether a new session is protected by TLS, and the name of its client certificate.
async fn protection(place: &PostgresPlace) -> Result<(bool, Option<String>), String> {
    let mut connection = connect(place).await.map_err(|error| error.describe())?;
    let question = "SELECT ssl, client_dn FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    let rows = StatementDraft::of(question).fetch(&mut connection).await.unwrap();
    Ok((rows[0].get(0), rows[0].get(1)))
}

#[tokio::test]
async fn modes_protect_and_check_as_named() {
    use PostgresTlsMode::{Disable, Prefer, Require, VerifyCa, VerifyFull};
    let (_scratch, place) = scratch();
    for (mode, root, outcome) in [
        (Disable, None, Ok(false)),
        (Prefer, None, Ok(true)),
        (Require, None, Ok(true)),
        (Require, Some("ca.pem"), Ok(true)),
        (VerifyCa, Some("ca.pem"), Ok(true)),
        (VerifyFull, Some("ca.pem"), Ok(true)),
        // The server did not sign its own certificate.
        (Require, Some("server.pem"), Err("no trusted authority")),
        (VerifyCa, None, Err("give the certificate of the authority as sslrootcert")),
        (VerifyFull, Some(PUBLIC_AUTHORITIES), Err("sslrootcert")),
        (VerifyFull, Some("missing.pem"), Err("missing.pem cannot be read")),
    ] {
        let place = PostgresPlace { tls: tls(mode, root), ..place.clone() };
        match (protection(&place).await, outcome) {
            (Ok((found, _)), Ok(wanted)) => assert_eq!(found, wanted, "{mode:?} {root:?}"),
            (Err(said), Err(words)) => assert!(said.contains(words), "{mode:?} {root:?}: {said}"),
            (found, _) => panic!("{mode:?} {root:?}: {found:?}"),
        }
    }
}

#[tokio::test]
async fn large_rows_pass_through_tls() {
    let (_scratch, place) = scratch();
    let place = PostgresPlace { tls: tls(PostgresTlsMode::Require, None), ..place };
    let mut connection = connect(&place).await.unwrap();
    let sent = vec![7_u8; 3 << 20];
    let question = StatementDraft::of("SELECT $1::bytea").with(sent.as_slice()).unwrap();
    let rows = question.fetch(&mut connection).await.unwrap();
    assert!(rows[0].get::<Vec<u8>, _>(0) == sent);
}

async fn secure(host: &str, mode: PostgresTlsMode, port: u16) -> Result<bool, String> {
    let server = PostgresServer { host: host.to_owned(), port };
    let settings = TlsSettings::read(&tls(mode, Some("ca.pem")), &server)?.unwrap();
    let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    settings.secure(stream).await.map(|route| route.is_some())
}

#[tokio::test]
async fn name_of_certificate_is_checked_in_full_mode() {
    let (_scratch, place) = scratch();
    let port = place.servers[0].port;
    assert_eq!(secure("db.example", PostgresTlsMode::VerifyFull, port).await, Ok(true));
    assert_eq!(secure("other.example", PostgresTlsMode::VerifyCa, port).await, Ok(true));
    let said = secure("other.example", PostgresTlsMode::VerifyFull, port).await.unwrap_err();
    assert!(said.contains("another name") && said.contains("verify-ca"), "{said}");
}

#[tokio::test]
async fn server_without_tls_is_used_only_if_preferred() {
    for (answer, mode, outcome) in [
        (b'N', PostgresTlsMode::Prefer, Ok(false)),
        (b'N', PostgresTlsMode::Require, Err("the server has no TLS")),
        (b'E', PostgresTlsMode::Prefer, Err("protocol of PostgreSQL")),
        (b'S', PostgresTlsMode::Prefer, Err("TLS handshake")),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let serving = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 8];
            stream.read_exact(&mut request).await.unwrap();
            stream.write_all(&[answer]).await.unwrap();
            request
        });
        let found = secure("127.0.0.1", mode, port).await;
        assert_eq!(serving.await.unwrap(), SSL_REQUEST);
        match (found, outcome) {
            (Ok(found), Ok(wanted)) => assert_eq!(found, wanted),
            (Err(said), Err(words)) => assert!(said.contains(words), "{said}"),
            (found, _) => panic!("{mode:?}: {found:?}"),
        }
    }
}

/// A certificate of the server's authority replaces the password, and is read for each session.
#[tokio::test]
async fn client_certificate_is_read_for_each_session() {
    let (scratch, place) = scratch();
    let (user, folder) = (format!("cert_{}", place.schema), postgres_folder());
    administer(&format!("CREATE ROLE {user} LOGIN IN ROLE certified"));
    let (certificate, key) = (scratch.path().join("client.pem"), scratch.path().join("client.key"));
    let issue = |name: &str| {
        let issued = Command::new("openssl")
            .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"])
            .args(["-nodes", "-days", "2", "-subj", &format!("/CN={name}"), "-CA"])
            .arg(folder.join("ca.pem"))
            .arg("-CAkey")
            .arg(folder.join("ca.key"))
            .args(["-addext", "basicConstraints=critical,CA:FALSE", "-out"])
            .arg(&certificate)
            .arg("-keyout")
            .arg(&key)
            .output()
            .unwrap();
        assert!(issued.status.success(), "{}", String::from_utf8_lossy(&issued.stderr));
    };
    issue(&user);
    let tls = PostgresTls {
        client_certificate: Some(certificate.clone()),
        client_key: Some(key.clone()),
        ..tls(PostgresTlsMode::VerifyFull, Some("ca.pem"))
    };
    let place = PostgresPlace { user, tls, password: PasswordSource::Missing, ..place };
    let (is_protected, name) = protection(&place).await.unwrap();
    assert!(is_protected && name.unwrap().contains(&place.user));
    issue("somebody else");
    let said = protection(&place).await.unwrap_err();
    assert!(said.contains("refused user"), "{said}");
    fs::copy(folder.join("ca.key"), &key).unwrap();
    let said = protection(&place).await.unwrap_err();
    assert!(said.contains("is not the key of the client certificate"), "{said}");
    fs::remove_file(&certificate).unwrap();
    assert!(protection(&place).await.unwrap_err().contains("client.pem cannot be read"));
}

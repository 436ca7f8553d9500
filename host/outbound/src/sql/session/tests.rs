//! Tests of the server that a session reaches, and of the name that the server must prove.

mod lent_session;
mod mysql;

use super::*;
use crate::sql::{DatabaseTls, PoolKey, PoolSettings, SessionPools};
use crate::tls::TlsConfigs;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

const AUTHORITY: &str = include_str!("../../http/fixtures/authority.pem");
const SERVER: &str = include_str!("../../http/fixtures/server.pem");
const SERVER_KEY: &str = include_str!("../../http/fixtures/server.key");
const OTHER_AUTHORITY: &str = include_str!("../../http/fixtures/other-authority.pem");
const ELSEWHERE: &str = include_str!("../../http/fixtures/elsewhere.pem");

/// A server with as much of PostgreSQL as a login and a statement need, over TLS only. Every commit
/// ends the session with a fatal error.
struct Server {
    address: SocketAddr,
    accepted: Arc<AtomicUsize>,
}

impl Server {
    async fn start(ip: &str, port: u16, certificate: &str) -> Self {
        let listener = TcpListener::bind((ip, port)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let acceptor = acceptor(certificate);
        let accepted = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&accepted);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::Relaxed);
                // The task ends when its client closes the connection.
                tokio::spawn(serve(stream, acceptor.clone()));
            }
        });
        Self { address, accepted }
    }

    fn accepted(&self) -> usize {
        self.accepted.load(Ordering::Relaxed)
    }
}

fn acceptor(certificate: &str) -> TlsAcceptor {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(SERVER_KEY.as_bytes()).unwrap();
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key);
    TlsAcceptor::from(Arc::new(config.unwrap()))
}

async fn serve(mut stream: TcpStream, acceptor: TlsAcceptor) -> io::Result<()> {
    // The TLS request: its length and its code.
    stream.read_exact(&mut [0; 8]).await?;
    stream.write_all(b"S").await?;
    speak(acceptor.accept(stream).await?).await
}

async fn speak(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<()> {
    let ready = [b'Z', 0, 0, 0, 5, b'I'];
    read_message(&mut stream).await?;
    // Accept the login without a password; then ready for queries.
    stream.write_all(&[b'R', 0, 0, 0, 8, 0, 0, 0, 0]).await?;
    stream.write_all(&ready).await?;
    stream.flush().await?;
    loop {
        let kind = stream.read_u8().await?;
        let text = read_message(&mut stream).await?;
        match kind {
            b'Q' if text.starts_with(b"COMMIT") => {
                let end = b"SFATAL\0VFATAL\0CXX000\0Mthe disk\0\0";
                stream.write_u8(b'E').await?;
                stream.write_u32(u32::try_from(end.len() + 4).unwrap()).await?;
                stream.write_all(end).await?;
                return stream.shutdown().await;
            }
            b'Q' if text.starts_with(b"BEGIN") => {
                stream.write_all(b"C\0\0\0\x0aBEGIN\0Z\0\0\0\x05T").await?;
                stream.flush().await?;
                continue;
            }
            b'Q' => stream.write_all(b"C\0\0\0\x0dSELECT 1\0").await?,
            b'S' => {}
            _ => return Ok(()),
        }
        stream.write_all(&ready).await?;
        stream.flush().await?;
    }
}

async fn read_message(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    let length = stream.read_u32().await?;
    let mut body = vec![0; usize::try_from(length).unwrap() - 4];
    stream.read_exact(&mut body).await?;
    Ok(body)
}

fn target(host: &str, port: u16, mode: &str) -> DatabaseTarget {
    DatabaseTarget {
        driver: "postgres".to_owned(),
        endpoints: vec![DatabaseEndpoint { host: host.to_owned(), port }],
        writable: false,
        database: "demo".to_owned(),
        username: "bulkhead".to_owned(),
        password: "no-word-in-it".to_owned(),
        tls: DatabaseTls {
            mode: mode.to_owned(),
            root_certificates: Some(AUTHORITY.to_owned()),
            client_certificate: None,
            client_key: None,
            server_name: None,
        },
        pool: PoolSettings { max_connections: 2, connect_timeout: 10_000, max_lifetime: 0 },
    }
}

/// Opens sessions to `address`, as if `host` had resolved to `address`.
async fn open(host: &str, address: SocketAddr, mode: &str) -> Result<VettedPool, SqlFailure> {
    open_vetted(&target(host, address.port(), mode), address).await
}

async fn open_vetted(
    target: &DatabaseTarget,
    address: SocketAddr,
) -> Result<VettedPool, SqlFailure> {
    let aim = DialTarget { target, tls: &TlsConfigs::new(&[]) };
    VettedPool::open_vetted(aim, &target.endpoints[0], &[address]).await
}

async fn lend(sessions: &VettedPool) -> SqlSession {
    sessions.lend().await.unwrap().unwrap()
}

async fn ping(sessions: &VettedPool) -> Result<(), SqlFailure> {
    lend(sessions).await.ping().await
}

async fn transact(sessions: &VettedPool, statements: &[SqlStatement]) -> Result<(), SqlFailure> {
    lend(sessions).await.transact(statements).await
}

#[tokio::test]
async fn changed_dns_answer_reaches_no_unchecked_address() {
    // The name "localhost" resolves to the decoy, but the vetted address is the other server.
    let vetted = Server::start("127.0.0.2", 0, SERVER).await;
    let decoy = Server::start("127.0.0.1", vetted.address.port(), SERVER).await;
    let sessions = open("localhost", vetted.address, "verify-full").await.unwrap();
    let before = vetted.accepted();
    let super::AnySessionPool::Postgres(lender) = &sessions.pool else {
        panic!("the session is not of PostgreSQL")
    };
    let (one, other) = tokio::join!(lender.lend(), lender.lend());
    assert!(one.is_ok() && other.is_ok());
    assert_eq!(decoy.accepted(), 0, "no session went to the new address of the name");
    assert_eq!(vetted.accepted(), before + 2, "each session went to the checked address");
}

#[tokio::test]
async fn session_dials_address_and_verifies_certificate_against_name() {
    let elsewhere = Server::start("127.0.0.1", 0, ELSEWHERE).await;
    let sessions = open("elsewhere.example", elsewhere.address, "verify-full").await.unwrap();
    ping(&sessions).await.unwrap();
    for spelling in ["ELSEWHERE.example", "elsewhere.example."] {
        assert!(open(spelling, elsewhere.address, "verify-full").await.is_ok(), "{spelling}");
    }
    for wrong in ["localhost", "127.0.0.1", "0x7f.1"] {
        let refused = open(wrong, elsewhere.address, "verify-full").await.err().unwrap();
        assert_eq!(refused.code, "unreachable", "{wrong} is not in the certificate");
    }
    assert!(open("localhost", elsewhere.address, "verify-ca").await.is_ok());
    let numbered = Server::start("127.0.0.1", 0, SERVER).await;
    assert!(
        open("0x7f.1", numbered.address, "verify-full").await.is_ok(),
        "all spellings of the address are equal"
    );
}

#[tokio::test]
async fn connection_with_own_authorities_trusts_no_others() {
    let server = Server::start("127.0.0.1", 0, SERVER).await;
    for (roots, lets_in) in [(AUTHORITY, true), (OTHER_AUTHORITY, false)] {
        for mode in ["verify-ca", "verify-full"] {
            let mut target = target("127.0.0.1", server.address.port(), mode);
            target.tls.root_certificates = Some(roots.to_owned());
            let opened = open_vetted(&target, server.address).await;
            assert_eq!(opened.is_ok(), lets_in, "{mode}");
            if let Err(failure) = opened {
                assert_eq!(failure.code, "unreachable");
                assert!(failure.message.contains("trusted"), "{}", failure.message);
            }
        }
    }
}

#[tokio::test]
async fn connection_without_authorities_trusts_operator_authorities() {
    let server = Server::start("127.0.0.1", 0, SERVER).await;
    let mut target = target("127.0.0.1", server.address.port(), "verify-full");
    target.tls.root_certificates = None;
    let authority = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    for (pem, lets_in) in [(AUTHORITY, true), (OTHER_AUTHORITY, false)] {
        let aim = DialTarget { target: &target, tls: &TlsConfigs::new(&[authority(pem)]) };
        let opened = VettedPool::open_vetted(aim, &target.endpoints[0], &[server.address]).await;
        assert_eq!(opened.is_ok(), lets_in);
    }
}

#[tokio::test]
async fn unreachable_server_has_same_error_in_every_mode() {
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    for mode in ["disable", "verify-full"] {
        let refused = open("localhost", gone, mode).await.err().unwrap();
        assert_eq!(
            (refused.code.as_str(), refused.message.as_str()),
            ("unreachable", "connection refused")
        );
    }
}

#[tokio::test]
async fn server_death_at_commit_proves_no_rollback() {
    let server = Server::start("127.0.0.1", 0, SERVER).await;
    let sessions = open("localhost", server.address, "verify-full").await.unwrap();
    let change = SqlStatement { text: "CREATE ROLE x".to_owned(), secret: false, may_fail: false };
    let failure = transact(&sessions, &[change]).await.unwrap_err();
    assert_eq!(
        (failure.code.as_str(), failure.sqlstate.as_deref()),
        ("unreachable", Some("XX000"))
    );
}

/// Pools of several mounts, all to the same server, with 2 sessions each.
struct Mounts {
    pools: SessionPools,
    target: DatabaseTarget,
}

impl Mounts {
    async fn with_room(sessions: u32) -> Self {
        let server = Server::start("127.0.0.1", 0, SERVER).await;
        let target = target("127.0.0.1", server.address.port(), "verify-ca");
        Self { pools: SessionPools::with_room(sessions, &TlsConfigs::new(&[])), target }
    }

    fn key(&self, mount: &str, connection: &str) -> PoolKey {
        PoolKey::new(mount, connection, 1, &self.target)
    }

    async fn open(&self, mount: &str, connection: &str) -> Result<VettedPool, SqlFailure> {
        let reach = AllowedAddresses { everything: true, ..AllowedAddresses::within(&[]) };
        self.pools.sessions(self.key(mount, connection), &self.target, &[reach]).await
    }

    fn is_open(&self, mount: &str, connection: &str) -> bool {
        self.pools.lock().contains_key(&self.key(mount, connection))
    }
}

#[tokio::test]
async fn sessions_of_all_mounts_are_bounded_largest_yields() {
    let mounts = Mounts::with_room(6).await;
    for (mount, connection) in [("modest", "a"), ("greedy", "a"), ("greedy", "b"), ("late", "a")] {
        assert!(mounts.open(mount, connection).await.is_ok(), "{mount} {connection}");
    }
    assert!(mounts.is_open("modest", "a"), "although it was used longest ago");
    assert!(!mounts.is_open("greedy", "a") && mounts.is_open("greedy", "b"));
    assert!(mounts.open("greedy", "a").await.is_ok(), "a closed pool opens again");
    assert!(mounts.pools.room.available_permits() <= 6);
}

#[tokio::test]
async fn a_lent_session_counts_until_its_return() {
    let mounts = Mounts::with_room(2).await;
    let lent = mounts.open("one", "a").await.unwrap();
    let (late, ()) = tokio::join!(mounts.open("late", "a"), async {
        tokio::task::yield_now().await;
        assert_eq!(mounts.pools.room.available_permits(), 0);
        drop(lent);
    });
    assert!(late.is_ok());
    assert!(!mounts.is_open("one", "a"));
}

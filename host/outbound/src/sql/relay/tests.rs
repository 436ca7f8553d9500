//! Tests of the processes and addresses that a relay connects.

use super::*;
use crate::sql::gate::{SqlProtocol, TlsRequirement};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net;
use std::process::Command;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use zeroize::Zeroizing;

/// Builds a gate to a server with the protocol of PostgreSQL.
fn gate() -> ProtocolFilter {
    ProtocolFilter {
        speech: SqlProtocol::Postgres,
        security: TlsRequirement::Clear,
        password: Zeroizing::default(),
        connect_timeout: TEST_TIMEOUT,
    }
}

const TEST_TIMEOUT: Duration = Duration::from_secs(15);
/// Environment variable that makes this test program act as the other process; the value is the
/// name of the socket.
const OTHER_PROCESS: &str = "BULKHEAD_TEST_RELAY";

#[tokio::test]
async fn the_relay_carries_bytes_in_both_directions() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = listener.local_addr().unwrap();
    let relay = TlsRelay::open(to, gate()).unwrap();
    let mut near = UnixStream::connect(relay.socket()).await.unwrap();
    let (mut far, _) = timeout(TEST_TIMEOUT, listener.accept()).await.unwrap().unwrap();
    near.write_all(b"asked").await.unwrap();
    let mut heard = [0; 5];
    far.read_exact(&mut heard).await.unwrap();
    drop(relay);
    far.write_all(b"Z\0\0\0\x05I").await.unwrap();
    drop(far);
    let mut answer = Vec::new();
    timeout(TEST_TIMEOUT, near.read_to_end(&mut answer)).await.unwrap().unwrap();
    assert_eq!(&heard, b"asked");
    assert_eq!(answer, b"Z\0\0\0\x05I", "the answer arrives after the end of the input");
}

#[tokio::test]
async fn relay_reports_fault_of_unreachable_address() {
    let to = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let relay = TlsRelay::open(to, gate()).unwrap();
    let mut near = UnixStream::connect(relay.socket()).await.unwrap();
    let mut answer = Vec::new();
    timeout(TEST_TIMEOUT, near.read_to_end(&mut answer)).await.unwrap().unwrap();
    assert!(answer.is_empty());
    assert_eq!(relay.fault(), Some(SqlFault::Broken("connection refused".to_owned())));
}

#[tokio::test]
async fn relay_socket_is_useless_to_another_process() {
    if let Ok(name) = std::env::var(OTHER_PROCESS) {
        return dial_as_other_process(&name);
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = listener.local_addr().unwrap();
    let relay = TlsRelay::open(to, gate()).unwrap();
    let name = relay.socket().to_owned();
    let this = std::thread::current().name().unwrap().to_owned();
    let other_process = tokio::task::spawn_blocking(move || {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &this])
            .env(OTHER_PROCESS, name.trim_start_matches('\0'))
            .output()
            .unwrap()
    });
    let output = other_process.await.unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && printed.contains("1 passed"), "{printed}");
    let dialled = timeout(Duration::from_millis(100), listener.accept()).await;
    assert!(dialled.is_err(), "nothing is dialled for it");
}

/// Connects, and expects the relay to close the connection.
fn dial_as_other_process(name: &str) {
    use std::io::Read as _;
    let address = net::SocketAddr::from_abstract_name(name).unwrap();
    let mut socket = net::UnixStream::connect_addr(&address).unwrap();
    socket.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    assert_eq!(socket.read(&mut [0]).unwrap(), 0);
}

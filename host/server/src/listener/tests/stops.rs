//! Stops of a listener: new clients of a handed over socket, unused connections, and cut ones.

use super::*;
use crate::handed_sockets::HandedSocket;
use tokio::io::{AsyncRead, AsyncWrite};

/// Starts a listener whose requests get `drain_time` after the stop.
async fn start_with_drain_time(drain_time: Duration) -> Running {
    let (socket, address) = bind("127.0.0.1:0", "with -x").await.unwrap();
    let config = ListenerConfig::at("127.0.0.1:0");
    let limits = ListenerLimits { drain_time, ..ListenerLimits::new(config, 64) };
    start_within(
        vec![BoundSocket::Tcp { socket, address, tls: None, figures: Arc::default() }],
        address,
        limits,
    )
}

/// Time for a first request after the stop, in tests that send such a request: a busy machine may
/// be slow.
pub(super) const FIRST_REQUEST: Duration = Duration::from_secs(60);

/// Longest wait for a stop on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Starts a listener with [`FIRST_REQUEST`].
async fn start_with_patience() -> Running {
    let (socket, address) = bind("127.0.0.1:0", "with -x").await.unwrap();
    let limits = ListenerLimits::new(ListenerConfig::at("127.0.0.1:0"), 64);
    let timeouts = ConnectionTimeouts { first_request: FIRST_REQUEST, ..limits.timeouts };
    let limits = ListenerLimits { timeouts, ..limits };
    start_within(
        vec![BoundSocket::Tcp { socket, address, tls: None, figures: Arc::default() }],
        address,
        limits,
    )
}

/// Sends a request over a connection, which stays open, and returns the connection, which has read
/// the answer.
pub(super) async fn become_idle<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S) -> S {
    stream.write_all(get("/v1/a").replace("close", "keep-alive").as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"}") {
        assert!(stream.read_buf(&mut answer).await.unwrap() > 0, "the connection is open");
    }
    stream
}

/// Waits until every connection knows of the stop: the listener tells all connections at once, and
/// an idle connection then closes. The runtime has one thread, so that the other connections, which
/// the listener woke before, ran before the test reads the end.
pub(super) async fn await_closing(mut idle: impl AsyncRead + Unpin) {
    let mut rest = Vec::new();
    // A connection over TLS may end without an alert.
    let end = tokio::time::timeout(PATIENCE, idle.read_to_end(&mut rest)).await;
    assert!(end.is_ok() && rest.is_empty(), "{end:?}: {rest:?}");
}

#[tokio::test]
async fn answer_after_stop_closes_its_connection() {
    let Running { address, gate, stop, ended } = start_with_patience().await;
    let idle = become_idle(TcpStream::connect(address).await.unwrap()).await;
    let persistent = get("/v1/wait").replace("connection: close\r\n", "");
    let waiting = tokio::spawn(async move { exchange(address, &persistent).await });
    gate.entered.notified().await;
    stop.send(()).unwrap();
    await_closing(idle).await;
    gate.leave.notify_one();
    let answer = waiting.await.unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 200 ") && answer.contains("connection: close"),
        "{answer}"
    );
    assert_eq!(ended.await.unwrap(), COMPLETE);
}

#[tokio::test]
async fn first_request_after_stop_is_answered() {
    let Running { address, gate, stop, ended } = start_with_patience().await;
    let mut fresh = TcpStream::connect(address).await.unwrap();
    // The answer shows that the older connection was accepted.
    let idle = become_idle(TcpStream::connect(address).await.unwrap()).await;
    let waiting = tokio::spawn(async move { exchange(address, &get("/v1/wait")).await });
    gate.entered.notified().await;
    stop.send(()).unwrap();
    await_closing(idle).await;
    fresh.write_all(get("/v1/a").replace("close", "keep-alive").as_bytes()).await.unwrap();
    let mut answer = String::new();
    fresh.read_to_string(&mut answer).await.unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 200 ") && answer.contains("connection: close"),
        "{answer}"
    );
    gate.leave.notify_one();
    assert!(waiting.await.unwrap().starts_with("HTTP/1.1 200 "));
    assert_eq!(ended.await.unwrap(), COMPLETE);
}

#[tokio::test]
async fn requests_past_drain_time_are_cut_and_counted() {
    let Running { address, gate, stop, ended } =
        start_with_drain_time(Duration::from_millis(20)).await;
    let waiting = tokio::spawn(async move { exchange(address, &get("/v1/wait")).await });
    gate.entered.notified().await;
    stop.send(()).unwrap();
    assert_eq!(ended.await.unwrap(), DrainOutcome { is_complete: false, cut: 1 });
    assert_eq!(waiting.await.unwrap(), "", "the connection was closed without an answer");
    gate.leave.notify_one();
}

/// Hands a clone of `socket` over to a new listener.
async fn start_on(socket: &std::net::TcpListener) -> Running {
    let config = ListenerConfig::at("192.0.2.1:1");
    let socket = HandedSocket { number: 3, socket: socket.try_clone().unwrap() };
    let handed = ListenerSockets { tcp: Some(socket), unix: None };
    let log: Arc<dyn Log> = Arc::new(Quiet);
    let doors = BoundSocket::open_all(&config, handed, "with -x", &log).await.unwrap();
    let address = doors[0].address().unwrap();
    start_at(doors, address, config)
}

#[tokio::test]
async fn clients_between_listeners_wait_in_handed_over_socket() {
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let first = start_on(&socket).await;
    let address = first.address;
    assert_eq!(address, socket.local_addr().unwrap());
    assert!(exchange(address, &get("/v1/a")).await.contains(" 200 "));
    first.stop.send(()).unwrap();
    assert_eq!(first.ended.await.unwrap(), COMPLETE);
    let mut early = TcpStream::connect(address).await.unwrap();
    early.write_all(get("/v1/a").as_bytes()).await.unwrap();
    let second = start_on(&socket).await;
    let mut answer = String::new();
    early.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    drop(second);
}

#[tokio::test]
async fn plain_socket_from_outside_needs_tls_setting() {
    let open_one = async |transport| {
        let number = 3;
        let socket = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
        let handed = ListenerSockets { tcp: Some(HandedSocket { number, socket }), unix: None };
        let config = ListenerConfig { transport, ..ListenerConfig::at("127.0.0.1:1") };
        let log: Arc<dyn Log> = Arc::new(Quiet);
        BoundSocket::open_all(&config, handed, "with -x", &log).await.map(drop)
    };
    let error = open_one(ListenerTransport::PlainHere).await.unwrap_err();
    for part in ["descriptor 3 of LISTEN_FDS", "0.0.0.0:", "tls_disable"] {
        assert!(error.contains(part), "{error}");
    }
    open_one(ListenerTransport::Plain).await.unwrap();
}

#[tokio::test]
async fn handed_over_unix_socket_stays_after_stop() {
    let name = bulkhead_access::random::base62(8).unwrap();
    let path = std::env::temp_dir().join(format!("bh-kept-{name}"));
    let socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let (mode, user, group) = (0o600, None, None);
    let (is_trusted_proxy, opens_metrics) = (false, false);
    let unix =
        UnixSettings { path: path.clone(), mode, user, group, is_trusted_proxy, opens_metrics };
    let config =
        ListenerConfig { address: None, unix: Some(unix), ..ListenerConfig::at("127.0.0.1:0") };
    let handed = ListenerSockets { tcp: None, unix: Some(HandedSocket { number: 3, socket }) };
    let log: Arc<dyn Log> = Arc::new(Quiet);
    let doors = BoundSocket::open_all(&config, handed, "with -x", &log).await.unwrap();
    let running = start_at(doors, ([127, 0, 0, 1], 0).into(), config);
    let mut stream = tokio::net::UnixStream::connect(&path).await.unwrap();
    stream.write_all(get("/v1/a").as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    running.stop.send(()).unwrap();
    assert_eq!(running.ended.await.unwrap(), COMPLETE);
    assert!(path.exists(), "the next server uses the same file");
    std::fs::remove_file(path).unwrap();
}

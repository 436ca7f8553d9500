//! Stops of a listener: new clients of a kept socket, unused connections, and cut ones.

use super::*;
use crate::handed_sockets::HandedSocket;

/// Starts a listener whose requests get `drain_time` after the stop.
async fn start_with_drain_time(drain_time: Duration) -> Running {
    let (socket, address) = bind("127.0.0.1:0", "with -x").await.unwrap();
    let config = ListenerConfig::at("127.0.0.1:0");
    let limits = ListenerLimits { drain_time, ..ListenerLimits::new(config, 64) };
    start_within(vec![BoundSocket::Tcp { socket, address, tls: None }], address, limits)
}

/// Waits until nothing is accepted and every connection knows of the stop.
pub(super) async fn await_closing(address: SocketAddr) {
    while TcpStream::connect(address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    // The runtime has one thread, and runs every task that can run before it comes back.
    for _ in 0..16 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn answer_after_stop_closes_its_connection() {
    let Running { address, gate, stop, ended } = start().await;
    let persistent = get("/v1/wait").replace("connection: close\r\n", "");
    let waiting = tokio::spawn(async move { exchange(address, &persistent).await });
    gate.entered.notified().await;
    stop.send(()).unwrap();
    await_closing(address).await;
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
    let Running { address, gate, stop, ended } = start().await;
    let mut fresh = TcpStream::connect(address).await.unwrap();
    // The answer shows that the older connection was accepted.
    assert!(exchange(address, &get("/v1/a")).await.contains(" 200 "));
    let waiting = tokio::spawn(async move { exchange(address, &get("/v1/wait")).await });
    gate.entered.notified().await;
    stop.send(()).unwrap();
    await_closing(address).await;
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
async fn clients_between_two_listeners_wait_in_kept_socket() {
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
async fn kept_unix_socket_stays_after_stop() {
    let name = bulkhead_access::random::base62(8).unwrap();
    let path = std::env::temp_dir().join(format!("bh-kept-{name}"));
    let socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let (mode, user, group, is_trusted_proxy) = (0o600, None, None, false);
    let unix = UnixSettings { path: path.clone(), mode, user, group, is_trusted_proxy };
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

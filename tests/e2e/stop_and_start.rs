//! A stop and a start that no client notices: the announcement at `sys/health`, requests in flight,
//! a second signal, notifications to a service manager, and a socket that a service manager hands
//! over.

use bulkhead_tests::bulkhead::ROOT;
use bulkhead_tests::operators::{Operators, uninitialised};
use bulkhead_tests::paths::{Folder, binary};
use bulkhead_tests::storage;
use bulkhead_tests::wait::{StopOnDrop, until_true};
use bulkhead_tests::{Bulkhead, Client};
use serde_json::json;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

/// Longest wait for a condition on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Number of clients that connect for each request.
const CLIENTS: usize = 8;
/// Number of answers before and after each restart.
const ANSWERS: usize = 100;
/// Number of refused connections after which a server is known to accept nothing.
const REFUSALS: usize = 20;

/// Text of a policy.
const POLICY: &str = r#"path "a" { capabilities = ["read"] }"#;

/// Starts and unseals a server with these settings of a stop, and returns a client with its root
/// token.
fn open_with(settings: &str) -> (Bulkhead, Operators, Client) {
    let data = Folder::new("stopped");
    let file = data.path().join("bulkhead.hcl");
    let storage = storage::block(data.path());
    let text = format!(
        "listener \"tcp\" {{ address = \"127.0.0.1:0\" }}\n\
         {storage}\n{settings}\n"
    );
    fs::write(&file, text).expect("a file can be written");
    let mut server = Bulkhead::prepared(binary(), data).configured(file);
    server.start_again();
    let operators = Operators::initialise(&server, 1, 1);
    operators.unseal(&server);
    let root = operators.root(&server);
    (server, operators, root)
}

/// Waits until `sys/health` announces the stop.
fn await_announcement(root: &Client) {
    until_true("the stop is announced", PATIENCE, || root.read("sys/health").status == 503);
}

#[test]
fn announced_stop_serves_until_second_signal() {
    let (mut server, operators, root) = open_with("shutdown_delay = \"10m\"");
    server.signal("TERM");
    await_announcement(&root);
    for query in ["", "?standbyok=true&activecode=200&sealedcode=200&haunhealthycode=200"] {
        let health = root.read(&format!("sys/health{query}")).expect(503);
        assert_eq!(
            (&health.body["stopping"], &health.body["sealed"]),
            (&true.into(), &false.into())
        );
    }
    root.send("HEAD", "sys/health", b"").expect(503);
    root.write("sys/policies/acl/late", &json!({ "policy": POLICY })).expect(204);
    // Another client connects anew.
    server.client(None).read("sys/seal-status").expect(200);
    server.wait_for_print("event=stopping signal=SIGTERM delay=10m");
    server.signal("INT");
    let status = server.ended(PATIENCE).expect("the process ends");
    assert_eq!(status.code(), Some(1), "{}", server.printed());
    server.wait_for_print("event=stopped-at-once signal=SIGINT");
    server.start_again();
    assert_eq!(server.client(None).read("sys/health").status, 503, "sealed, with its data");
    operators.unseal(&server);
    operators.root(&server).read("sys/policies/acl/late").expect(200);
}

#[test]
fn process_ends_with_success_after_delay() {
    let (mut server, _, root) = open_with("shutdown_delay = 1\nshutdown_timeout = 60");
    root.read("auth/token/lookup-self").expect(200);
    let start = Instant::now();
    server.signal("TERM");
    let status = server.ended(PATIENCE).expect("the process ends");
    assert!(start.elapsed() >= Duration::from_secs(1), "{}", server.printed());
    assert_eq!(status.code(), Some(0), "{}", server.printed());
    server.wait_for_print("delay=1s");
    let stopped = "event=stopped all-requests-answered=true connections-cut=0 store-closed=true";
    server.wait_for_print(stopped);
}

/// Sends the head of a request with a body of this length, waits until the server reads the body,
/// and returns the connection.
fn begin_request(server: &Bulkhead, path: &str, length: usize) -> TcpStream {
    let mut stream = TcpStream::connect(server.address()).expect("the server listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket takes the option");
    let head = format!(
        "POST /v1/{path} HTTP/1.1\r\nhost: x\r\nx-vault-token: {ROOT}\r\n\
         expect: 100-continue\r\ncontent-length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).expect("the server reads");
    let mut interim = [0; 25];
    stream.read_exact(&mut interim).expect("the server asks for the body");
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream
}

/// Waits until the server accepts no connection.
fn await_refusals(address: SocketAddr) {
    let mut refusals = 0;
    until_true("connections are refused", PATIENCE, || {
        refusals = if TcpStream::connect(address).is_ok() { 0 } else { refusals + 1 };
        refusals == REFUSALS
    });
}

#[test]
fn request_in_flight_is_answered_and_closes_connection() {
    let mut server = Bulkhead::start();
    let body = json!({ "policy": POLICY }).to_string();
    let mut stream = begin_request(&server, "sys/policies/acl/slow", body.len());
    server.signal("TERM");
    await_refusals(server.address());
    stream.write_all(body.as_bytes()).expect("the connection is open");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 204 "), "{answer}");
    assert!(answer.to_ascii_lowercase().contains("connection: close"), "{answer}");
    assert_eq!(server.ended(PATIENCE).and_then(|status| status.code()), Some(0));
    server.start_again();
    server.root().read("sys/policies/acl/slow").expect(200);
}

#[test]
fn requests_past_timeout_are_cut_and_counted() {
    let (mut server, _, root) = open_with("shutdown_timeout = 5");
    root.read("sys/health").expect(200);
    // The body never comes.
    let _stream = begin_request(&server, "sys/unseal", 100);
    // The stuck request is then the only connection.
    drop(root);
    server.signal("TERM");
    let status = server.ended(PATIENCE).expect("the process ends");
    assert_eq!(status.code(), Some(0), "{}", server.printed());
    server.wait_for_print("level=warn event=stopped all-requests-answered=false connections-cut=1");
}

/// The socket of a service manager, which reads every notification at once: the queue of such a
/// socket is short.
struct ManagerSocket {
    received: Receiver<String>,
    path: PathBuf,
    _folder: Folder,
}

impl ManagerSocket {
    fn new() -> Self {
        let folder = Folder::new("manager");
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).expect("a socket can be bound");
        let (sender, received) = mpsc::channel();
        thread::spawn(move || {
            let mut buffer = [0; 1024];
            while let Ok(length) = socket.recv(&mut buffer) {
                let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
                if sender.send(text).is_err() {
                    return;
                }
            }
        });
        Self { received, path, _folder: folder }
    }

    /// Receives until a notification contains `part`, for at most [`PATIENCE`], and returns that
    /// notification.
    #[track_caller]
    fn await_part(&self, part: &str) -> String {
        let start = Instant::now();
        loop {
            let left = PATIENCE.saturating_sub(start.elapsed());
            let received = self.received.recv_timeout(left);
            let text = received.unwrap_or_else(|error| panic!("no {part} arrived: {error}"));
            if text.contains(part) {
                return text;
            }
        }
    }
}

#[test]
fn service_manager_learns_of_readiness_state_and_stop() {
    let manager = ManagerSocket::new();
    let mut server = uninitialised();
    assert!(server.stop());
    let environment = [
        ("NOTIFY_SOCKET", manager.path.display().to_string()),
        ("WATCHDOG_USEC", "200000".to_owned()),
    ];
    server.start_with(&environment).expect("the server starts");
    manager.await_part("READY=1");
    manager.await_part("STATUS=not initialised");
    let operators = Operators::initialise(&server, 1, 1);
    manager.await_part("STATUS=sealed");
    operators.unseal(&server);
    manager.await_part("STATUS=unsealed");
    manager.await_part("WATCHDOG=1");
    server.signal("HUP");
    assert!(manager.await_part("RELOADING=1").contains("\nMONOTONIC_USEC="));
    manager.await_part("READY=1");
    server.signal("TERM");
    manager.await_part("STOPPING=1");
    assert_eq!(server.ended(PATIENCE).and_then(|status| status.code()), Some(0));
}

/// Looks up the root token over a new connection, and returns the status line.
fn look_up(address: SocketAddr) -> Result<String, String> {
    let mut stream = TcpStream::connect(address).map_err(|error| format!("connect: {error}"))?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(|error| error.to_string())?;
    let request = format!(
        "GET /v1/auth/token/lookup-self HTTP/1.1\r\nhost: x\r\nx-vault-token: {ROOT}\r\n\
         connection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).map_err(|error| format!("write: {error}"))?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(|error| format!("read: {error}"))?;
    Ok(answer.lines().next().unwrap_or_default().to_owned())
}

#[test]
fn restart_with_handed_over_socket_fails_no_request() {
    let socket = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = socket.local_addr().expect("a bound socket");
    let data = Folder::new("activated");
    let mut server = Bulkhead::prepared(binary(), data).activated_by(&socket);
    server.start_again();
    assert_eq!(server.address(), address);
    let (is_over, answered, failures) =
        (AtomicBool::new(false), AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        let _end = StopOnDrop(&is_over);
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    match look_up(address) {
                        Ok(line) if line == "HTTP/1.1 200 OK" => {
                            answered.fetch_add(1, Ordering::Relaxed);
                        }
                        other => failures.lock().expect("no client panicked").push(other),
                    }
                }
            });
        }
        let await_answers = || {
            let seen = answered.load(Ordering::Relaxed);
            until_true("requests are answered", PATIENCE, || {
                answered.load(Ordering::Relaxed) >= seen + ANSWERS
            });
        };
        await_answers();
        for _ in 0..3 {
            assert!(server.stop(), "{}", server.printed());
            server.start_again();
            await_answers();
        }
    });
    let failures = failures.into_inner().expect("no client panicked");
    assert!(failures.is_empty(), "{} failures: {:?}", failures.len(), failures.first());
}

#[test]
fn descriptor_without_listening_socket_ends_start() {
    let socket = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = socket.local_addr().expect("a bound socket");
    let stream = TcpStream::connect(address).expect("the socket listens");
    assert_refused(stream, "does not listen");
    assert_refused(fs::File::open("/dev/null").expect("a device"), "is not an open socket");
}

#[track_caller]
fn assert_refused(descriptor: impl Into<std::os::fd::OwnedFd>, reason: &str) {
    let mut server =
        Bulkhead::prepared(binary(), Folder::new("refused")).with_descriptor(descriptor);
    let status = server.start_with(&[]).expect_err("the start is refused");
    assert_eq!(status.code(), Some(1));
    server.wait_for_print("descriptor 3 of LISTEN_FDS");
    assert!(server.printed().contains(reason), "{}", server.printed());
}

#[test]
fn socket_open_to_machines_needs_tls_setting() {
    let socket = TcpListener::bind("0.0.0.0:0").expect("a free port");
    let mut server =
        Bulkhead::prepared(binary(), Folder::new("open")).in_production().activated_by(&socket);
    let status = server.start_with(&[]).expect_err("the start is refused");
    assert_eq!(status.code(), Some(1));
    server.wait_for_print("descriptor 3 of LISTEN_FDS: 0.0.0.0:");
    assert!(server.printed().contains("tls_disable"), "{}", server.printed());
}

//! Unauthenticated callers from several addresses of this machine: their effect on other addresses,
//! and their total cost to the server.

use crate::world::World;
use bulkhead_tests::operators::{Operators, seal_status, sealed};
use bulkhead_tests::paths::{Folder, binary, guest};
use bulkhead_tests::tls_client;
use bulkhead_tests::wait::until_true;
use bulkhead_tests::{Bulkhead, Socket};
use http_body_util::Empty;
use hyper::body::{Bytes, Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::{Value, json};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Longest time for an answer on a busy machine.
const SOON: Duration = Duration::from_secs(30);

/// Most memory growth by all unauthenticated callers together, in bytes.
const GROWTH_BY_STRANGERS: u64 = 200 << 20;

fn address(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 0, last)
}

/// Sends a write from an address on a new connection, and returns status and body.
fn write_from(server: &Bulkhead, from: Ipv4Addr, path: &str, body: &Value) -> (u16, Value) {
    let mut socket = Socket::open_from(server, from);
    let text = body.to_string();
    let length = text.len();
    socket.send(format!(
        "POST /v1/{path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
         content-length: {length}\r\n\r\n{text}"
    ));
    let answer = socket.until_closed(SOON).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    (status, serde_json::from_str(body).unwrap_or_default())
}

/// Stops the strangers of a test when dropped, also after a failed assertion.
struct StopStrangers<'a>(&'a AtomicBool);

impl Drop for StopStrangers<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn give_from(server: &Bulkhead, from: u8, operators: &Operators, index: usize) -> (u16, Value) {
    let share = json!({ "key": operators.keys[index] });
    write_from(server, address(from), "sys/unseal", &share)
}

#[test]
fn resets_and_bogus_shares_elsewhere_prevent_no_unseal() {
    let (server, operators) = sealed(5, 3);
    let stop = AtomicBool::new(false);
    let requests = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let number = requests.fetch_add(1, Ordering::Relaxed) % 5 + 1;
                let bogus = json!({ "key": format!("{}{number:02x}", "ab".repeat(32)) });
                write_from(&server, address(2), "sys/unseal", &json!({ "reset": true }));
                (0..3).for_each(|_| drop(write_from(&server, address(2), "sys/unseal", &bogus)));
            }
        });
        let strangers = StopStrangers(&stop);
        for (index, operator) in [10, 11, 12].into_iter().enumerate() {
            let before = requests.load(Ordering::Relaxed);
            until_true("the stranger asks", SOON, || requests.load(Ordering::Relaxed) > before + 3);
            let (status, answer) = give_from(&server, operator, &operators, index);
            assert_eq!((status, &answer["sealed"]), (200, &json!(index < 2)), "{answer}");
        }
        drop(strangers);
    });
    assert_eq!(seal_status(&server)["sealed"], false);
}

#[test]
fn operators_at_different_addresses_unseal_together_with_progress() {
    let (server, operators) = sealed(5, 3);
    let (_, first) = give_from(&server, 10, &operators, 0);
    let (_, second) = give_from(&server, 11, &operators, 1);
    assert_eq!((&first["progress"], &second["progress"]), (&json!(1), &json!(2)));
    assert_eq!(first["nonce"], second["nonce"], "both shares belong to one attempt");
    let (_, reset) = write_from(&server, address(11), "sys/unseal", &json!({ "reset": true }));
    assert_eq!(reset["progress"], 1, "{reset}");
    give_from(&server, 11, &operators, 3);
    let bogus = json!({ "key": format!("{}05", "ab".repeat(32)) });
    let (status, answer) = write_from(&server, address(12), "sys/unseal", &bogus);
    assert_eq!((status, &answer["progress"], &answer["sealed"]), (200, &json!(2), &json!(true)));
    assert!(answer["warnings"][0].as_str().is_some_and(|text| text.contains("wrong")), "{answer}");
    let (_, opened) = give_from(&server, 12, &operators, 4);
    assert_eq!((&opened["sealed"], &opened["progress"]), (&json!(false), &json!(0)), "{opened}");
    assert_eq!(opened.get("warnings"), None);
}

#[test]
fn unknown_user_logins_delay_no_other_address() {
    let world = World::empty();
    let (server, root) = (&world.bulkhead, &world.root);
    root.upload("sys/plugins/catalog/auth/passphrase", &guest("passphrase")).expect(204);
    root.write("sys/auth/up", &json!({ "type": "passphrase" })).expect(204);
    root.write("auth/up/users/amy", &json!({ "passphrase": "amy knows this" })).expect(204);
    let log_in = || {
        let begun = Instant::now();
        let body = json!({ "passphrase": "amy knows this" });
        let (status, answer) = write_from(server, address(1), "auth/up/login/amy", &body);
        assert_eq!(status, 200, "{answer}");
        begun.elapsed()
    };
    let alone = log_in();
    let (stop, requests) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for number in 0..200 {
            let (stop, requests) = (&stop, &requests);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let guess = json!({ "passphrase": "open barley" });
                    let path =
                        format!("auth/up/login/{}", requests.fetch_add(1, Ordering::Relaxed));
                    write_from(server, address(2 + number % 2), &path, &guess);
                }
            });
        }
        let strangers = StopStrangers(&stop);
        until_true("the queue is full of strangers", SOON, || {
            requests.load(Ordering::Relaxed) >= 200
        });
        let beside: Vec<Duration> = (0..3).map(|_| log_in()).collect();
        drop(strangers);
        println!("a login takes {alone:?} alone, and {beside:?} beside two hundred strangers");
        // A login waits for a hash of each of three addresses before each of two steps; plus a busy
        // machine.
        let most = alone * 12 + Duration::from_secs(2);
        assert!(beside.iter().all(|took| *took < most), "{beside:?}, and {alone:?} alone");
    });
}

fn connector(server: &Bulkhead) -> TlsConnector {
    let authority = CertificateDer::from_pem_file(server.authority())
        .expect("the server's authority is readable");
    tls_client::trust([authority], &["h2"])
}

/// A connection from an address, with a small receive buffer.
async fn connect(server: SocketAddr, from: Ipv4Addr) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(4 << 10).expect("a socket takes the option");
    socket.bind((from, 0).into()).expect("an address of this machine");
    socket.connect(server).await.expect("the server listens")
}

/// Open connections whose client does not read the answers.
#[derive(Default)]
struct UnreadAnswers {
    answers: Vec<hyper::Response<Incoming>>,
    senders: Vec<hyper::client::conn::http2::SendRequest<Empty<Bytes>>>,
    http1: Vec<TlsStream<TcpStream>>,
}

/// Requests a large document on 64 streams of a connection with a window of 0.
async fn ask_over_http2(stream: TlsStream<TcpStream>, untaken: &mut UnreadAnswers) {
    let builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(0)
        .max_concurrent_streams(64)
        .handshake(TokioIo::new(stream));
    let (mut sender, connection) = builder.await.expect("HTTP/2");
    tokio::spawn(async move { connection.await.unwrap_or_default() });
    for _ in 0..64 {
        let request = hyper::Request::get("https://localhost/v1/sys/internal/specs/openapi");
        let response = sender.send_request(request.body(Empty::new()).expect("a request"));
        // The server may close the connection.
        let Ok(answer) = response.await else { break };
        untaken.answers.push(answer);
    }
    untaken.senders.push(sender);
}

/// Opens connections from an address and leaves all answers unread.
async fn ask_from(server: SocketAddr, connector: TlsConnector, from: Ipv4Addr) -> UnreadAnswers {
    use tokio::io::AsyncWriteExt;
    let (mut untaken, name) = (UnreadAnswers::default(), ServerName::try_from("localhost"));
    let name = name.expect("a name");
    for _ in 0..8 {
        let stream = connector.connect(name.clone(), connect(server, from).await).await;
        ask_over_http2(stream.expect("a handshake"), &mut untaken).await;
    }
    let mut config = (**connector.config()).clone();
    config.alpn_protocols.clear();
    let connector = TlsConnector::from(Arc::new(config));
    for _ in 0..32 {
        let stream = connector.connect(name.clone(), connect(server, from).await).await;
        let mut stream = stream.expect("a handshake");
        let asks = "GET /v1/sys/internal/specs/openapi HTTP/1.1\r\nhost: x\r\n\r\n";
        stream.write_all(asks.as_bytes()).await.expect("the server reads");
        untaken.http1.push(stream);
    }
    untaken
}

#[test]
fn unread_answers_to_thirty_addresses_take_little_memory() {
    let mut server = Bulkhead::prepared(binary(), Folder::new("untaken")).over_tls();
    server.start_again();
    let connector = connector(&server);
    let before = server.memory();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let (untaken, most) = runtime.block_on(async {
        let mut asking = JoinSet::new();
        for last in 2..32 {
            asking.spawn(ask_from(server.address(), connector.clone(), address(last)));
        }
        let (mut untaken, mut most) = (Vec::new(), 0);
        while let Some(done) = asking.join_next().await {
            untaken.push(done.expect("the client sent its request"));
            most = most.max(server.memory());
        }
        (untaken, most)
    });
    let served = |untaken: &UnreadAnswers| {
        untaken.answers.iter().filter(|answer| answer.status().is_success()).count()
    };
    let (all, documents): (usize, usize) = (
        untaken.iter().map(|untaken| untaken.answers.len()).sum(),
        untaken.iter().map(served).sum(),
    );
    println!("{before} bytes before, {most} at most; {documents} documents of {all} answers");
    assert!(documents >= 30 * 16, "{documents} of {all} answers");
    assert!(most < before + GROWTH_BY_STRANGERS, "{before} bytes before, {most} at most");
    let newcomer = runtime.block_on(ask_from(server.address(), connector, address(40)));
    assert!(served(&newcomer) > 0, "a newcomer is served");
    drop(untaken);
}

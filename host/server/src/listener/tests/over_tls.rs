//! Connections over TLS, in both versions of HTTP, and attacks on the handshake and on HTTP/2.

use super::*;
use crate::tls::testing::TestAuthority;
use bulkhead_tls::{
    Authorities, ClientCertificates, ClientIdentity, ClientSettings, ClientStream,
    PeerVerification, ServerTlsSettings, TlsClient, TlsVersion, VersionRange, server_name,
};
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::net::Shutdown;
use std::time::Instant;

/// Longer than every timeout that a test waits for, even on a busy machine. Shorter than the 30 s
/// after which an unanswered ping closes a connection of HTTP/2.
const SOON: Duration = Duration::from_secs(20);

/// Timeout that a test waits for.
const SHORT: Duration = Duration::from_secs(1);

/// Timeouts longer than a test: a connection that closes has another reason.
const ENDLESS: ConnectionTimeouts = ConnectionTimeouts {
    handshake: Duration::from_secs(3_600),
    first_request: Duration::from_secs(3_600),
    read: Duration::from_secs(3_600),
};

pub(super) async fn start_tls(authority: &TestAuthority) -> Running {
    start_settings(authority.serve(&authority.sign(7))).await
}

async fn start_settings(settings: ServerTlsSettings) -> Running {
    let tls = tls::load(settings, &(Arc::new(Quiet) as Arc<dyn Log>), &Arc::default()).unwrap();
    start_with(ListenerConfig::at("127.0.0.1:0"), Some(tls)).await
}

async fn start_tls_within(
    authority: &TestAuthority,
    config: ListenerConfig,
    timeouts: ConnectionTimeouts,
) -> Running {
    let log = Arc::new(Quiet) as Arc<dyn Log>;
    let tls = Some(tls::load(authority.serve(&authority.sign(7)), &log, &Arc::default()).unwrap());
    let (socket, address) = bind("127.0.0.1:0", "with -x").await.unwrap();
    let limits = ListenerLimits { timeouts, ..ListenerLimits::new(config, 64) };
    start_within(
        vec![BoundSocket::Tcp { socket, address, tls, figures: Arc::default() }],
        address,
        limits,
    )
}

fn settings_for(authority: &TestAuthority, protocol: &'static str) -> ClientSettings {
    let trusted = Authorities::only(&[authority.der()]).unwrap();
    let settings = ClientSettings::new(PeerVerification::Full(trusted));
    ClientSettings { protocols: vec![protocol.as_bytes()], ..settings }
}

pub(super) fn client(authority: &TestAuthority, protocol: &'static str) -> TlsClient {
    settings_for(authority, protocol).client().unwrap()
}

pub(super) async fn connect(
    address: SocketAddr,
    client: TlsClient,
) -> io::Result<ClientStream<TcpStream>> {
    let stream = TcpStream::connect(address).await?;
    client.connect(server_name("localhost").unwrap(), stream).await
}

/// Returns the version of a connection, as the library shows it.
fn version(stream: &ClientStream<TcpStream>) -> String {
    format!("{:?}", stream.get_ref().1.protocol_version())
}

async fn exchange_over(stream: &mut ClientStream<TcpStream>, text: &str) -> io::Result<String> {
    stream.write_all(text.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(String::from_utf8(answer).unwrap())
}

pub(super) type Http2 = SendRequest<Empty<Bytes>>;

pub(super) async fn http2(
    address: SocketAddr,
    authority: &TestAuthority,
) -> (Http2, JoinHandle<()>) {
    let stream = connect(address, client(authority, "h2")).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    (sender, tokio::spawn(async move { connection.await.unwrap_or_default() }))
}

fn request2(path: &str) -> hyper::Request<Empty<Bytes>> {
    hyper::Request::builder().uri(format!("https://localhost{path}")).body(Empty::new()).unwrap()
}

#[tokio::test]
async fn tls_request_is_answered_over_both_http_versions() {
    let authority = TestAuthority::new();
    let running = start_tls(&authority).await;
    let mut stream = connect(running.address, client(&authority, "http/1.1")).await.unwrap();
    assert_eq!(version(&stream), "Some(TLSv1_3)");
    let answer = exchange_over(&mut stream, &get("/v1/a")).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    let (mut sender, connection) = http2(running.address, &authority).await;
    for path in ["/v1/a", "/v1/b"] {
        let answer = sender.send_request(request2(path)).await.unwrap();
        assert_eq!((answer.status().as_u16(), answer.version()), (200, hyper::Version::HTTP_2));
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        assert!(String::from_utf8_lossy(&body).contains(&format!("\"path\":\"{}\"", &path[4..])));
    }
    assert_eq!(sender.send_request(request2("/ui")).await.unwrap().status(), 404);
    assert_eq!(
        sender.send_request(request2("/v1/a")).await.unwrap().status(),
        200,
        "the connection stays open"
    );
    running.stop.send(()).unwrap();
    assert_eq!(running.ended.await.unwrap(), COMPLETE);
    connection.await.unwrap();
}

#[tokio::test]
async fn stop_finishes_http2_requests_in_flight() {
    let authority = TestAuthority::new();
    let Running { address, gate, stop, mut ended } = start_tls(&authority).await;
    let (mut sender, _connection) = http2(address, &authority).await;
    let waiting = tokio::spawn(sender.send_request(request2("/v1/wait")));
    gate.entered.notified().await;
    stop.send(()).unwrap();
    let early = tokio::time::timeout(Duration::from_millis(50), &mut ended).await;
    assert!(early.is_err(), "a request is in flight");
    gate.leave.notify_one();
    assert_eq!(waiting.await.unwrap().unwrap().status(), 200);
    assert_eq!(ended.await.unwrap(), COMPLETE);
}

#[tokio::test]
async fn handshake_after_stop_still_leads_to_answer() {
    let authority = TestAuthority::new();
    let config = ListenerConfig::at("127.0.0.1:0");
    let timeouts = ConnectionTimeouts {
        first_request: super::stops::FIRST_REQUEST,
        ..ConnectionTimeouts::default()
    };
    let Running { address, gate, stop, ended } =
        start_tls_within(&authority, config, timeouts).await;
    let fresh = TcpStream::connect(address).await.unwrap();
    // The request shows that the older connection was accepted.
    let (mut sender, _connection) = http2(address, &authority).await;
    let waiting = tokio::spawn(sender.send_request(request2("/v1/wait")));
    gate.entered.notified().await;
    let idle = connect(address, client(&authority, "http/1.1")).await.unwrap();
    let idle = super::stops::become_idle(idle).await;
    stop.send(()).unwrap();
    super::stops::await_closing(idle).await;
    let client = client(&authority, "http/1.1");
    let mut stream = client.connect(server_name("localhost").unwrap(), fresh).await.unwrap();
    let persistent = get("/v1/a").replace("close", "keep-alive");
    let answer = exchange_over(&mut stream, &persistent).await.unwrap();
    assert!(answer.contains(" 200 ") && answer.contains("connection: close"), "{answer}");
    gate.leave.notify_one();
    assert_eq!(waiting.await.unwrap().unwrap().status(), 200);
    assert_eq!(ended.await.unwrap(), COMPLETE);
}

#[tokio::test]
async fn http_on_tls_port_is_refused_with_reason() {
    let authority = TestAuthority::new();
    let running = start_tls(&authority).await;
    let answer = exchange(running.address, &get("/v1/a")).await;
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("write https://"), "{answer}");
}

#[tokio::test]
async fn connections_count_by_outcome_until_closed() {
    let authority = TestAuthority::new();
    let figures = Arc::<ListenerFigures>::default();
    let log = Arc::new(Quiet) as Arc<dyn Log>;
    let tls = tls::load(authority.serve(&authority.sign(7)), &log, &Arc::default()).unwrap();
    let (socket, address) = bind("127.0.0.1:0", "with -x").await.unwrap();
    let tls = Some(tls);
    let door = BoundSocket::Tcp { socket, address, tls, figures: Arc::clone(&figures) };
    let config = ListenerConfig { connections_per_address: 1, ..ListenerConfig::at("127.0.0.1:0") };
    let running = start_at(vec![door], address, config);
    exchange(address, &get("/v1/a")).await;
    while figures.read().open > 0 {
        tokio::task::yield_now().await;
    }
    let mut stream = connect(address, client(&authority, "http/1.1")).await.unwrap();
    stream.write_all(get("/v1/wait").as_bytes()).await.unwrap();
    running.gate.entered.notified().await;
    let reading = figures.read();
    assert_eq!((reading.accepted, reading.failed_handshakes, reading.open), (1, 1, 1));
    // The only connection of the client is busy.
    let mut refused = TcpStream::connect(address).await.unwrap();
    assert!(closes(&mut refused, SOON).await);
    assert_eq!((figures.read().refused, figures.read().waiting), (1, 0));
    running.gate.leave.notify_one();
    stream.read_to_end(&mut Vec::new()).await.unwrap();
    while figures.read().open > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn configured_tls_versions_are_served() {
    let authority = TestAuthority::new();
    let settings = authority.serve(&authority.sign(7));
    for (only, spoken) in
        [(TlsVersion::Tls12, "Some(TLSv1_2)"), (TlsVersion::Tls13, "Some(TLSv1_3)")]
    {
        let versions = VersionRange::new(only, only).unwrap();
        let running = start_settings(ServerTlsSettings { versions, ..settings.clone() }).await;
        let stream = connect(running.address, client(&authority, "h2")).await.unwrap();
        assert_eq!(version(&stream), spoken);
    }
}

#[tokio::test]
async fn client_without_required_certificate_is_served_nothing() {
    let (authority, of_clients) = (TestAuthority::new(), TestAuthority::new());
    let settings = ServerTlsSettings {
        clients: ClientCertificates::Required(of_clients.ca_file()),
        ..authority.serve(&authority.sign(7))
    };
    let running = start_settings(settings).await;
    // In TLS 1.3 a client learns of the refusal only with the first answer.
    let asks = async |client| {
        let mut stream = connect(running.address, client).await?;
        exchange_over(&mut stream, &get("/v1/a")).await
    };
    assert!(asks(client(&authority, "http/1.1")).await.is_err());
    for (signer, is_served) in [(&of_clients, true), (&authority, false)] {
        let signed = signer.sign(7);
        let (chain, key) = (signed.certificate.as_bytes(), signed.key.expose().as_bytes());
        let identity = Some(ClientIdentity::parse(chain, key, ["certificate", "key"]).unwrap());
        let settings = ClientSettings { identity, ..settings_for(&authority, "http/1.1") };
        assert_eq!(asks(settings.client().unwrap()).await.is_ok(), is_served);
    }
}

/// Waits until the server closes the connection. Returns whether the server did so in time.
async fn closes(stream: &mut (impl AsyncReadExt + Unpin), within: Duration) -> bool {
    let mut rest = Vec::new();
    tokio::time::timeout(within, stream.read_to_end(&mut rest)).await.is_ok()
}

#[tokio::test]
async fn handshake_past_time_limit_is_given_up() {
    let authority = TestAuthority::new();
    let timeouts = ConnectionTimeouts { handshake: SHORT, ..ENDLESS };
    let running = start_tls_within(&authority, ListenerConfig::at("127.0.0.1:0"), timeouts).await;
    let begun = Instant::now();
    let (mut silent, mut halfway) = (
        TcpStream::connect(running.address).await.unwrap(),
        TcpStream::connect(running.address).await.unwrap(),
    );
    // The head of a record that announces a hello of 512 bytes.
    halfway.write_all(&[22, 3, 1, 2, 0, 1, 0]).await.unwrap();
    let (silent, halfway) = tokio::join!(closes(&mut silent, SOON), closes(&mut halfway, SOON));
    assert!(silent && halfway && begun.elapsed() >= SHORT);
}

#[tokio::test]
async fn half_open_handshakes_fill_own_slots_and_yield() {
    let authority = TestAuthority::new();
    let config = ListenerConfig { connections_per_address: 2, ..ListenerConfig::at("127.0.0.1:0") };
    let running = start_tls_within(&authority, config, ENDLESS).await;
    let mut first = TcpStream::connect(running.address).await.unwrap();
    let _second = TcpStream::connect(running.address).await.unwrap();
    let mut stream = connect(running.address, client(&authority, "http/1.1")).await.unwrap();
    assert!(exchange_over(&mut stream, &get("/v1/a")).await.unwrap().contains(" 200 "));
    assert!(closes(&mut first, SOON).await, "before its time was over");
}

#[tokio::test]
async fn stopping_waits_for_no_handshake() {
    let authority = TestAuthority::new();
    let running = start_tls_within(&authority, ListenerConfig::at("127.0.0.1:0"), ENDLESS).await;
    let halfway = TcpStream::connect(running.address).await.unwrap();
    halfway.into_std().unwrap().shutdown(Shutdown::Read).unwrap();
    running.stop.send(()).unwrap();
    assert_eq!(running.ended.await.unwrap(), COMPLETE, "a handshake has an hour");
}

/// Builds an HTTP/2 frame.
fn frame(kind: u8, flags: u8, stream: u32, content: &[u8]) -> Vec<u8> {
    let length = u32::try_from(content.len()).unwrap().to_be_bytes();
    let mut all = length[1..].to_vec();
    all.extend([kind, flags]);
    all.extend(stream.to_be_bytes());
    all.extend(content);
    all
}

const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// Opens a connection for hand-written HTTP/2 with the given settings.
async fn by_hand(
    address: SocketAddr,
    authority: &TestAuthority,
    settings: &[u8],
) -> ClientStream<TcpStream> {
    let mut stream = connect(address, client(authority, "h2")).await.unwrap();
    let mut begin = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    begin.extend(frame(SETTINGS, 0, 0, settings));
    stream.write_all(&begin).await.unwrap();
    stream
}

/// Encodes `GET https://x/v1/<path>` with indices of HPACK's static table.
fn get2(path: &str) -> Vec<u8> {
    let path = format!("/v1/{path}");
    let mut head = vec![0x82, 0x87, 0x41, 1, b'x', 0x44, u8::try_from(path.len()).unwrap()];
    head.extend(path.as_bytes());
    head
}

#[tokio::test]
async fn streams_reset_at_once_end_connection() {
    let authority = TestAuthority::new();
    let running = start_tls(&authority).await;
    let stream = by_hand(running.address, &authority, &[]).await;
    let (mut reads, mut writes) = tokio::io::split(stream);
    let ended = tokio::spawn(async move { closes(&mut reads, SOON).await });
    let mut flood = Vec::new();
    for stream in (1..20_001).step_by(2) {
        flood.extend(frame(HEADERS, END_STREAM | END_HEADERS, stream, &get2("wait")));
        flood.extend(frame(RESET, 0, stream, &[0, 0, 0, 8]));
    }
    // The server may close the connection during the write.
    writes.write_all(&flood).await.unwrap_or_default();
    assert!(ended.await.unwrap(), "ten thousand resets are served");
    assert!(exchange_tls(&running, &authority).await.contains(" 200 "));
}

async fn exchange_tls(running: &Running, authority: &TestAuthority) -> String {
    let mut stream = connect(running.address, client(authority, "http/1.1")).await.unwrap();
    exchange_over(&mut stream, &get("/v1/a")).await.unwrap()
}

#[tokio::test]
async fn a_head_without_end_ends_the_connection() {
    let authority = TestAuthority::new();
    let running = start_tls(&authority).await;
    let stream = by_hand(running.address, &authority, &[]).await;
    let (mut reads, mut writes) = tokio::io::split(stream);
    let ended = tokio::spawn(async move { closes(&mut reads, SOON).await });
    let mut flood = frame(HEADERS, END_STREAM, 1, &get2("a"));
    // A header with a name and a value of 1 byte each, repeated.
    let more = frame(CONTINUATION, 0, 1, &[0, 1, b'a', 1, b'b'].repeat(3_000));
    (0..200).for_each(|_| flood.extend(&more));
    writes.write_all(&flood).await.unwrap_or_default();
    assert!(ended.await.unwrap(), "three megabytes of headers are taken");
    assert!(exchange_tls(&running, &authority).await.contains(" 200 "));
}

#[tokio::test]
async fn excess_headers_over_http2_are_431() {
    let authority = TestAuthority::new();
    let running = start_tls(&authority).await;
    let (mut sender, _connection) = http2(running.address, &authority).await;
    for (count, length) in [(101, 1), (10, 4_000)] {
        let mut request = request2("/v1/a");
        for number in 0..count {
            let name: hyper::header::HeaderName = format!("x-{number}").parse().unwrap();
            request.headers_mut().insert(name, "a".repeat(length).parse().unwrap());
        }
        let answer = sender.send_request(request).await.unwrap();
        assert_eq!(answer.status(), 431, "{count} of {length} bytes");
    }
    assert_eq!(sender.send_request(request2("/v1/a")).await.unwrap().status(), 200);
}

#[tokio::test]
async fn caller_without_token_has_few_untaken_answers() {
    let authority = TestAuthority::new();
    let running = start_tls(&authority).await;
    let stream = connect(running.address, client(&authority, "h2")).await.unwrap();
    let (mut sender, connection): (Http2, _) =
        hyper::client::conn::http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(1)
            .handshake(TokioIo::new(stream))
            .await
            .unwrap();
    tokio::spawn(async move { connection.await.unwrap_or_default() });
    let mut untaken = Vec::new();
    for _ in 0..16 {
        untaken.push(sender.send_request(request2("/v1/large")).await.unwrap());
    }
    assert!(untaken.iter().all(|answer| answer.status() == 200));
    let refused = sender.send_request(request2("/v1/a")).await.unwrap();
    assert_eq!(refused.status().as_u16(), 429);
    assert_eq!(refused.headers()["retry-after"], "1");
    let mut with_token = request2("/v1/a");
    with_token.headers_mut().insert("x-vault-token", "bhs.t".parse().unwrap());
    assert_eq!(sender.send_request(with_token).await.unwrap().status(), 200);
}

#[tokio::test]
async fn unread_answers_cost_oldest_connection_in_both_protocols() {
    let authority = TestAuthority::new();
    let running = start_tls_within(&authority, ListenerConfig::at("127.0.0.1:0"), ENDLESS).await;
    let mut connections = Vec::new();
    // 16 MiB on each HTTP/2 connection, and 8 MiB on each HTTP/1.1 connection.
    for _ in 0..3 {
        let mut stream = by_hand(running.address, &authority, &[0, 4, 0, 0, 0, 0]).await;
        for number in (1..32).step_by(2) {
            let asks = frame(HEADERS, END_STREAM | END_HEADERS, number, &get2("large"));
            stream.write_all(&asks).await.unwrap();
        }
        connections.push(stream);
        assert!(exchange_tls(&running, &authority).await.contains(" 200 "));
    }
    for _ in 0..4 {
        let mut stream = connect(running.address, client(&authority, "http/1.1")).await.unwrap();
        stream.write_all(get("/v1/huge").as_bytes()).await.unwrap();
        connections.push(stream);
    }
    let mut first = connections.remove(0);
    assert!(closes(&mut first, SOON).await, "the one that waited longest, before its time is over");
    let mut answer = Vec::new();
    connections.pop().unwrap().read_to_end(&mut answer).await.unwrap();
    assert!(answer.len() > 8 * LARGE, "the latest answer is sent: {} bytes", answer.len());
}

#[tokio::test]
async fn untaken_http2_answer_ends_connection() {
    let authority = TestAuthority::new();
    let timeouts = ConnectionTimeouts { read: SHORT, ..ENDLESS };
    let running = start_tls_within(&authority, ListenerConfig::at("127.0.0.1:0"), timeouts).await;
    // SETTINGS_INITIAL_WINDOW_SIZE is 0: the server may send no byte of a body.
    let mut stream = by_hand(running.address, &authority, &[0, 4, 0, 0, 0, 0]).await;
    let begun = Instant::now();
    // Larger than the buffers of HTTP/2, which take a small answer at once.
    let asks = frame(HEADERS, END_STREAM | END_HEADERS, 1, &get2("large"));
    stream.write_all(&asks).await.unwrap();
    assert!(closes(&mut stream, SOON).await);
    assert!(begun.elapsed() >= SHORT, "a slow client has its time");
}

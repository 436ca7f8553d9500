//! Exchanges with real servers on this machine, most of them hostile.

use super::fault::ProxyFault;
use super::*;
use crate::addresses::AllowedAddresses;
use crate::connections::MountConnections;
use crate::limits;
use crate::proxy::HttpProxy;
use crate::tls::TlsConfigs;
use bulkhead_tls::TlsFault;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;

const TEST_TIMEOUT: Duration = Duration::from_secs(15);
const AUTHORITY: &str = include_str!("fixtures/authority.pem");
const OTHER_AUTHORITY: &str = include_str!("fixtures/other-authority.pem");
const SERVER: &str = include_str!("fixtures/server.pem");
const SERVER_KEY: &str = include_str!("fixtures/server.key");
const ELSEWHERE: &str = include_str!("fixtures/elsewhere.pem");
const EXPIRED: &str = include_str!("fixtures/expired.pem");
const CLIENT: &str = include_str!("fixtures/client.pem");
const CLIENT_KEY: &str = include_str!("fixtures/client.key");

/// A request and its limits.
struct Trial {
    url: String,
    body: Vec<u8>,
    tls: Option<HttpTls>,
    proxy: Option<Arc<HttpProxy>>,
    /// Trusted in addition to the public authorities.
    authorities: Vec<CertificateDer<'static>>,
    time: Duration,
    most_bytes: usize,
    reach: AllowedAddresses,
    /// Idle connections and the mount of the request. `None`: the request is a change.
    kept: Option<(Arc<ConnectionPool>, &'static str)>,
}

impl Trial {
    fn of(url: impl Into<String>) -> Self {
        let reach = AllowedAddresses { everything: true, ..AllowedAddresses::within(&[]) };
        Self {
            url: url.into(),
            body: Vec::new(),
            tls: None,
            proxy: None,
            authorities: Vec::new(),
            time: TEST_TIMEOUT,
            most_bytes: 64 << 20,
            reach,
            kept: None,
        }
    }

    /// Returns the answer, and whether the call's bytes are over the limit.
    async fn run(self) -> (Result<HttpAnswer, HttpFault>, bool) {
        let (origin, uri) = parse_url(&self.url).unwrap();
        let header = HttpHeader { name: "x-test".to_owned(), value: "1".to_owned() };
        let request = HttpRequest {
            method: "POST".to_owned(),
            url: self.url,
            headers: vec![header],
            body: self.body,
            tls: self.tls,
            secrets: Vec::new(),
            safe: false,
        };
        let tls = request.tls.as_ref();
        let secured = tls_settings(&TlsConfigs::new(&self.authorities), &origin, tls).unwrap();
        let keeping = self.kept.map(|(pool, mount)| ConnectionReuse {
            kept: pool,
            purpose: HttpPoolKey::of(mount, &origin, tls),
        });
        let request = prepare(&origin, uri, request).unwrap();
        let connections = Arc::new(MountConnections::default());
        let connection = connections.acquire(1, Arc::new(Semaphore::new(1))).await.unwrap();
        let meter = ByteMeter::new(&Arc::default(), self.most_bytes);
        let until = Instant::now() + self.time;
        let http_exchange = HttpExchange {
            origin,
            reach: self.reach,
            proxy: self.proxy,
            secured,
            until,
            meter: meter.clone(),
            connection,
            keeping,
        };
        (exchange(http_exchange, request).await, meter.is_over())
    }

    async fn fault(self) -> HttpFault {
        self.run().await.0.err().expect("the request fails")
    }
}

/// Starts a server with the same behaviour on every connection. Returns its port.
async fn server<F: Future<Output = io::Result<()>> + Send + 'static>(
    serve: impl Fn(TcpStream) -> F + Send + 'static,
) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // The task ends when its client closes the connection.
            tokio::spawn(serve(stream));
        }
    });
    port
}

/// Reads the head of a request.
async fn head(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<String> {
    let mut text = Vec::new();
    while !text.ends_with(b"\r\n\r\n") {
        text.push(stream.read_u8().await?);
    }
    Ok(String::from_utf8(text).unwrap())
}

async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin, text: &[u8]) -> io::Result<()> {
    head(&mut stream).await?;
    stream.write_all(text).await?;
    stream.shutdown().await
}

/// Starts a server that answers with `text`. Returns its URL.
async fn answering(text: impl Into<Vec<u8>>) -> String {
    let text: Arc<[u8]> = text.into().into();
    let port = server(move |stream| {
        let text = Arc::clone(&text);
        async move { answer(stream, &text).await }
    })
    .await;
    format!("http://127.0.0.1:{port}/")
}

/// Starts a server with an endless answer. Returns its URL.
async fn endless(begin: &'static [u8], again: &'static [u8], pause: Duration) -> String {
    let port = server(move |mut stream| async move {
        head(&mut stream).await?;
        stream.write_all(begin).await?;
        loop {
            stream.write_all(again).await?;
            tokio::time::sleep(pause).await;
        }
    })
    .await;
    format!("http://127.0.0.1:{port}/")
}

#[tokio::test]
async fn an_answer_comes_whole_however_it_is_framed() {
    for (text, status, body) in [
        ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi", 200, "hi"),
        (
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n\
             1\r\nh\r\n1\r\ni\r\n0\r\nx: y\r\n\r\n",
            200,
            "hi",
        ),
        ("HTTP/1.0 200 OK\r\n\r\nhi", 200, "hi"),
        ("HTTP/1.1 204 No Content\r\n\r\n", 204, ""),
        ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 No\r\ncontent-length: 0\r\n\r\n", 404, ""),
        (
            "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n",
            302,
            "",
        ),
        ("HTTP/1.1 999 What\r\ncontent-length: 0\r\n\r\n", 999, ""),
        // Chunked encoding takes precedence over the length. Bytes after the chunks are not read,
        // because the connection is not reused.
        (
            "HTTP/1.1 200 OK\r\ncontent-length: 9\r\ntransfer-encoding: chunked\r\n\r\n\
             2\r\nhi\r\n0\r\n\r\nHTTP/1.1 500 \r\n\r\n",
            200,
            "hi",
        ),
    ] {
        let answered = Trial::of(answering(text).await).run().await.0.unwrap();
        assert_eq!((answered.status, answered.body.as_ref()), (status, body.as_bytes()), "{text}");
    }
    let answered =
        Trial::of(answering("HTTP/1.1 200 OK\r\nX-A: \u{fc}\r\ncontent-length: 0\r\n\r\n").await)
            .run()
            .await;
    let headers = answered.0.unwrap().headers;
    assert!(headers.contains(&("x-a".to_owned(), "\u{fc}".to_owned())), "{headers:?}");
}

#[tokio::test]
async fn malformed_answers_have_distinct_faults() {
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "x: 1\r\n".repeat(200));
    let large = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "x".repeat(100_000));
    for (text, fault) in [
        ("", HttpFault::CutShort),
        ("HTTP/1.1 200 OK\r\ncontent-le", HttpFault::CutShort),
        ("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhi", HttpFault::CutShort),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n9\r\nhi", HttpFault::CutShort),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nnothing\r\n", HttpFault::NotHttp),
        (
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
            HttpFault::NotHttp,
        ),
        ("HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nhi", HttpFault::NotHttp),
        ("HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n", HttpFault::NotHttp),
        ("HTTP/1.1 20 OK\r\n\r\n", HttpFault::NotHttp),
        (
            "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
            HttpFault::NotHttp,
        ),
        ("SSH-2.0-OpenSSH_9.2\r\n\r\n", HttpFault::NotHttp),
        (many.as_str(), HttpFault::NotHttp),
        (large.as_str(), HttpFault::NotHttp),
    ] {
        let actual_fault = Trial::of(answering(text).await).fault().await;
        assert_eq!(actual_fault, fault, "{:.60}", text);
    }
}

#[tokio::test]
async fn endless_answer_ends_by_size_time_or_bytes() {
    let closed = b"HTTP/1.1 200 OK\r\n\r\n";
    let flood = b"0123456789abcdef".repeat(4_096).leak();
    let url = endless(closed, flood, Duration::ZERO).await;
    assert_eq!(Trial::of(&url).fault().await, HttpFault::TooLarge);

    let began = Instant::now();
    let url = endless(closed, b"x", Duration::from_millis(20)).await;
    let drip = Trial { time: Duration::from_millis(300), ..Trial::of(url) };
    assert_eq!(drip.fault().await, HttpFault::TimedOut);
    assert!(began.elapsed() < TEST_TIMEOUT / 3);

    let interim = b"HTTP/1.1 100 Continue\r\n\r\n".repeat(1_000).leak();
    let url = endless(b"", interim, Duration::ZERO).await;
    let (done, is_over) = Trial { most_bytes: 1 << 20, ..Trial::of(url) }.run().await;
    assert!(done.is_err() && is_over, "interim answers are counted");

    let url = answering("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi").await;
    let (done, is_over) =
        Trial { body: vec![b'x'; 2 << 20], most_bytes: 1 << 20, ..Trial::of(url) }.run().await;
    assert!(done.is_err() && is_over, "sent bytes count towards the limit");
}

#[tokio::test]
async fn ungranted_and_forbidden_addresses_are_not_dialled() {
    let port = server(|_| async { Ok(()) }).await;
    let within = |networks: &[&str]| {
        let networks = networks.iter().map(|range| range.parse().unwrap()).collect();
        AllowedAddresses { networks, everything: false, ..Trial::of("").reach }
    };
    for url in [
        format!("http://127.0.0.1:{port}/"),
        format!("http://localhost:{port}/"),
        format!("http://127.1:{port}/"),
    ] {
        let refused = Trial { reach: within(&["10.0.0.0/8"]), ..Trial::of(&url) }.fault().await;
        assert!(matches!(refused, HttpFault::Ungranted(..)), "{url}: {refused:?}");
    }
    let ours =
        AllowedAddresses { own: Arc::new([([127, 0, 0, 1], port).into()]), ..Trial::of("").reach };
    let refused =
        Trial { reach: ours, ..Trial::of(format!("http://localhost:{port}/")) }.fault().await;
    assert!(matches!(refused, HttpFault::Forbidden(_)), "{refused:?}");
    let refused = Trial::of("http://[::ffff:169.254.169.254]/").fault().await;
    assert!(matches!(refused, HttpFault::Forbidden(_)), "{refused:?}");
    assert_eq!(Trial::of("http://no-such-name.invalid/").fault().await, HttpFault::Unknown);
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let refused = Trial::of(format!("http://{gone}/")).fault().await;
    assert_eq!(refused, HttpFault::Broken(io::ErrorKind::ConnectionRefused));
}

/// Starts a TLS server with `certificate`. `asks`: the server requires a client certificate.
/// Returns its port.
async fn tls_server(certificate: &str, asks: bool) -> u16 {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions();
    let config = match asks {
        false => config.unwrap().with_no_client_auth(),
        true => {
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from_pem_slice(AUTHORITY.as_bytes()).unwrap()).unwrap();
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            config.unwrap().with_client_cert_verifier(verifier.unwrap())
        }
    };
    let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(SERVER_KEY.as_bytes()).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config.with_single_cert(chain, key).unwrap()));
    server(move |stream| {
        let acceptor = acceptor.clone();
        async move {
            answer(
                acceptor.accept(stream).await?,
                b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi",
            )
            .await
        }
    })
    .await
}

fn trusting(roots: &str) -> HttpTls {
    HttpTls {
        root_certificates: Some(roots.to_owned()),
        client_certificate: None,
        client_key: None,
        server_name: None,
    }
}

async fn secured_with(port: u16, tls: Option<HttpTls>) -> Result<u16, HttpFault> {
    let trial = Trial { tls, ..Trial::of(format!("https://localhost:{port}/")) };
    trial.run().await.0.map(|answered| answered.status)
}

#[tokio::test]
async fn server_certificate_must_match_name_and_given_authority() {
    let port = tls_server(SERVER, false).await;
    assert_eq!(secured_with(port, Some(trusting(AUTHORITY))).await, Ok(200));
    let both = format!("{OTHER_AUTHORITY}{AUTHORITY}");
    assert_eq!(secured_with(port, Some(trusting(&both))).await, Ok(200));
    let address =
        Trial { tls: Some(trusting(AUTHORITY)), ..Trial::of(format!("https://127.0.0.1:{port}/")) };
    assert_eq!(address.run().await.0.unwrap().status, 200);
    let unknown = Err(HttpFault::Tls(TlsFault::UnknownIssuer));
    assert_eq!(secured_with(port, None).await, unknown, "the public roots did not sign it");
    assert_eq!(secured_with(port, Some(trusting(OTHER_AUTHORITY))).await, unknown);

    let port = tls_server(EXPIRED, false).await;
    assert_eq!(
        secured_with(port, Some(trusting(AUTHORITY))).await,
        Err(HttpFault::Tls(TlsFault::Expired))
    );

    let port = tls_server(ELSEWHERE, false).await;
    assert_eq!(
        secured_with(port, Some(trusting(AUTHORITY))).await,
        Err(HttpFault::Tls(TlsFault::WrongName))
    );
    let named =
        HttpTls { server_name: Some("elsewhere.example".to_owned()), ..trusting(AUTHORITY) };
    assert_eq!(
        secured_with(port, Some(named)).await,
        Ok(200),
        "the server name may differ from the host"
    );
}

#[tokio::test]
async fn client_certificate_is_presented_on_request() {
    let port = tls_server(SERVER, true).await;
    let shown = HttpTls {
        client_certificate: Some(CLIENT.to_owned()),
        client_key: Some(CLIENT_KEY.to_owned()),
        ..trusting(AUTHORITY)
    };
    assert_eq!(secured_with(port, Some(shown)).await, Ok(200));
    let missing = secured_with(port, Some(trusting(AUTHORITY))).await.unwrap_err();
    // The end of the connection may arrive before the alert.
    let is_told = matches!(
        missing,
        HttpFault::Tls(TlsFault::CertificateRequired) | HttpFault::Broken(_) | HttpFault::CutShort
    );
    assert!(is_told, "{missing:?}");
}

#[tokio::test]
async fn outdated_tls_is_refused() {
    for (said, fault) in [
        (&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], TlsFault::NotTls),
        // A fatal alert "protocol version", as sent by an old server.
        (&[0x15, 3, 2, 0, 2, 2, 70], TlsFault::NothingInCommon),
        (&[0x15, 3, 3, 0, 2, 2, 40], TlsFault::CertificateRequired),
    ] {
        let port = server(move |mut stream| async move {
            stream.read_u8().await?;
            stream.write_all(said).await?;
            // Read to the end, so that the connection stays open until the client has read the
            // alert.
            let mut rest = Vec::new();
            stream.read_to_end(&mut rest).await.map(drop)
        })
        .await;
        assert_eq!(secured_with(port, None).await, Err(HttpFault::Tls(fault)));
    }
}

#[test]
fn ineffective_tls_settings_are_refused_without_quoting_key() {
    let (origin, _) = parse_url("https://localhost/").unwrap();
    let (plain, _) = parse_url("http://localhost/").unwrap();
    let half = HttpTls { client_key: Some(CLIENT_KEY.to_owned()), ..trusting(AUTHORITY) };
    let mixed = HttpTls {
        client_certificate: Some(CLIENT.to_owned()),
        client_key: Some(SERVER_KEY.to_owned()),
        ..trusting(AUTHORITY)
    };
    let long = "x".repeat(100_000);
    for (origin, tls, says) in [
        (&plain, trusting(AUTHORITY), "without https://"),
        (&origin, trusting(""), "holds no certificate"),
        (
            &origin,
            trusting("-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n"),
            "is not PEM",
        ),
        (&origin, trusting(&long), "64 KiB"),
        (&origin, half, "together"),
        (&origin, mixed, "do not belong together"),
        (
            &origin,
            HttpTls { server_name: Some("a b".to_owned()), ..trusting(AUTHORITY) },
            "not a name of a host",
        ),
    ] {
        let why = tls_settings(&TlsConfigs::new(&[]), origin, Some(&tls)).err().unwrap();
        assert!(why.contains(says) && !why.contains("PRIVATE"), "{why}");
    }
}

/// Starts a proxy to the server at `port`. Also returns the list of heads that the proxy received.
async fn proxy_to(port: u16) -> (Arc<HttpProxy>, Arc<Mutex<Vec<String>>>) {
    let requests = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&requests);
    let own = server(move |mut stream| {
        let log = Arc::clone(&log);
        async move {
            let head = head(&mut stream).await?;
            let connects = head.starts_with("CONNECT ");
            log.lock().unwrap().push(head.clone());
            let mut other = TcpStream::connect(("127.0.0.1", port)).await?;
            match connects {
                true => stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?,
                false => other.write_all(head.as_bytes()).await?,
            }
            tokio::io::copy_bidirectional(&mut stream, &mut other).await.map(drop)
        }
    })
    .await;
    (proxy_at(own), requests)
}

fn proxy_at(port: u16) -> Arc<HttpProxy> {
    Arc::new(HttpProxy::parse(&format!("http://user:hunter2@127.0.0.1:{port}")).unwrap())
}

#[tokio::test]
async fn proxy_sees_name_and_credentials_hidden_from_server() {
    let authority = CertificateDer::from_pem_slice(AUTHORITY.as_bytes()).unwrap();
    let (proxy, requests) = proxy_to(tls_server(ELSEWHERE, false).await).await;
    let url = "https://elsewhere.example/path?secret";
    let proxied = |proxy: &Arc<HttpProxy>, url: &str| Trial {
        proxy: Some(Arc::clone(proxy)),
        authorities: vec![authority.clone()],
        ..Trial::of(url)
    };
    assert_eq!(proxied(&proxy, url).run().await.0.unwrap().status, 200);
    let unknown = Trial { authorities: Vec::new(), ..proxied(&proxy, url) }.fault().await;
    assert_eq!(unknown, HttpFault::Tls(TlsFault::UnknownIssuer));
    let own = Trial { tls: Some(trusting(OTHER_AUTHORITY)), ..proxied(&proxy, url) };
    assert_eq!(
        own.fault().await,
        HttpFault::Tls(TlsFault::UnknownIssuer),
        "only the component's own authorities are trusted"
    );
    let requests = requests.lock().unwrap().clone();
    assert!(requests[0].starts_with("CONNECT elsewhere.example:443 HTTP/1.1\r\n"), "{requests:?}");
    assert!(
        requests[0].contains("proxy-authorization: Basic dXNlcjpodW50ZXIy\r\n"),
        "{requests:?}"
    );
    assert!(
        !requests.concat().contains("secret"),
        "a proxied request never shows its secret to the proxy"
    );

    let port = server(|stream| answer(stream, b"HTTP/1.1 204 No\r\n\r\n")).await;
    let (proxy, requests) = proxy_to(port).await;
    let plain = proxied(&proxy, "http://no-such-name.invalid:81/a?b").run().await.0.unwrap();
    assert_eq!(plain.status, 204);
    let requests = requests.lock().unwrap().concat();
    assert!(
        requests.starts_with("POST http://no-such-name.invalid:81/a?b HTTP/1.1\r\n"),
        "{requests}"
    );
}

#[tokio::test]
async fn failing_proxies_have_distinct_faults_and_time_out() {
    let large = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "x".repeat(100_000));
    for (text, fault) in [
        ("HTTP/1.1 407 No\r\ncontent-length: 0\r\n\r\n", ProxyFault::Refused(407)),
        ("HTTP/1.1 403 No\r\ncontent-length: 99999999\r\n\r\nx", ProxyFault::Refused(403)),
        ("HTTP/1.1 502 No\r\n\r\n", ProxyFault::Refused(502)),
        ("HTTP/1.1 101 Switching\r\nupgrade: x\r\n\r\n", ProxyFault::Refused(101)),
        ("SSH-2.0-OpenSSH_9.2\r\n\r\n", ProxyFault::NotHttp),
        (large.as_str(), ProxyFault::NotHttp),
        ("", ProxyFault::Broken(io::ErrorKind::UnexpectedEof)),
    ] {
        let text: Arc<[u8]> = text.as_bytes().into();
        let port = server(move |stream| {
            let text = Arc::clone(&text);
            async move { answer(stream, &text).await }
        })
        .await;
        let trial = Trial { proxy: Some(proxy_at(port)), ..Trial::of("https://a.example/") };
        let actual_fault = trial.fault().await;
        assert_eq!(actual_fault, HttpFault::Proxy(fault));
        let shown = format!("{actual_fault} {actual_fault:?} {:?}", actual_fault.failure());
        assert!(!shown.contains("hunter2") && !shown.contains("dXNl"), "{shown}");
    }
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let trial = Trial { proxy: Some(proxy_at(gone.port())), ..Trial::of("https://a.example/") };
    let refused = ProxyFault::Broken(io::ErrorKind::ConnectionRefused);
    assert_eq!(trial.fault().await, HttpFault::Proxy(refused));
    let port = server(|mut stream| async move {
        loop {
            stream.read_u8().await?;
        }
    })
    .await;
    let began = Instant::now();
    let trial = Trial { proxy: Some(proxy_at(port)), ..Trial::of("https://a.example/") };
    assert_eq!(trial.fault().await, HttpFault::Proxy(ProxyFault::TimedOut));
    assert!(began.elapsed() < TEST_TIMEOUT);
}

#[tokio::test]
async fn forbidden_target_is_not_requested_from_proxy() {
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    let port = server(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        async { Ok(()) }
    })
    .await;
    for url in [
        "http://169.254.169.254/",
        "https://[::ffff:169.254.169.254]/",
        "https://[fe80::1]/",
        "http://metadata.google.internal/",
        "https://METADATA/",
        "http://instance-data/",
    ] {
        let refused = Trial { proxy: Some(proxy_at(port)), ..Trial::of(url) }.fault().await;
        assert!(matches!(refused, HttpFault::Forbidden(_)), "{url}: {refused:?}");
    }
    let reach = AllowedAddresses { everything: false, ..Trial::of("").reach };
    let private = Trial { proxy: Some(proxy_at(port)), reach, ..Trial::of("https://10.0.0.1/") }
        .fault()
        .await;
    assert!(matches!(private, HttpFault::Ungranted(..)), "{private:?}");
    assert_eq!(connections.load(Ordering::Relaxed), 0);
}

/// Starts a server that answers `requests` requests per connection with the number of the
/// connection, and then closes the connection silently. Returns its port.
async fn counting(requests: usize) -> u16 {
    let opened = Arc::new(AtomicUsize::new(0));
    server(move |mut stream| {
        let number = opened.fetch_add(1, Ordering::SeqCst);
        async move {
            for _ in 0..requests {
                head(&mut stream).await?;
                let text = format!("HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n{number}");
                stream.write_all(text.as_bytes()).await?;
            }
            stream.shutdown().await
        }
    })
    .await
}

/// Returns the number of the connection that answered the trial.
async fn number(trial: Trial) -> String {
    let answered = trial.run().await.0.unwrap();
    String::from_utf8(answered.body.to_vec()).unwrap()
}

fn kept_by(port: u16, pool: &Arc<ConnectionPool>, mount: &'static str) -> Trial {
    let reuse = Some((Arc::clone(pool), mount));
    Trial { kept: reuse, ..Trial::of(format!("http://localhost:{port}/")) }
}

#[tokio::test]
async fn safe_request_reuses_connection_and_change_opens_own() {
    let (port, pool) = (counting(9).await, Arc::default());
    assert_eq!(number(kept_by(port, &pool, "m")).await, "0");
    assert_eq!(number(kept_by(port, &pool, "m")).await, "0");
    assert_eq!(number(Trial::of(format!("http://localhost:{port}/"))).await, "1", "a change");
    assert_eq!(number(kept_by(port, &pool, "m")).await, "0");
    assert_eq!(number(kept_by(port, &pool, "another")).await, "2", "of another mount");
    pool.close_mount("m");
    assert_eq!(number(kept_by(port, &pool, "m")).await, "3");
    pool.close_all();
    assert_eq!(number(kept_by(port, &pool, "m")).await, "4");
}

#[tokio::test]
async fn connection_closed_by_server_is_replaced_transparently() {
    let (port, pool) = (counting(1).await, Arc::default());
    for expected in ["0", "1", "2"] {
        assert_eq!(number(kept_by(port, &pool, "m")).await, expected);
    }
}

#[tokio::test]
async fn kept_connection_checks_grants_of_each_request() {
    let (port, pool) = (counting(9).await, Arc::default());
    assert_eq!(number(kept_by(port, &pool, "m")).await, "0");
    let mut narrowed = kept_by(port, &pool, "m");
    narrowed.reach.everything = false;
    assert!(matches!(narrowed.fault().await, HttpFault::Ungranted(..)));
    assert_eq!(number(kept_by(port, &pool, "m")).await, "1", "it was closed");
}

#[tokio::test]
async fn requests_on_kept_connection_count_bytes_separately() {
    let (port, pool) = (counting(9).await, Arc::default());
    for _ in 0..3 {
        let trial = Trial { most_bytes: 400, ..kept_by(port, &pool, "m") };
        let (answered, is_over) = trial.run().await;
        assert!(answered.is_ok() && !is_over);
    }
    let poor = Trial { most_bytes: 10, ..kept_by(port, &pool, "m") };
    assert!(poor.run().await.1, "the bytes of this one are used up");
}

#[tokio::test]
async fn a_connection_with_other_security_is_not_shared() {
    let (origin, _) = parse_url("https://localhost:1/").unwrap();
    let tls = trusting(AUTHORITY);
    let purpose = |tls: Option<&HttpTls>| HttpPoolKey::of("m", &origin, tls);
    assert!(purpose(Some(&tls)) == purpose(Some(&trusting(AUTHORITY))));
    let named = HttpTls { server_name: Some("a".to_owned()), ..trusting(AUTHORITY) };
    let keyed = HttpTls { client_key: Some("a".to_owned()), ..trusting(AUTHORITY) };
    for other in [None, Some(&trusting(OTHER_AUTHORITY)), Some(&named), Some(&keyed)] {
        assert!(purpose(other) != purpose(Some(&tls)));
    }
    assert!(purpose(Some(&named)) != purpose(Some(&keyed)));
}

#[tokio::test]
async fn idle_connections_of_mount_are_bounded() {
    let (port, pool) = (counting(9).await, Arc::default());
    let asking: Vec<_> = (0..20).map(|_| tokio::spawn(number(kept_by(port, &pool, "m")))).collect();
    for request in asking {
        request.await.unwrap();
    }
    assert!(pool.count() <= limits::IDLE_CONNECTIONS_OF_MOUNT);
}

#[tokio::test]
async fn unused_connection_closes_after_idle_time() {
    let (port, pool) =
        (counting(9).await, Arc::new(ConnectionPool::for_time(Duration::from_millis(50))));
    for expected in ["0", "1"] {
        assert_eq!(number(kept_by(port, &pool, "m")).await, expected);
        let all_closed = async {
            while pool.count() > 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(TEST_TIMEOUT, all_closed)
            .await
            .expect("all connections are closed in time");
    }
}

//! Connections over real sockets: served, refused, and finished while the server stops.

use super::*;
use crate::config::UnixSettings;
use crate::log::testing::RecordingLog;
use crate::proxies::TrustedProxies;
use bulkhead_api::BodyAdmission;
use bulkhead_wire::failure::Failure;
use bulkhead_wire::log_level::LogLevel;
use bulkhead_wire::name::MountPath;
use bulkhead_wire::raw::{RawBasePath, RawRequest, RawResponse};
use bulkhead_wire::request::{Request, RequestHead};
use bulkhead_wire::response::{Response, ResponseBody};
use serde_json::json;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;

struct Quiet;

impl Log for Quiet {
    fn line(&self, _: LogLevel, _: &str, _: &[(&str, String)]) {}
}

/// Size of a shared document, and of an answer that is not shared, in bytes.
const DOCUMENT: usize = 100 << 10;
const LARGE: usize = 1 << 20;

#[derive(Default)]
struct Gate {
    entered: Notify,
    leave: Notify,
}

impl RequestAnswerer for Gate {
    fn raw_place(&self, path: &str) -> Option<RawBasePath> {
        let mount = MountPath::new("acl").unwrap();
        path.starts_with("acl/").then(|| RawBasePath {
            mount,
            base: "/v1/acl/".to_owned(),
            body_limit: 16,
        })
    }

    fn is_row(&self, path: &str) -> bool {
        path == "acl/row"
    }

    fn own_raw_place(&self, mount: &MountPath) -> RawBasePath {
        RawBasePath { mount: mount.clone(), base: "/".to_owned(), body_limit: 16 }
    }

    async fn check_raw(&self, _: std::net::IpAddr) -> Result<(), Failure> {
        Ok(())
    }

    async fn identify_raw(&self, _: RawRequest) -> Result<bool, Failure> {
        Ok(false)
    }

    async fn answer_raw(self: Arc<Self>, request: RawRequest) -> RawResponse {
        let body = [request.path.as_bytes(), b"?", request.query.as_bytes(), b" ", &request.body];
        let headers = vec![("X-Method".to_owned(), request.method)];
        RawResponse { status: 200, headers, body: Arc::new(body.concat()) }
    }

    async fn admit_body(&self, _: &RequestHead<'_>) -> BodyAdmission {
        BodyAdmission::Whole
    }

    async fn has_token(&self, head: &RequestHead<'_>) -> bool {
        head.token.is_some()
    }

    async fn answer(self: Arc<Self>, request: Request) -> Response {
        if request.path == "wait" {
            self.entered.notify_one();
            self.leave.notified().await;
        }
        if let Some(refusal) = &request.refusal {
            return Response::failed(refusal);
        }
        if request.path == "nothing" {
            return Response::no_content();
        }
        if request.path == "document" {
            let body = ResponseBody::Document(Arc::new(vec![b' '; DOCUMENT]));
            return Response::new(200, body);
        }
        if request.path == "large" {
            return Response::bare(200, json!("x".repeat(LARGE)));
        }
        if request.path == "huge" {
            return Response::bare(200, json!("x".repeat(8 * LARGE)));
        }
        let remote = format!("{} {}", request.remote, request.remote_port);
        Response::bare(
            200,
            json!({"path": request.path, "fields": request.fields, "remote": remote}),
        )
    }
}

struct Running {
    address: SocketAddr,
    gate: Arc<Gate>,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<DrainOutcome>,
}

async fn start() -> Running {
    start_as(ListenerConfig::at("127.0.0.1:0")).await
}

async fn start_as(config: ListenerConfig) -> Running {
    start_with(config, None).await
}

async fn start_with(config: ListenerConfig, tls: Option<Arc<ListenerTls>>) -> Running {
    let (socket, address) = bind("127.0.0.1:0", "with -x").await.unwrap();
    start_at(
        vec![BoundSocket::Tcp { socket, address, tls, figures: Arc::default() }],
        address,
        config,
    )
}

fn start_at(doors: Vec<BoundSocket>, address: SocketAddr, config: ListenerConfig) -> Running {
    start_within(doors, address, ListenerLimits::new(config, 64))
}

fn start_within(doors: Vec<BoundSocket>, address: SocketAddr, limits: ListenerLimits) -> Running {
    let gate = Arc::new(Gate::default());
    let (stop, stopped) = oneshot::channel::<()>();
    let stopped = async move { stopped.await.unwrap_or_default() };
    let ended = tokio::spawn(serve(doors, Arc::clone(&gate), limits, Arc::new(Quiet), stopped));
    Running { address, gate, stop, ended }
}

/// The end of a listener whose requests all ended.
const COMPLETE: DrainOutcome = DrainOutcome { is_complete: true, cut: 0 };

async fn open(config: &ListenerConfig, log: &Arc<dyn Log>) -> Result<Vec<BoundSocket>, String> {
    BoundSocket::open_all(config, ListenerSockets::default(), "with -x", log).await
}

/// Sends `text` and reads until the server closes the connection.
async fn exchange(address: SocketAddr, text: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
}

#[tokio::test]
async fn a_request_is_answered_over_a_socket() {
    let running = start().await;
    let answer = exchange(running.address, &get("/v1/sys/health?a=b")).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(
        answer.contains("\r\n\r\n{\"fields\":{\"a\":\"b\"},\"path\":\"sys/health\","),
        "{answer}"
    );
}

#[tokio::test]
async fn listener_on_all_addresses_has_no_dialled_url() {
    for (bind_address, is_dialled) in [("127.0.0.1:0", true), ("0.0.0.0:0", false)] {
        let (socket, address) = bind(bind_address, "with -x").await.unwrap();
        let url =
            BoundSocket::Tcp { socket, address, tls: None, figures: Arc::default() }.dialled_url();
        assert_eq!(url, is_dialled.then(|| format!("http://{address}")));
    }
}

#[tokio::test]
async fn open_metrics_beyond_loopback_are_warned_of() {
    for (bind_address, opens_metrics, is_warned) in
        [("127.0.0.1:0", true, false), ("0.0.0.0:0", true, true), ("0.0.0.0:0", false, false)]
    {
        let transport = ListenerTransport::Plain;
        let config =
            ListenerConfig { transport, opens_metrics, ..ListenerConfig::at(bind_address) };
        let lines = Arc::new(RecordingLog::default());
        let log: Arc<dyn Log> = Arc::clone(&lines) as Arc<dyn Log>;
        let doors = open(&config, &log).await.unwrap();
        let event = "metrics-without-token-beyond-loopback".to_owned();
        assert_eq!(lines.events().contains(&event), is_warned, "{bind_address}");
        let address = doors[0].address().unwrap().to_string();
        assert_eq!(doors[0].figures().read().address, address, "the port 0 is not shown");
    }
}

#[tokio::test]
async fn client_is_peer_unless_trusted_proxy_names_another() {
    let forwarded = |hops: &str| {
        get("/v1/a").replace("\r\n\r\n", &format!("\r\nX-Forwarded-For: {hops}\r\n\r\n"))
    };
    let here = start().await;
    let answer = exchange(here.address, &forwarded("198.51.100.1")).await;
    assert!(
        answer.contains("\"remote\":\"127.0.0.1 ") && !answer.contains("127.0.0.1 0\""),
        "{answer}"
    );
    let proxies = TrustedProxies::new(["127.0.0.0/8"]).unwrap();
    let behind = start_as(ListenerConfig { proxies, ..ListenerConfig::at("127.0.0.1:0") }).await;
    let answer = exchange(behind.address, &forwarded("127.0.0.9, 2001:db8::1, 127.0.0.2")).await;
    assert!(answer.contains("\"remote\":\"2001:db8::1 0\""), "{answer}");
    let answer = exchange(behind.address, &get("/v1/a")).await;
    assert!(
        answer.contains("\"remote\":\"127.0.0.1 ") && !answer.contains("127.0.0.1 0\""),
        "{answer}"
    );
    let answer = exchange(behind.address, &forwarded("unknown")).await;
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("X-Forwarded-For"), "{answer}");
}

#[tokio::test]
async fn unix_client_header_counts_only_on_trusted_socket() {
    let path = std::env::temp_dir().join(format!("bh-proxy-{}", std::process::id()));
    for (is_trusted_proxy, expected) in [(false, "127.0.0.1 0"), (true, "198.51.100.1 0")] {
        let settings = UnixSettings {
            path: path.clone(),
            mode: 0o600,
            user: None,
            group: None,
            is_trusted_proxy,
            opens_metrics: false,
        };
        let proxies = TrustedProxies::new(["127.0.0.1"]).unwrap();
        let config = ListenerConfig {
            address: None,
            unix: Some(settings),
            proxies,
            ..ListenerConfig::at("127.0.0.1:0")
        };
        let log: Arc<dyn Log> = Arc::new(Quiet);
        let doors = open(&config, &log).await.unwrap();
        let running = start_at(doors, ([127, 0, 0, 1], 0).into(), config);
        let mut stream = tokio::net::UnixStream::connect(&path).await.unwrap();
        let request = get("/v1/a").replace("\r\n\r\n", "\r\nX-Forwarded-For: 198.51.100.1\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.contains(&format!("\"remote\":\"{expected}\"")), "{answer}");
        running.stop.send(()).unwrap();
        assert_eq!(running.ended.await.unwrap(), COMPLETE);
    }
}

#[tokio::test]
async fn head_has_headers_of_get_without_body() {
    let running = start().await;
    let answer = exchange(running.address, &get("/v1/sys/health").replace("GET", "HEAD")).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\n"), "{answer}");
}

#[tokio::test]
async fn headers_over_the_limits_are_431() {
    let running = start().await;
    for header in [
        format!("x-a: {}\r\n", "a".repeat(40_000)),
        "x-a: a\r\n".repeat(101),
        format!("x-a: {}\r\n", "a".repeat(90_000)),
    ] {
        let request = format!("GET /v1/a HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{header}\r\n");
        let answer = exchange(running.address, &request).await;
        assert!(answer.starts_with("HTTP/1.1 431 "), "{} bytes: {answer}", request.len());
        assert!(answer.contains("{\"errors\":[\"the head"), "{} bytes: {answer}", request.len());
    }
}

#[tokio::test]
async fn non_http_bytes_are_refused_and_server_continues() {
    let running = start().await;
    assert!(
        exchange(running.address, "\u{16}\u{3}\u{1} hello\r\n\r\n")
            .await
            .starts_with("HTTP/1.1 400 ")
    );
    assert!(exchange(running.address, &get("/v1/a")).await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn stop_finishes_requests_closes_idle_and_refuses_new() {
    let Running { address, gate, stop, mut ended } = start().await;
    let idle = TcpStream::connect(address).await.unwrap();
    let waiting = tokio::spawn(async move { exchange(address, &get("/v1/wait")).await });
    gate.entered.notified().await;
    stop.send(()).unwrap();
    let early = tokio::time::timeout(Duration::from_millis(50), &mut ended).await;
    assert!(early.is_err(), "a request is in flight");
    assert!(TcpStream::connect(address).await.is_err(), "nothing new is accepted");
    gate.leave.notify_one();
    assert!(waiting.await.unwrap().starts_with("HTTP/1.1 200 "));
    assert_eq!(ended.await.unwrap(), COMPLETE, "the idle connection ended, too");
    drop(idle);
}

#[tokio::test]
async fn address_in_use_error_names_remedy() {
    let (_socket, taken) = bind("127.0.0.1:0", "with -x").await.unwrap();
    let error = bind(&taken.to_string(), "with -x").await.unwrap_err();
    let expected = format!("cannot listen on {taken}: ");
    assert!(
        error.starts_with(&expected) && error.ends_with("; choose another address with -x"),
        "{error}"
    );
    assert!(bind("nowhere", "with -x").await.unwrap_err().contains("cannot listen on nowhere: "));
}

/// Opens a listener and returns its log events.
async fn opened(address: &str, transport: ListenerTransport) -> Result<Vec<String>, String> {
    let lines = Arc::new(RecordingLog::default());
    let log: Arc<dyn Log> = Arc::clone(&lines) as Arc<dyn Log>;
    let config = ListenerConfig { transport, ..ListenerConfig::at(address) };
    let doors = open(&config, &log).await?;
    assert_eq!(doors.len(), 1);
    Ok(lines.events())
}

#[tokio::test]
async fn plain_http_beyond_loopback_needs_setting_and_warns() {
    assert_eq!(opened("127.0.0.1:0", ListenerTransport::PlainHere).await.unwrap(), [""; 0]);
    let refused = opened("0.0.0.0:0", ListenerTransport::PlainHere).await.unwrap_err();
    assert!(refused.contains("tls_cert_file") && refused.contains("--tls-disable"), "{refused}");
    assert_eq!(
        opened("0.0.0.0:0", ListenerTransport::Plain).await.unwrap(),
        ["plain-http-beyond-loopback"]
    );
}

mod methods;
mod over_tls;
mod stops;

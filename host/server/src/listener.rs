//! Connections: how many, how slow they may be, and how they end.
//!
//! The attacks this file stops: connections that send their headers a byte at a time, and more
//! connections than there are file descriptors. Who has to go when there are too many is in
//! `places.rs`, those that never read in `patience.rs`.

use crate::config::Listener;
use crate::headers;
use crate::http::{Answerer, Front};
use crate::patience::Patient;
use crate::places::{self, Leave, Place, Places};
use crate::proxies::TrustedProxies;
use crate::worded::Worded;
use bulkhead_core::log::Log;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// Below so many file descriptors the operator is told what a server needs.
const DESCRIPTORS: u64 = 1024;

/// How long headers may take to arrive, and how long a connection may stay idle between requests.
const HEADER_TIME: Duration = Duration::from_secs(10);

/// How long a client may take nothing of its answer.
const READ_TIME: Duration = Duration::from_secs(30);

/// How long a stopping server waits for requests in flight.
const GRACE: Duration = Duration::from_secs(30);

/// How long to leave a failing `accept` alone: out of file descriptors, there is no event to wait
/// for.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Listens on `address` (`host:port`; port 0 takes a free one) and says where. `elsewhere` says how
/// another address is chosen, for the advice.
///
/// # Errors
/// An address that cannot be had, and what to do.
pub async fn bind(
    address: &str,
    elsewhere: &str,
    log: &Arc<dyn Log>,
) -> Result<(TcpListener, SocketAddr), String> {
    let cannot = |error: io::Error| {
        format!("cannot listen on {address}: {error}; choose another address {elsewhere}")
    };
    let socket = TcpListener::bind(address).await.map_err(cannot)?;
    let address = socket.local_addr().map_err(cannot)?;
    if !address.ip().is_loopback() {
        // There is no TLS yet, so that tokens, keys and passwords pass as they are.
        log.line("warn", "plain-http-beyond-this-machine", &[("address", address.to_string())]);
    }
    Ok((socket, address))
}

/// How many connections there may be when the process may have so many `descriptors`; says so where
/// that is few.
pub fn connections(descriptors: u64, log: &Arc<dyn Log>) -> usize {
    let most = places::most(descriptors);
    if descriptors < DESCRIPTORS {
        let told = [("descriptors", descriptors.to_string()), ("connections", most.to_string())];
        log.line("warn", "few-file-descriptors", &told);
    }
    most
}

/// Serves `socket` as `told`, up to so many `connections` at a time, until `stop` ends, then
/// accepts nothing more and waits for requests in flight. Returns whether all of them ended in time
/// (30 s).
pub async fn serve<A: Answerer>(
    socket: TcpListener,
    answerer: Arc<A>,
    told: Terms,
    log: Arc<dyn Log>,
    stop: impl Future<Output = ()>,
) -> bool {
    let Terms { told, connections } = told;
    let (work, mut ended) = mpsc::channel(1);
    let places = Places::new(connections, told.connections_per_address);
    let door = Door { socket, places: Arc::clone(&places), proxies: told.proxies.clone(), log };
    let front = Arc::new(Front::new(answerer, told, work));
    let mut stop = pin!(stop);
    loop {
        tokio::select! {
            biased;
            () = &mut stop => break,
            arrival = door.next() => {
                tokio::spawn(connection(arrival, Arc::clone(&front)));
            }
        }
    }
    drop(door);
    places.close();
    drop(front);
    tokio::time::timeout(GRACE, ended.recv()).await.is_ok()
}

/// On what terms connections are served.
pub struct Terms {
    /// What the listener is told.
    pub told: Listener,
    /// Most connections at a time.
    pub connections: usize,
}

/// Where connections come in.
struct Door {
    socket: TcpListener,
    places: Arc<Places>,
    proxies: TrustedProxies,
    log: Arc<dyn Log>,
}

struct Arrival {
    stream: TcpStream,
    remote: SocketAddr,
    place: Place,
}

impl Door {
    /// The next connection that has a place.
    async fn next(&self) -> Arrival {
        loop {
            match self.socket.accept().await {
                Ok((stream, peer)) => {
                    // an IPv4 client of an IPv6 socket is an IPv4 client
                    let remote = SocketAddr::new(peer.ip().to_canonical(), peer.port());
                    let is_proxy = self.proxies.trusts(remote.ip());
                    if let Some(place) = self.places.enter(remote.ip(), is_proxy).await {
                        return Arrival { stream, remote, place };
                    }
                }
                Err(error) => {
                    self.places.make_room();
                    self.log.line("warn", "accept-failed", &[("cause", error.to_string())]);
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

/// A request came over a connection that was told to go, and is not begun.
#[derive(Debug)]
struct ToldToGo;

impl fmt::Display for ToldToGo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the connection was idle and its place was needed")
    }
}

impl std::error::Error for ToldToGo {}

async fn connection<A: Answerer>(arrival: Arrival, front: Arc<Front<A>>) {
    let Arrival { stream, remote, place } = arrival;
    let (front, place) = (&*front, &place);
    // Answers are small and whole; a socket that refuses the option only answers a little later.
    stream.set_nodelay(true).unwrap_or_default();
    let service = service_fn(move |request| async move {
        let _busy = place.busy().ok_or(ToldToGo)?;
        Ok::<_, ToldToGo>(front.serve(request, remote).await)
    });
    let stream = TokioIo::new(Worded::new(Patient::new(stream, READ_TIME)));
    let mut connection = pin!(protocol().serve_connection(stream, service));
    // A connection that fails concerns its client alone, and hyper has closed it: nothing to
    // report.
    tokio::select! {
        _ = connection.as_mut() => return,
        leave = place.told_to_go() => match leave {
            Leave::AtOnce => return,
            Leave::AfterAnswer => connection.as_mut().graceful_shutdown(),
        },
    }
    connection.await.unwrap_or_default();
}

fn protocol() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIME)
        // ours refuses first, with a body that says why
        .max_header_size(2 * headers::LIST_MAX);
    builder
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::testing::Lines;
    use crate::proxies::TrustedProxies;
    use bulkhead_wire::request::Request;
    use bulkhead_wire::response::Response;
    use serde_json::json;
    use std::net::SocketAddr;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::sync::{Notify, oneshot};
    use tokio::task::JoinHandle;

    struct Quiet;

    impl Log for Quiet {
        fn line(&self, _: &str, _: &str, _: &[(&str, String)]) {}
    }

    #[derive(Default)]
    struct Gate {
        entered: Notify,
        leave: Notify,
    }

    impl Answerer for Gate {
        async fn answer(self: Arc<Self>, request: Request) -> Response {
            if request.path == "wait" {
                self.entered.notify_one();
                self.leave.notified().await;
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
        ended: JoinHandle<bool>,
    }

    async fn start() -> Running {
        start_as(Listener::at("127.0.0.1:0")).await
    }

    async fn start_as(told: Listener) -> Running {
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let gate = Arc::new(Gate::default());
        let (stop, stopped) = oneshot::channel::<()>();
        let stopped = async move { stopped.await.unwrap_or_default() };
        let told = Terms { told, connections: 64 };
        let ended = tokio::spawn(serve(socket, Arc::clone(&gate), told, Arc::new(Quiet), stopped));
        Running { address, gate, stop, ended }
    }

    /// Sends `text` and reads until the server closes.
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
    async fn who_asks_is_the_peer_unless_a_trusted_proxy_says_who() {
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
        let behind = start_as(Listener { proxies, ..Listener::at("127.0.0.1:0") }).await;
        let answer =
            exchange(behind.address, &forwarded("127.0.0.9, 2001:db8::1, 127.0.0.2")).await;
        assert!(answer.contains("\"remote\":\"2001:db8::1 0\""), "{answer}");
        let answer = exchange(behind.address, &get("/v1/a")).await;
        assert!(
            answer.contains("\"remote\":\"127.0.0.1 ") && !answer.contains("127.0.0.1 0\""),
            "{answer}"
        );
        let answer = exchange(behind.address, &forwarded("unknown")).await;
        assert!(
            answer.starts_with("HTTP/1.1 400 ") && answer.contains("X-Forwarded-For"),
            "{answer}"
        );
    }

    #[tokio::test]
    async fn head_has_the_headers_of_get_and_no_body() {
        let running = start().await;
        let answer = exchange(running.address, &get("/v1/sys/health").replace("GET", "HEAD")).await;
        assert!(
            answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\n"),
            "{answer}"
        );
    }

    #[tokio::test]
    async fn headers_over_the_limits_are_431() {
        let running = start().await;
        for header in [
            format!("x-a: {}\r\n", "a".repeat(40_000)),
            "x-a: a\r\n".repeat(101),
            format!("x-a: {}\r\n", "a".repeat(90_000)),
        ] {
            let request =
                format!("GET /v1/a HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{header}\r\n");
            let answer = exchange(running.address, &request).await;
            assert!(answer.starts_with("HTTP/1.1 431 "), "{} bytes: {answer}", request.len());
            assert!(
                answer.contains("{\"errors\":[\"the head"),
                "{} bytes: {answer}",
                request.len()
            );
        }
    }

    #[tokio::test]
    async fn what_is_not_http_is_refused_and_the_server_lives_on() {
        let running = start().await;
        assert!(
            exchange(running.address, "\u{16}\u{3}\u{1} hello\r\n\r\n")
                .await
                .starts_with("HTTP/1.1 400 ")
        );
        assert!(exchange(running.address, &get("/v1/a")).await.starts_with("HTTP/1.1 200 "));
    }

    #[tokio::test]
    async fn stopping_finishes_what_is_in_flight_closes_idle_connections_and_accepts_nothing_more()
    {
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
        assert!(ended.await.unwrap(), "all ended in time, the idle connection too");
        drop(idle);
    }

    #[tokio::test]
    async fn an_address_in_use_says_what_to_do() {
        let log: Arc<dyn Log> = Arc::new(Quiet);
        let (_socket, taken) = bind("127.0.0.1:0", "with -x", &log).await.unwrap();
        let error = bind(&taken.to_string(), "with -x", &log).await.unwrap_err();
        let expected = format!("cannot listen on {taken}: ");
        assert!(
            error.starts_with(&expected) && error.ends_with("; choose another address with -x"),
            "{error}"
        );
        assert!(
            bind("nowhere", "with -x", &log)
                .await
                .unwrap_err()
                .contains("cannot listen on nowhere: ")
        );
    }

    #[tokio::test]
    async fn listening_beyond_this_machine_is_warned_about() {
        let lines = Arc::new(Lines::default());
        let log: Arc<dyn Log> = Arc::clone(&lines) as Arc<dyn Log>;
        bind("127.0.0.1:0", "with -x", &log).await.unwrap();
        assert!(lines.events().is_empty());
        bind("0.0.0.0:0", "with -x", &log).await.unwrap();
        assert_eq!(lines.events(), ["plain-http-beyond-this-machine"]);
    }
}

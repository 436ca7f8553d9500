//! TLS on a kept connection, in HTTP/1.1 and HTTP/2, and at start, against plain HTTP/1.1.
//!
//! Two requests are compared: a read of a role, as in `requests`, and a look-up of the own token,
//! the cheapest request with a token, because it enters no component. The same client library asks
//! two servers in turns on the same cores, so that a busy neighbour slows all alike. The load
//! encrypts and decrypts as much as the server. The goal is therefore for the server's own
//! processor time of a read, which is what counts on a server with its own cores. The shares of the
//! rates are only shown.

mod figures;
mod load;

use bulkhead_tests::Bulkhead;
use bulkhead_tests::bulkhead::ROOT;
use bulkhead_tests::paths::{Folder, binary};
use bulkhead_tests::tls_client;
use figures::quantile;
use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use load::cpu;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

const CONNECTIONS: usize = 64;
/// Number of concurrent requests on a shared HTTP/2 connection.
const SHARED: usize = 8;
const ROUNDS: usize = 7;
const TIME: Duration = Duration::from_millis(1_500);

/// Number of compared ways to ask.
const WAYS: usize = 4;

/// Minimum share: the plain server's processor time for a read, divided by the time over TLS.
const GOAL: f64 = 0.85;
/// Requests. The goal is for the first one.
const PATHS: [&str; 2] = ["database/roles/reader", "auth/token/lookup-self"];

/// Number of starts of each server.
const STARTS: usize = 9;
/// Maximum ratio of a start with TLS and a start without.
const START_GOAL: f64 = 1.10;

const NAMES: [&str; WAYS] =
    ["plain HTTP/1.1", "TLS, HTTP/1.1", "TLS, HTTP/2", "TLS, HTTP/2, 8 at a time"];

#[derive(Clone, Copy, PartialEq)]
enum Way {
    Plain,
    Tls,
    Tls2,
    /// Eight concurrent requests on each connection, over an eighth of the connections.
    Tls2Shared,
}

enum Sender {
    Http1(http1::SendRequest<Empty<Bytes>>),
    Http2(http2::SendRequest<Empty<Bytes>>),
}

impl Sender {
    async fn open(server: &Bulkhead, way: Way, connector: &TlsConnector) -> Self {
        let stream = TcpStream::connect(server.address()).await.expect("the server listens");
        stream.set_nodelay(true).expect("a socket takes the option");
        if way == Way::Plain {
            let (sender, connection) =
                http1::handshake(TokioIo::new(stream)).await.expect("a connection");
            tokio::spawn(connection);
            return Self::Http1(sender);
        }
        let name = ServerName::try_from("localhost").expect("a name");
        let stream = TokioIo::new(connector.connect(name, stream).await.expect("a handshake"));
        if way == Way::Tls {
            let (sender, connection) = http1::handshake(stream).await.expect("a connection");
            tokio::spawn(connection);
            return Self::Http1(sender);
        }
        let handshake = http2::handshake(TokioExecutor::new(), stream);
        let (sender, connection) = handshake.await.expect("a connection");
        tokio::spawn(connection);
        Self::Http2(sender)
    }

    /// Returns the same connection for another concurrent request, if the protocol allows it.
    fn again(&self) -> Option<Self> {
        match self {
            Self::Http1(_) => None,
            Self::Http2(sender) => Some(Self::Http2(sender.clone())),
        }
    }

    async fn ask(&mut self, path: &str) {
        let request = Request::builder().header("x-vault-token", ROOT);
        let answer = match self {
            Self::Http1(sender) => {
                let request = request
                    .uri(format!("/v1/{path}"))
                    .header("host", "localhost")
                    .body(Empty::new());
                sender.ready().await.expect("a kept connection");
                sender.send_request(request.expect("a request")).await
            }
            Self::Http2(sender) => {
                let request =
                    request.uri(format!("https://localhost/v1/{path}")).body(Empty::new());
                sender.ready().await.expect("a kept connection");
                sender.send_request(request.expect("a request")).await
            }
        };
        let answer = answer.expect("an answer");
        assert_eq!(answer.status(), 200);
        answer.into_body().collect().await.expect("a whole answer");
    }
}

/// Answers per second, and the server's processor time per answer in seconds.
#[derive(Clone, Copy)]
struct Measured {
    rate: f64,
    cost: f64,
}

async fn measure(
    server: &Bulkhead,
    way: Way,
    connector: &TlsConnector,
    path: &'static str,
) -> Measured {
    let mut senders = Vec::new();
    let shared = if way == Way::Tls2Shared { SHARED } else { 1 };
    for _ in 0..CONNECTIONS / shared {
        let mut sender = Sender::open(server, way, connector).await;
        sender.ask(path).await;
        senders.extend((1..shared).filter_map(|_| sender.again()));
        senders.push(sender);
    }
    let (used, begun) = (cpu(server.pid()), Instant::now());
    let asking: Vec<_> = senders
        .into_iter()
        .map(|mut sender| {
            tokio::spawn(async move {
                let mut answered = 0_u32;
                while begun.elapsed() < TIME {
                    sender.ask(path).await;
                    answered += 1;
                }
                answered
            })
        })
        .collect();
    let mut answered = 0;
    for one in asking {
        answered += one.await.expect("no connection failed");
    }
    let answered = f64::from(answered);
    Measured {
        rate: answered / begun.elapsed().as_secs_f64(),
        cost: (cpu(server.pid()) - used) / answered,
    }
}

fn connector(server: &Bulkhead, protocol: &str) -> TlsConnector {
    let authority = CertificateDer::from_pem_file(server.authority())
        .expect("the server's authority is readable");
    tls_client::trust([authority], &[protocol])
}

fn main() {
    let plain = Bulkhead::start();
    let mut tls = Bulkhead::prepared(binary(), Folder::new("bench-tls")).over_tls();
    tls.start_again();
    let (one, two) = (connector(&tls, "http/1.1"), connector(&tls, "h2"));
    let ways = [
        (&plain, Way::Plain, &one),
        (&tls, Way::Tls, &one),
        (&tls, Way::Tls2, &two),
        (&tls, Way::Tls2Shared, &two),
    ];
    [&plain, &tls].into_iter().for_each(write_role);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be built");
    let mut found = serde_json::Map::new();
    for path in PATHS {
        let mut rounds: Vec<[Measured; WAYS]> = Vec::new();
        // The first round is a warm-up.
        for round in 0..=ROUNDS {
            let found = ways.map(|(server, way, connector)| {
                runtime.block_on(measure(server, way, connector, path))
            });
            if round > 0 {
                rounds.push(found);
            }
        }
        found.insert(path.to_owned(), report(path, &rounds));
    }
    found.insert("start".to_owned(), starts(&runtime, [plain, tls]));
    figures::save("tls", Value::Object(found));
}

/// Uses the command line, which speaks TLS.
fn write_role(server: &Bulkhead) {
    let mut command = server.command(&["write", PATHS[0], "db_name=orders"]);
    let command = command.arg("creation_statements=CREATE ROLE \"{{name}}\"");
    let speaks_tls = server.url().starts_with("https");
    let output = command.envs(speaks_tls.then(|| ("BULKHEAD_CACERT", server.authority()))).output();
    let output = output.expect("the command line can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Measures the time from the start of a process to its first answer, plain and over TLS in turns.
fn starts(runtime: &tokio::runtime::Runtime, servers: [Bulkhead; 2]) -> Value {
    let [mut plain, mut tls] = servers;
    // A plain connection ignores the connector.
    let unused = connector(&tls, "http/1.1");
    let (mut shares, mut times) = (Vec::new(), [Vec::new(), Vec::new()]);
    for _ in 0..STARTS {
        let without = first_answer(runtime, &mut plain, Way::Plain, |_| unused.clone());
        let with = first_answer(runtime, &mut tls, Way::Tls, |tls| connector(tls, "http/1.1"));
        times[0].push(without);
        times[1].push(with);
        shares.push(with / without);
    }
    let share = quantile(&mut shares, 0.5);
    let [plain, tls] = times.map(|mut times| quantile(&mut times, 0.5) * 1e3);
    println!("from a start to the first answer: plain {plain:.0} ms, over TLS {tls:.0} ms");
    let is_held = share <= START_GOAL;
    println!("  {:.2} of plain: {}", share, if is_held { "held" } else { "MISSED" });
    json!({ "plain_ms": plain, "tls_ms": tls, "share": share, "goal": START_GOAL, "held": is_held })
}

/// Returns the seconds from a start of this server to its first answer. The certificate authority
/// may differ each time.
fn first_answer(
    runtime: &tokio::runtime::Runtime,
    server: &mut Bulkhead,
    way: Way,
    connector: impl Fn(&Bulkhead) -> TlsConnector,
) -> f64 {
    server.kill();
    let begun = Instant::now();
    server.start_again();
    let connector = connector(server);
    runtime.block_on(async {
        Sender::open(server, way, &connector).await.ask("sys/health").await;
    });
    begun.elapsed().as_secs_f64()
}

fn report(path: &str, rounds: &[[Measured; WAYS]]) -> Value {
    let median = |says: &dyn Fn(&[Measured; WAYS]) -> f64| {
        quantile(&mut rounds.iter().map(says).collect::<Vec<_>>(), 0.5)
    };
    println!("GET {path}, {CONNECTIONS} kept connections, {ROUNDS} rounds");
    println!("{:26} requests/s   of plain   of plain's cpu   server's us", "");
    let mut found = serde_json::Map::new();
    for (index, name) in NAMES.iter().enumerate() {
        let rate = median(&|round| round[index].rate);
        let share = median(&|round| round[index].rate / round[0].rate);
        let cpu_share = median(&|round| round[0].cost / round[index].cost);
        let micros = median(&|round| round[index].cost * 1e6);
        println!(
            "  {name:24} {rate:>10.0} {:>8.1} % {:>14.1} % {micros:>13.1}",
            share * 100.0,
            cpu_share * 100.0
        );
        let is_held = (path == PATHS[0]).then_some(cpu_share >= GOAL);
        let said = if is_held == Some(false) { "MISSED (85 % of plain's cpu)" } else { "held" };
        println!("  {}", is_held.map_or("not judged", |_| said));
        found.insert(
            (*name).to_owned(),
            json!({ "per_s": rate.round(), "share": share, "cpu_share": cpu_share,
                    "server_us": micros, "goal": GOAL, "held": is_held }),
        );
    }
    Value::Object(found)
}
